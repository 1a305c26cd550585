//! Codec of replies: the index that the reply reflects, the kind of body, the body.

use super::fields::{Fields, Source};
use super::request::{put_name, take_name};
use super::{WireResult, available, cluster, error, ring, types};
use crate::codec::Malformed;
use crate::limits::{
    BUCKETS_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, NAME_BYTES_MAX, ROW_OVERHEAD_BYTES, TTL_MS_MAX,
    VALUE_BYTES_MAX, WHOLE_RANGE_BYTES_MAX,
};
use crate::properties::{Consistency, Properties, Replication, SyncPolicy};
use crate::reply::{Body, BucketDescription, Entry, Moving, Outcome, Page, Reply, Row};
use crate::{BucketId, Error, GroupId, LogIndex, SessionId, Version};

/// Most rows of a range in one answer: those of a whole range, which may exceed a page's.
const ROWS_MAX: usize = WHOLE_RANGE_BYTES_MAX / ROW_OVERHEAD_BYTES;

pub(super) fn put<W: Fields>(reply: &Reply, out: &mut W) {
    put_body(&reply.body, out.word(reply.index.0));
}

pub(super) fn take(from: &mut Source<'_>) -> WireResult<Reply> {
    let index = LogIndex(from.word("index")?);
    let body = match from.byte("which body")? {
        5 => Body::Updated(take_outcome(from, 0)?),
        6 => Body::Session(SessionId(from.word("session")?)),
        7 => Body::Buckets(from.list((BUCKETS_MAX, 41), "how many buckets", take_bucket)?),
        8 => Body::Types(take_types(from)?),
        9 => Body::Cluster(Box::new(cluster::take(from)?)),
        10 => Body::Cluster(Box::new(cluster::take_whole(from)?)),
        11 => Body::Group(Box::new(cluster::take_placement(from)?)),
        12 => Body::Buckets(take_moving(from)?),
        13 => Body::Buckets(take_replicated(from)?),
        14 => Body::Types(take_replicated_types(from)?),
        15 => Body::Siblings(available::take_siblings(from)?),
        16 => Body::Stored(available::take_stored(from)?),
        17 => Body::Keys(available::take_keys(from)?),
        18 => Body::BucketNames(available::take_names(from)?),
        19 => Body::Ring(ring::take_ring(from)?),
        20 => Body::RingPlan(Box::new(ring::take_plan(from)?)),
        21 => Body::RingTransfers(ring::take_transfers(from)?),
        22 => Body::Typed(Box::new(types::take_found(from)?)),
        23 => Body::Owners(available::take_owners(from)?),
        24 => {
            let (described, secret) = cluster::take_joined(from)?;
            Body::Joined(Box::new(described), secret)
        }
        number => take_shown(number, from)?,
    };
    Ok(Reply::new(index, body))
}

fn put_body<W: Fields>(body: &Body, out: &mut W) {
    match body {
        Body::Done => out.put_u8(0),
        Body::Row(row) => put_row(row.as_ref(), out.byte(1)),
        Body::Rows(rows) => {
            out.byte(2).list(rows, |row, out| put_row(row.as_ref(), out));
        }
        Body::Page(page) => {
            out.byte(3).list(&page.entries, |entry, out| {
                put_row(entry.row.as_ref(), out.bytes(&entry.key));
            });
            out.yes(page.more);
        }
        Body::Count(count) => {
            out.byte(4).word(*count);
        }
        Body::Updated(outcome) => put_outcome(outcome, out.byte(5)),
        Body::Session(session) => {
            out.byte(6).word(session.0);
        }
        Body::Buckets(buckets) => put_buckets(buckets, out),
        Body::Types(types) => put_types(types, out),
        Body::Cluster(described) if cluster::is_plain(described) => {
            cluster::put(described, out.byte(9));
        }
        Body::Cluster(described) => cluster::put_whole(described, out.byte(10)),
        Body::Joined(described, secret) => {
            cluster::put_joined(described, secret, out.byte(24));
        }
        Body::Group(placement) => cluster::put_placement(placement, out.byte(11)),
        Body::Siblings(siblings) => available::put_siblings(siblings, out.byte(15)),
        Body::Stored(context) => available::put_stored(context, out.byte(16)),
        Body::Keys(keys) => available::put_keys(keys, out.byte(17)),
        Body::BucketNames(names) => available::put_names(names, out.byte(18)),
        Body::Ring(ring) => ring::put_ring(ring, out.byte(19)),
        Body::RingPlan(plan) => ring::put_plan(plan, out.byte(20)),
        Body::RingTransfers(transfers) => ring::put_transfers(transfers, out.byte(21)),
        Body::Typed(found) => types::put_found(found, out.byte(22)),
        Body::Owners(owners) => available::put_owners(owners, out.byte(23)),
    }
}

/// Returns true if the format of version 1 can express the properties.
fn plain(properties: &Properties) -> bool {
    properties.replication == Replication::default()
}

/// Appends buckets in the oldest format that can express them all, so that a member of an older
/// version understands as many answers as possible.
fn put_buckets<W: Fields>(buckets: &[BucketDescription], out: &mut W) {
    let rest = buckets.iter().all(|bucket| bucket.moving.is_none());
    let replicated = buckets.iter().any(|bucket| !plain(&bucket.properties));
    let number = if replicated {
        13
    } else if rest {
        7
    } else {
        12
    };
    out.byte(number).list(buckets, put_bucket);
    if number > 7 {
        buckets.iter().for_each(|bucket| put_moving(bucket.moving, out));
    }
    if number > 12 {
        let all = buckets.iter().map(|bucket| &bucket.properties.replication);
        all.for_each(|replication| available::put_replication(replication, out));
    }
}

fn put_types<W: Fields>(types: &[(String, Properties)], out: &mut W) {
    let replicated = types.iter().any(|(_, properties)| !plain(properties));
    out.byte(if replicated { 14 } else { 8 }).list(types, |(name, properties), out| {
        put_properties(properties, out.bytes(name.as_bytes()));
    });
    if replicated {
        let all = types.iter().map(|(_, properties)| &properties.replication);
        all.for_each(|replication| available::put_replication(replication, out));
    }
}

/// Reads the body of a read, alone or among the steps of a sequence; no other kind is allowed
/// there.
fn take_shown(number: u8, from: &mut Source<'_>) -> WireResult<Body> {
    Ok(match number {
        0 => Body::Done,
        1 => Body::Row(take_row(from)?),
        2 => Body::Rows(from.list((KEYS_PER_READ_MAX, 1), "how many rows", take_row)?),
        3 => {
            let entries = from.list((ROWS_MAX, 5), "how many rows", |from| {
                Ok(Entry { key: from.key()?, row: take_row(from)? })
            })?;
            Body::Page(Page { entries, more: from.yes("more")? })
        }
        4 => Body::Count(from.word("count")?),
        _ => return Err(Malformed("which body")),
    })
}

fn put_row<W: Fields>(row: Option<&Row>, out: &mut W) {
    match row {
        None => out.yes(false),
        Some(row) => {
            let out = out.yes(true).bytes(&row.value).word(row.version.0);
            out.maybe_word(row.expires_in_ms)
        }
    };
}

fn take_row(from: &mut Source<'_>) -> WireResult<Option<Row>> {
    from.maybe("row or none", |from| {
        let (value, version) = (from.value()?, Version(from.word("version")?));
        let expires_in_ms = from.maybe("expiry or none", |from| from.word("expiry"))?;
        Ok(Row { value, version, expires_in_ms })
    })
}

fn put_outcome<W: Fields>(outcome: &Outcome, out: &mut W) {
    match outcome {
        Outcome::Done => out.byte(0),
        Outcome::Applied(yes) => out.byte(1).yes(*yes),
        Outcome::Existed(yes) => out.byte(2).yes(*yes),
        Outcome::Old(old) => out.byte(3).maybe_bytes(old.as_ref()),
        Outcome::Swapped { written, old } => out.byte(4).yes(*written).maybe_bytes(old.as_ref()),
        Outcome::Count(count) => out.byte(5).word(*count),
        Outcome::Number(number) => out.byte(6).word(number.cast_unsigned()),
        Outcome::Text(text) => out.byte(7).bytes(text),
        Outcome::Length(length) => out.byte(8).word(*length),
        Outcome::Read(body) => {
            put_body(body, out.byte(9));
            out
        }
        Outcome::Steps(steps) => out.byte(10).list(steps, put_step),
        Outcome::AppliedAt(index) => out.byte(11).word(index.0),
    };
}

/// Reads an outcome inside `depth` sequences.
fn take_outcome(from: &mut Source<'_>, depth: usize) -> WireResult<Outcome> {
    Ok(match from.byte("which outcome")? {
        0 => Outcome::Done,
        1 => Outcome::Applied(from.yes("applied")?),
        2 => Outcome::Existed(from.yes("existed")?),
        3 => Outcome::Old(from.maybe_value()?),
        4 => Outcome::Swapped { written: from.yes("written")?, old: from.maybe_value()? },
        5 => Outcome::Count(from.word("count")?),
        6 => Outcome::Number(from.word("number")?.cast_signed()),
        7 => Outcome::Text(from.value()?),
        8 => Outcome::Length(from.word("length")?),
        9 => {
            let number = from.byte("which body")?;
            Outcome::Read(Box::new(take_shown(number, from)?))
        }
        10 => Outcome::Steps(from.steps(depth, take_step)?),
        11 => Outcome::AppliedAt(LogIndex(from.word("index")?)),
        _ => return Err(Malformed("which outcome")),
    })
}

fn put_step<W: Fields>(step: &Result<Outcome, Error>, out: &mut W) {
    match step {
        Ok(outcome) => put_outcome(outcome, out.yes(true)),
        Err(error) => error::put(error, out.yes(false)),
    }
}

fn take_step(from: &mut Source<'_>, depth: usize) -> WireResult<Result<Outcome, Error>> {
    Ok(if from.yes("a step's answer")? {
        Ok(take_outcome(from, depth)?)
    } else {
        Err(error::take(from)?)
    })
}

fn put_bucket<W: Fields>(bucket: &BucketDescription, out: &mut W) {
    put_name(&bucket.name, out);
    put_properties(&bucket.properties, out.half(bucket.id.0).half(bucket.group.0));
}

fn put_moving<W: Fields>(moving: Option<Moving>, out: &mut W) {
    match moving {
        None => out.yes(false),
        Some(Moving { group, id }) => out.yes(true).half(group.0).half(id.0),
    };
}

/// Reads buckets of which some are moving: the target of each stands after the last bucket.
fn take_moving(from: &mut Source<'_>) -> WireResult<Vec<BucketDescription>> {
    let buckets = take_moves(from)?;
    let rest = buckets.iter().all(|bucket| bucket.moving.is_none());
    if rest { Err(Malformed("moves")) } else { Ok(buckets) }
}

fn take_moves(from: &mut Source<'_>) -> WireResult<Vec<BucketDescription>> {
    let mut buckets = from.list((BUCKETS_MAX, 41), "how many buckets", take_bucket)?;
    for bucket in &mut buckets {
        bucket.moving = from.maybe("a move or none", |from| {
            let group = GroupId(from.half("group")?);
            Ok(Moving { group, id: BucketId(from.half("bucket's number")?) })
        })?;
    }
    Ok(buckets)
}

/// Reads buckets of which some have replication properties of their own, which stand at the end.
fn take_replicated(from: &mut Source<'_>) -> WireResult<Vec<BucketDescription>> {
    let mut buckets = take_moves(from)?;
    take_replications(from, buckets.iter_mut().map(|bucket| &mut bucket.properties))?;
    Ok(buckets)
}

fn take_types(from: &mut Source<'_>) -> WireResult<Vec<(String, Properties)>> {
    from.list((BUCKETS_MAX, 30), "how many types", |from| {
        let name = from.text(NAME_BYTES_MAX, "type")?.to_string();
        Ok((name, take_properties(from)?))
    })
}

fn take_replicated_types(from: &mut Source<'_>) -> WireResult<Vec<(String, Properties)>> {
    let mut types = take_types(from)?;
    take_replications(from, types.iter_mut().map(|(_, properties)| properties))?;
    Ok(types)
}

fn take_replications<'a>(
    from: &mut Source<'_>,
    all: impl Iterator<Item = &'a mut Properties>,
) -> WireResult<()> {
    let mut said = false;
    for properties in all {
        properties.replication = available::take_replication(from)?;
        said |= !plain(properties);
    }
    if said { Ok(()) } else { Err(Malformed("replication")) }
}

fn take_bucket(from: &mut Source<'_>) -> WireResult<BucketDescription> {
    Ok(BucketDescription {
        name: take_name(from)?,
        id: BucketId(from.half("bucket's number")?),
        group: GroupId(from.half("group")?),
        properties: take_properties(from)?,
        moving: None,
    })
}

fn put_properties<W: Fields>(properties: &Properties, out: &mut W) {
    let Properties { consistency, sync, key_bytes_max, value_bytes_max, ttl_ms, .. } = properties;
    out.byte(match consistency {
        Consistency::Consistent => 0,
        Consistency::Available => 1,
    });
    out.byte(match sync {
        SyncPolicy::Sync => 0,
        SyncPolicy::Interval => 1,
    });
    out.word(*key_bytes_max as u64).word(*value_bytes_max as u64).word(*ttl_ms);
}

fn take_properties(from: &mut Source<'_>) -> WireResult<Properties> {
    let properties = Properties {
        consistency: match from.byte("consistency")? {
            0 => Consistency::Consistent,
            1 => Consistency::Available,
            _ => return Err(Malformed("consistency")),
        },
        sync: match from.byte("sync")? {
            0 => SyncPolicy::Sync,
            1 => SyncPolicy::Interval,
            _ => return Err(Malformed("sync")),
        },
        key_bytes_max: from.size("key_bytes_max")?,
        value_bytes_max: from.size("value_bytes_max")?,
        ttl_ms: from.word("ttl_ms")?,
        replication: Replication::default(),
    };
    let within = (1..=KEY_BYTES_MAX).contains(&properties.key_bytes_max)
        && (1..=VALUE_BYTES_MAX).contains(&properties.value_bytes_max)
        && properties.ttl_ms <= TTL_MS_MAX;
    if within { Ok(properties) } else { Err(Malformed("properties")) }
}
