//! Codec of replies: the index that the reply reflects, the kind of body, the body.

use super::fields::{FieldReader, FieldWriter};
use super::request::{put_name, take_name};
use super::{WireResult, available, cluster, error, ring, types};
use crate::codec::Malformed;
use crate::limits::{
    BUCKETS_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, NAME_BYTES_MAX, ROW_OVERHEAD_BYTES, TTL_MS_MAX,
    VALUE_BYTES_MAX, WHOLE_RANGE_BYTES_MAX,
};
use crate::properties::{Consistency, Properties, Replication, SyncPolicy};
use crate::reply::{Body, BucketDescription, Entry, MoveDestination, Outcome, Page, Reply, Row};
use crate::{BucketId, Error, FeatureLevel, GroupId, LogIndex, SessionId, Version};

/// Most rows of a range in one answer: those of an unpaged range, which may exceed a page's.
const ROWS_MAX: usize = WHOLE_RANGE_BYTES_MAX / ROW_OVERHEAD_BYTES;

pub(super) fn put<W: FieldWriter>(reply: &Reply, out: &mut W) {
    put_body(&reply.body, out.u64(reply.index.0));
}

pub(super) fn take(from: &mut FieldReader<'_>) -> WireResult<Reply> {
    let index = LogIndex(from.u64("index")?);
    let body = match from.u8("kind of body")? {
        5 => Body::Updated(take_outcome(from, 0)?),
        6 => Body::Session(SessionId(from.u64("session")?)),
        7 => Body::Buckets(from.list((BUCKETS_MAX, 41), "number of buckets", take_bucket)?),
        8 => Body::Types(take_types(from)?),
        9 => Body::Cluster(Box::new(cluster::take(from)?)),
        10 => Body::Cluster(Box::new(cluster::take_full(from)?)),
        11 => Body::Group(Box::new(cluster::take_placement(from)?)),
        12 => Body::Buckets(take_moving_buckets(from)?),
        13 => Body::Buckets(take_replicated_buckets(from)?),
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
            let (description, secret) = cluster::take_joined(from)?;
            Body::Joined(Box::new(description), secret)
        }
        25 => Body::Buckets(take_counted_buckets(from)?),
        26 => Body::Types(take_counted_types(from)?),
        27 => Body::Size { keys: from.u64("keys")?, bytes: from.u64("bytes")? },
        28 => Body::Cluster(Box::new(cluster::take_with_level(from)?)),
        29 => {
            let (description, secret) = cluster::take_joined_with_level(from)?;
            Body::Joined(Box::new(description), secret)
        }
        number => take_read_body(number, from)?,
    };
    Ok(Reply::new(index, body))
}

fn put_body<W: FieldWriter>(body: &Body, out: &mut W) {
    match body {
        Body::Done => out.put_u8(0),
        Body::Row(row) => put_row(row.as_ref(), out.u8(1)),
        Body::Rows(rows) => {
            out.u8(2).list(rows, |row, out| put_row(row.as_ref(), out));
        }
        Body::Page(page) => {
            out.u8(3).list(&page.entries, |entry, out| {
                put_row(entry.row.as_ref(), out.bytes(&entry.key));
            });
            out.bool(page.more);
        }
        Body::Count(count) => {
            out.u8(4).u64(*count);
        }
        Body::Size { keys, bytes } => {
            out.u8(27).u64(*keys).u64(*bytes);
        }
        Body::Updated(outcome) => put_outcome(outcome, out.u8(5)),
        Body::Session(session) => {
            out.u8(6).u64(session.0);
        }
        Body::Buckets(buckets) => put_buckets(buckets, out),
        Body::Types(types) => put_types(types, out),
        Body::Cluster(description) if description.level > FeatureLevel::FIRST => {
            cluster::put_with_level(description, out.u8(28));
        }
        Body::Cluster(description) if cluster::fits_version_1(description) => {
            cluster::put(description, out.u8(9));
        }
        Body::Cluster(description) => cluster::put_full(description, out.u8(10)),
        Body::Joined(description, secret) if description.level > FeatureLevel::FIRST => {
            cluster::put_joined_with_level(description, secret, out.u8(29));
        }
        Body::Joined(description, secret) => {
            cluster::put_joined(description, secret, out.u8(24));
        }
        Body::Group(placement) => cluster::put_placement(placement, out.u8(11)),
        Body::Siblings(siblings) => available::put_siblings(siblings, out.u8(15)),
        Body::Stored(context) => available::put_stored(context, out.u8(16)),
        Body::Keys(keys) => available::put_keys(keys, out.u8(17)),
        Body::BucketNames(names) => available::put_names(names, out.u8(18)),
        Body::Ring(ring) => ring::put_ring(ring, out.u8(19)),
        Body::RingPlan(plan) => ring::put_plan(plan, out.u8(20)),
        Body::RingTransfers(transfers) => ring::put_transfers(transfers, out.u8(21)),
        Body::Typed(found) => types::put_found(found, out.u8(22)),
        Body::Owners(owners) => available::put_owners(owners, out.u8(23)),
    }
}

/// Returns true if the format of version 1 can express the properties.
fn fits_version_1(properties: &Properties) -> bool {
    properties.replication == Replication::default()
}

/// Appends buckets in the oldest format that can express them all, so that a member of an older
/// version understands as many answers as possible.
fn put_buckets<W: FieldWriter>(buckets: &[BucketDescription], out: &mut W) {
    let properties = || buckets.iter().map(|bucket| &bucket.properties);
    let none_moving = buckets.iter().all(|bucket| bucket.moving.is_none());
    let counted = properties().any(|properties| properties.counted);
    let replicated = counted || !properties().all(fits_version_1);
    let number = match (counted, replicated) {
        (true, _) => 25,
        (_, true) => 13,
        _ if none_moving => 7,
        _ => 12,
    };
    out.u8(number).list(buckets, put_bucket);
    if number > 7 {
        buckets.iter().for_each(|bucket| put_moving(bucket.moving, out));
    }
    put_extensions(properties(), (replicated, counted), out);
}

fn put_types<W: FieldWriter>(types: &[(String, Properties)], out: &mut W) {
    let properties = || types.iter().map(|(_, properties)| properties);
    let counted = properties().any(|properties| properties.counted);
    let replicated = counted || !properties().all(fits_version_1);
    let number = match (counted, replicated) {
        (true, _) => 26,
        (_, true) => 14,
        _ => 8,
    };
    out.u8(number).list(types, |(name, properties), out| {
        put_properties(properties, out.bytes(name.as_bytes()));
    });
    put_extensions(properties(), (replicated, counted), out);
}

/// Appends what later formats add behind the last bucket or type: the replication properties of
/// all, then for each whether it is counted.
fn put_extensions<'a, W: FieldWriter>(
    all: impl Iterator<Item = &'a Properties> + Clone,
    (replicated, counted): (bool, bool),
    out: &mut W,
) {
    if replicated {
        all.clone().for_each(|one| available::put_replication(&one.replication, out));
    }
    for one in all.filter(|_| counted) {
        out.bool(one.counted);
    }
}

/// Reads the body of a read, alone or among the steps of a sequence; no other kind is allowed
/// there.
fn take_read_body(number: u8, from: &mut FieldReader<'_>) -> WireResult<Body> {
    Ok(match number {
        0 => Body::Done,
        1 => Body::Row(take_row(from)?),
        2 => Body::Rows(from.list((KEYS_PER_READ_MAX, 1), "number of rows", take_row)?),
        3 => {
            let entries = from.list((ROWS_MAX, 5), "number of rows", |from| {
                Ok(Entry { key: from.key()?, row: take_row(from)? })
            })?;
            Body::Page(Page { entries, more: from.bool("more")? })
        }
        4 => Body::Count(from.u64("count")?),
        _ => return Err(Malformed("kind of body")),
    })
}

fn put_row<W: FieldWriter>(row: Option<&Row>, out: &mut W) {
    match row {
        None => out.bool(false),
        Some(row) => {
            let out = out.bool(true).bytes(&row.value).u64(row.version.0);
            out.optional_u64(row.expires_in_ms)
        }
    };
}

fn take_row(from: &mut FieldReader<'_>) -> WireResult<Option<Row>> {
    from.optional("row or none", |from| {
        let (value, version) = (from.value()?, Version(from.u64("version")?));
        let expires_in_ms = from.optional("expiry or none", |from| from.u64("expiry"))?;
        Ok(Row { value, version, expires_in_ms })
    })
}

fn put_outcome<W: FieldWriter>(outcome: &Outcome, out: &mut W) {
    match outcome {
        Outcome::Done => out.u8(0),
        Outcome::Applied(value) => out.u8(1).bool(*value),
        Outcome::Existed(value) => out.u8(2).bool(*value),
        Outcome::Old(old) => out.u8(3).optional_bytes(old.as_ref()),
        Outcome::Swapped { written, old } => out.u8(4).bool(*written).optional_bytes(old.as_ref()),
        Outcome::Count(count) => out.u8(5).u64(*count),
        Outcome::Number(number) => out.u8(6).u64(number.cast_unsigned()),
        Outcome::Text(text) => out.u8(7).bytes(text),
        Outcome::Length(length) => out.u8(8).u64(*length),
        Outcome::Read(body) => {
            put_body(body, out.u8(9));
            out
        }
        Outcome::Steps(steps) => out.u8(10).list(steps, put_step),
        Outcome::AppliedAt(index) => out.u8(11).u64(index.0),
    };
}

/// Reads an outcome inside `depth` sequences.
fn take_outcome(from: &mut FieldReader<'_>, depth: usize) -> WireResult<Outcome> {
    Ok(match from.u8("kind of outcome")? {
        0 => Outcome::Done,
        1 => Outcome::Applied(from.bool("applied")?),
        2 => Outcome::Existed(from.bool("existed")?),
        3 => Outcome::Old(from.optional_value()?),
        4 => Outcome::Swapped { written: from.bool("written")?, old: from.optional_value()? },
        5 => Outcome::Count(from.u64("count")?),
        6 => Outcome::Number(from.u64("number")?.cast_signed()),
        7 => Outcome::Text(from.value()?),
        8 => Outcome::Length(from.u64("length")?),
        9 => {
            let number = from.u8("kind of body")?;
            Outcome::Read(Box::new(take_read_body(number, from)?))
        }
        10 => Outcome::Steps(from.steps(depth, take_step)?),
        11 => Outcome::AppliedAt(LogIndex(from.u64("index")?)),
        _ => return Err(Malformed("kind of outcome")),
    })
}

fn put_step<W: FieldWriter>(step: &Result<Outcome, Error>, out: &mut W) {
    match step {
        Ok(outcome) => put_outcome(outcome, out.bool(true)),
        Err(error) => error::put(error, out.bool(false)),
    }
}

fn take_step(from: &mut FieldReader<'_>, depth: usize) -> WireResult<Result<Outcome, Error>> {
    Ok(if from.bool("a step's answer")? {
        Ok(take_outcome(from, depth)?)
    } else {
        Err(error::take(from)?)
    })
}

fn put_bucket<W: FieldWriter>(bucket: &BucketDescription, out: &mut W) {
    put_name(&bucket.name, out);
    put_properties(&bucket.properties, out.u32(bucket.id.0).u32(bucket.group.0));
}

fn put_moving<W: FieldWriter>(moving: Option<MoveDestination>, out: &mut W) {
    match moving {
        None => out.bool(false),
        Some(MoveDestination { group, id }) => out.bool(true).u32(group.0).u32(id.0),
    };
}

/// Reads buckets of which some are moving: the targets follow the last bucket.
fn take_moving_buckets(from: &mut FieldReader<'_>) -> WireResult<Vec<BucketDescription>> {
    let buckets = take_buckets_with_moves(from)?;
    let none_moving = buckets.iter().all(|bucket| bucket.moving.is_none());
    if none_moving { Err(Malformed("moves")) } else { Ok(buckets) }
}

fn take_buckets_with_moves(from: &mut FieldReader<'_>) -> WireResult<Vec<BucketDescription>> {
    let mut buckets = from.list((BUCKETS_MAX, 41), "number of buckets", take_bucket)?;
    for bucket in &mut buckets {
        bucket.moving = from.optional("a move or none", |from| {
            let group = GroupId(from.u32("group")?);
            Ok(MoveDestination { group, id: BucketId(from.u32("bucket's number")?) })
        })?;
    }
    Ok(buckets)
}

/// Reads buckets of which some have replication properties other than the defaults; all replication
/// properties follow the moves.
fn take_replicated_buckets(from: &mut FieldReader<'_>) -> WireResult<Vec<BucketDescription>> {
    let mut buckets = take_buckets_with_moves(from)?;
    take_replications(from, buckets.iter_mut().map(|bucket| &mut bucket.properties))?;
    Ok(buckets)
}

fn take_types(from: &mut FieldReader<'_>) -> WireResult<Vec<(String, Properties)>> {
    from.list((BUCKETS_MAX, 30), "number of types", |from| {
        let name = from.text(NAME_BYTES_MAX, "type")?.to_string();
        Ok((name, take_properties(from)?))
    })
}

fn take_replicated_types(from: &mut FieldReader<'_>) -> WireResult<Vec<(String, Properties)>> {
    let mut types = take_types(from)?;
    take_replications(from, types.iter_mut().map(|(_, properties)| properties))?;
    Ok(types)
}

/// Reads buckets of which some are counted.
fn take_counted_buckets(from: &mut FieldReader<'_>) -> WireResult<Vec<BucketDescription>> {
    let mut buckets = take_buckets_with_moves(from)?;
    take_counted(from, buckets.iter_mut().map(|bucket| &mut bucket.properties).collect())?;
    Ok(buckets)
}

fn take_counted_types(from: &mut FieldReader<'_>) -> WireResult<Vec<(String, Properties)>> {
    let mut types = take_types(from)?;
    take_counted(from, types.iter_mut().map(|(_, properties)| properties).collect())?;
    Ok(types)
}

/// Reads the extensions of properties of which some are counted: those of consistent buckets.
fn take_counted(from: &mut FieldReader<'_>, mut all: Vec<&mut Properties>) -> WireResult<()> {
    for properties in &mut all {
        properties.replication = available::take_replication(from)?;
    }
    let mut any_counted = false;
    for properties in all {
        properties.counted = from.bool("counted")?;
        any_counted |= properties.counted;
        if properties.counted && properties.consistency == Consistency::Available {
            return Err(Malformed("counted"));
        }
    }
    if any_counted { Ok(()) } else { Err(Malformed("counted")) }
}

fn take_replications<'a>(
    from: &mut FieldReader<'_>,
    all: impl Iterator<Item = &'a mut Properties>,
) -> WireResult<()> {
    let mut any_changed = false;
    for properties in all {
        properties.replication = available::take_replication(from)?;
        any_changed |= !fits_version_1(properties);
    }
    if any_changed { Ok(()) } else { Err(Malformed("replication")) }
}

fn take_bucket(from: &mut FieldReader<'_>) -> WireResult<BucketDescription> {
    Ok(BucketDescription {
        name: take_name(from)?,
        id: BucketId(from.u32("bucket's number")?),
        group: GroupId(from.u32("group")?),
        properties: take_properties(from)?,
        moving: None,
    })
}

fn put_properties<W: FieldWriter>(properties: &Properties, out: &mut W) {
    let Properties { consistency, sync, key_bytes_max, value_bytes_max, ttl_ms, .. } = properties;
    out.u8(match consistency {
        Consistency::Consistent => 0,
        Consistency::Available => 1,
    });
    out.u8(match sync {
        SyncPolicy::Sync => 0,
        SyncPolicy::Interval => 1,
    });
    out.u64(*key_bytes_max as u64).u64(*value_bytes_max as u64).u64(*ttl_ms);
}

fn take_properties(from: &mut FieldReader<'_>) -> WireResult<Properties> {
    let properties = Properties {
        consistency: match from.u8("consistency")? {
            0 => Consistency::Consistent,
            1 => Consistency::Available,
            _ => return Err(Malformed("consistency")),
        },
        sync: match from.u8("sync")? {
            0 => SyncPolicy::Sync,
            1 => SyncPolicy::Interval,
            _ => return Err(Malformed("sync")),
        },
        key_bytes_max: from.usize("key_bytes_max")?,
        value_bytes_max: from.usize("value_bytes_max")?,
        ttl_ms: from.u64("ttl_ms")?,
        counted: false,
        replication: Replication::default(),
    };
    let valid = (1..=KEY_BYTES_MAX).contains(&properties.key_bytes_max)
        && (1..=VALUE_BYTES_MAX).contains(&properties.value_bytes_max)
        && properties.ttl_ms <= TTL_MS_MAX;
    if valid { Ok(properties) } else { Err(Malformed("properties")) }
}
