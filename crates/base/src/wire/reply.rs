//! Codec of replies: the index that the reply reflects, the kind of body, the body.

use super::fields::{FieldReader, FieldWriter};
use super::{WireResult, available, buckets, cluster, error, feed, index, ring, types, update};
use crate::codec::Malformed;
use crate::limits::{
    INDEX_CONTINUATION_BYTES_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, PAGE_ROWS_MAX,
    ROW_OVERHEAD_BYTES, WHOLE_RANGE_BYTES_MAX,
};
use crate::reply::{
    Absence, Body, Entry, IndexPage, IndexRecord, IndexRow, KeyVersion, Outcome, Page, Reply, Row,
};
use crate::{BucketId, Error, FeatureLevel, GroupId, LogIndex, SessionId, Version};

/// Most rows of a range in one answer: those of an unpaged range, which may exceed a page's.
const ROWS_MAX: usize = WHOLE_RANGE_BYTES_MAX / ROW_OVERHEAD_BYTES;
/// Length of the version of a key that is present.
const KEY_VERSION_BYTES_MIN: usize = 9;

pub(super) fn put<W: FieldWriter>(reply: &Reply, out: &mut W) {
    put_body(&reply.body, out.u64(reply.index.0));
}

pub(super) fn take(from: &mut FieldReader<'_>) -> WireResult<Reply> {
    let index = LogIndex(from.u64("index")?);
    let body = match from.u8("kind of body")? {
        5 => Body::Updated(take_outcome(from, 0)?),
        6 => Body::Session(SessionId(from.u64("session")?)),
        9 => Body::Cluster(Box::new(cluster::take(from)?)),
        10 => Body::Cluster(Box::new(cluster::take_full(from)?)),
        11 => Body::Group(Box::new(cluster::take_placement(from)?)),
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
        27 => Body::Size { keys: from.u64("keys")?, bytes: from.u64("bytes")? },
        28 => Body::Cluster(Box::new(cluster::take_with_level(from)?)),
        29 => {
            let (description, secret) = cluster::take_joined_with_level(from)?;
            Body::Joined(Box::new(description), secret)
        }
        34 => Body::Indexes(index::take_descriptions(from)?),
        35 => Body::IndexPage(Box::new(take_index_page(from)?)),
        38 => Body::FeedPage(Box::new(feed::take_page(from)?)),
        number @ (7 | 12 | 13 | 25 | 30 | 32 | 36) => {
            Body::Buckets(buckets::take_buckets(number, from)?)
        }
        number @ (8 | 14 | 26 | 31 | 33 | 37) => Body::Types(buckets::take_types(number, from)?),
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
        Body::Buckets(all) => buckets::put_buckets(all, out),
        Body::Types(types) => buckets::put_types(types, out),
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
        Body::Indexes(all) => index::put_descriptions(all, out.u8(34)),
        Body::IndexPage(page) => put_index_page(page, out.u8(35)),
        Body::FeedPage(page) => feed::put_page(page, out.u8(38)),
        Body::KeyVersions(versions) => {
            out.u8(39).list(versions, |version, out| put_key_version(*version, out));
        }
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
        39 => {
            let max = (KEYS_PER_READ_MAX, KEY_VERSION_BYTES_MIN);
            Body::KeyVersions(from.list(max, "number of versions", take_key_version)?)
        }
        _ => return Err(Malformed("kind of body")),
    })
}

fn put_row<W: FieldWriter>(row: Option<&Row>, out: &mut W) {
    match row {
        None => out.bool(false),
        Some(row) => {
            let Row { value, version, expires_in_ms, tags } = row;
            let number = if tags.is_some() { 2 } else { 1 };
            let out = out.u8(number).bytes(value).u64(version.0).optional_u64(*expires_in_ms);
            match tags {
                Some(tags) => out.bytes(&tags.encode()),
                None => out,
            }
        }
    };
}

fn take_row(from: &mut FieldReader<'_>) -> WireResult<Option<Row>> {
    let has_tags = match from.u8("row or none")? {
        0 => return Ok(None),
        1 => false,
        2 => true,
        _ => return Err(Malformed("row or none")),
    };
    let (value, version) = (from.value()?, Version(from.u64("version")?));
    let expires_in_ms = from.optional("expiry or none", |from| from.u64("expiry"))?;
    let tags = if has_tags { Some(Box::new(update::take_tags(from)?)) } else { None };
    Ok(Some(Row { value, version, expires_in_ms, tags }))
}

pub(super) fn put_record<W: FieldWriter>(record: Option<&IndexRecord>, out: &mut W) {
    match record {
        None => out.put_u8(0),
        Some(IndexRecord::Row(row)) => put_row(Some(row), out.u8(1)),
        Some(IndexRecord::Siblings(siblings)) => available::put_siblings(siblings, out.u8(2)),
    }
}

pub(super) fn take_record(from: &mut FieldReader<'_>) -> WireResult<Option<IndexRecord>> {
    Ok(match from.u8("record or none")? {
        0 => None,
        1 => Some(IndexRecord::Row(take_row(from)?.ok_or(Malformed("record or none"))?)),
        2 => Some(IndexRecord::Siblings(available::take_siblings(from)?)),
        _ => return Err(Malformed("record or none")),
    })
}

fn put_key_version<W: FieldWriter>(version: KeyVersion, out: &mut W) {
    match version {
        KeyVersion::Present(version) => {
            out.u8(1).u64(version.0);
        }
        KeyVersion::Absent(absence) => put_absence(absence, out.u8(0)),
    }
}

pub(super) fn put_absence<W: FieldWriter>(absence: Absence, out: &mut W) {
    let Absence { group, bucket, since } = absence;
    out.u32(group.0).u32(bucket.0).u64(since.0);
}

pub(super) fn take_absence(from: &mut FieldReader<'_>) -> WireResult<Absence> {
    let (group, bucket) = (GroupId(from.u32("group")?), BucketId(from.u32("bucket")?));
    Ok(Absence { group, bucket, since: Version(from.u64("version")?) })
}

fn take_key_version(from: &mut FieldReader<'_>) -> WireResult<KeyVersion> {
    Ok(match from.u8("present or absent")? {
        0 => KeyVersion::Absent(take_absence(from)?),
        1 => KeyVersion::Present(Version(from.u64("version")?)),
        _ => return Err(Malformed("present or absent")),
    })
}

fn put_index_page<W: FieldWriter>(page: &IndexPage, out: &mut W) {
    out.list(&page.rows, |row, out| {
        let out = out.bytes(&row.key).optional_bytes(row.term.as_ref());
        put_record(row.record.as_ref(), out);
    });
    out.optional_bytes(page.after.as_ref()).bool(page.is_partial);
}

fn take_index_page(from: &mut FieldReader<'_>) -> WireResult<IndexPage> {
    let rows = from.list((PAGE_ROWS_MAX, 6), "number of rows", |from| {
        let key = from.key()?;
        let term = from.optional("term or none", |from| from.bytes(KEY_BYTES_MAX, "term"))?;
        Ok(IndexRow { key, term, record: take_record(from)? })
    })?;
    let after = from.optional("continuation or none", |from| {
        from.bytes(INDEX_CONTINUATION_BYTES_MAX, "continuation")
    })?;
    Ok(IndexPage { rows, after, is_partial: from.bool("partial")? })
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
