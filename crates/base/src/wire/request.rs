//! Codec of requests: the bucket's full name, the optional retry id, the kind of call, the call.
//!
//! The retry id precedes the call, which is the long part.

use super::fields::{FieldReader, FieldWriter};
use super::{WireResult, access, available, cluster, feed, index, ring, update};
use crate::bucket::BucketName;
use crate::codec::Malformed;
use crate::limits::{
    BUCKET_NAME_BYTES_MAX, CHANGES_MAX, HTTP_SMALL_BODY_BYTES_MAX, KEYS_PER_READ_MAX,
    NAME_BYTES_MAX,
};
use crate::properties::Changes;
use crate::range::{Bound, Direction, Extent, Range, RowContent};
use crate::request::{
    BucketPlace, Call, DirectoryCall, MoveStep, Read, ReadLevel, Request, SessionCall,
};
use crate::{BucketId, GroupId, LogIndex, RetryId, SessionId};

pub(super) fn put<W: FieldWriter>(request: &Request, out: &mut W) {
    put_name(&request.bucket, out);
    match request.retry {
        None => out.bool(false),
        Some(retry) => out.bool(true).u64(retry.session.0).u64(retry.number),
    };
    match &request.call {
        Call::Read(read, level) => {
            put_read(read, out.u8(0));
            match level {
                ReadLevel::Consistent => out.u8(0),
                ReadLevel::Dirty => out.u8(1),
                ReadLevel::AtLeast(index) => out.u8(2).u64(index.0),
            };
        }
        Call::Update(update) => update::put(update, out.u8(1)),
        Call::Directory(call) => put_directory(call, out.u8(2)),
        Call::Session(SessionCall::Open) => {
            out.u8(3).u8(0);
        }
        Call::Session(SessionCall::Close(session)) => {
            out.u8(3).u8(1).u64(session.0);
        }
        Call::Available(call) => available::put_call(call, out.u8(4)),
    }
}

pub(super) fn take(from: &mut FieldReader<'_>) -> WireResult<Request> {
    let bucket = take_name(from)?;
    let retry = from.optional("retry id or none", |from| {
        let session = SessionId(from.u64("session")?);
        Ok(RetryId { session, number: from.u64("request number")? })
    })?;
    let call = match from.u8("kind of call")? {
        0 => Call::Read(take_read(from)?, take_read_level(from)?),
        1 => Call::Update(update::take(from, 0)?),
        2 => Call::Directory(take_directory(from)?),
        3 => Call::Session(match from.u8("kind of session call")? {
            0 => SessionCall::Open,
            1 => SessionCall::Close(SessionId(from.u64("session")?)),
            _ => return Err(Malformed("kind of session call")),
        }),
        4 => Call::Available(available::take_call(from)?),
        _ => return Err(Malformed("kind of call")),
    };
    Ok(Request { bucket, call, retry })
}

pub(super) fn put_name<W: FieldWriter>(name: &BucketName, out: &mut W) {
    out.bytes(name.full().as_bytes());
}

pub(super) fn take_name(from: &mut FieldReader<'_>) -> WireResult<BucketName> {
    let text = from.text(NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX, "bucket")?;
    BucketName::from_full(text).map_err(|_| Malformed("bucket"))
}

fn take_read_level(from: &mut FieldReader<'_>) -> WireResult<ReadLevel> {
    Ok(match from.u8("consistency")? {
        0 => ReadLevel::Consistent,
        1 => ReadLevel::Dirty,
        2 => ReadLevel::AtLeast(LogIndex(from.u64("index")?)),
        _ => return Err(Malformed("consistency")),
    })
}

pub(super) fn put_read<W: FieldWriter>(read: &Read, out: &mut W) {
    match read {
        Read::Get(key) => out.u8(0).bytes(key),
        Read::Exists(keys) => out.u8(1).keys(keys),
        Read::MultiGet(keys) => out.u8(2).keys(keys),
        Read::MultiGetAll(keys) => out.u8(3).keys(keys),
        Read::Range(range) => {
            put_range(range, out.u8(4));
            out
        }
        Read::KeyCount => out.u8(5),
        Read::Assert { key, expected } => out.u8(6).bytes(key).optional_bytes(expected.as_ref()),
        Read::AssertExists(key) => out.u8(7).bytes(key),
        Read::Index(query) => {
            index::put_query(query, out.u8(8));
            out
        }
        Read::Feed(query) => {
            feed::put_query(query, out.u8(9));
            out
        }
        Read::KeyVersions(keys) => out.u8(10).keys(keys),
    };
}

pub(super) fn take_read(from: &mut FieldReader<'_>) -> WireResult<Read> {
    Ok(match from.u8("kind of read")? {
        0 => Read::Get(from.key()?),
        1 => Read::Exists(from.keys(KEYS_PER_READ_MAX)?),
        2 => Read::MultiGet(from.keys(KEYS_PER_READ_MAX)?),
        3 => Read::MultiGetAll(from.keys(KEYS_PER_READ_MAX)?),
        4 => Read::Range(take_range(from)?),
        5 => Read::KeyCount,
        6 => Read::Assert { key: from.key()?, expected: from.optional_value()? },
        7 => Read::AssertExists(from.key()?),
        8 => Read::Index(Box::new(index::take_query(from)?)),
        9 => Read::Feed(Box::new(feed::take_query(from)?)),
        10 => Read::KeyVersions(from.keys(KEYS_PER_READ_MAX)?),
        _ => return Err(Malformed("kind of read")),
    })
}

fn put_range<W: FieldWriter>(range: &Range, out: &mut W) {
    put_bound(&range.low, out);
    put_bound(&range.high, out);
    put_direction(range.direction, out);
    out.optional_u64(range.rows_max.map(|rows| rows as u64));
    out.optional_u64(range.bytes_max.map(|bytes| bytes as u64));
    out.u8(match range.want {
        RowContent::Keys => 0,
        RowContent::Entries => 1,
    });
    out.u8(match range.extent {
        Extent::Page => 0,
        Extent::Whole => 1,
    });
}

fn take_range(from: &mut FieldReader<'_>) -> WireResult<Range> {
    Ok(Range {
        low: take_bound(from)?,
        high: take_bound(from)?,
        direction: take_direction(from)?,
        rows_max: from.optional("rows or none", |from| from.usize("rows"))?,
        bytes_max: from.optional("bytes or none", |from| from.usize("bytes"))?,
        want: match from.u8("wanted part of a row")? {
            0 => RowContent::Keys,
            1 => RowContent::Entries,
            _ => return Err(Malformed("wanted part of a row")),
        },
        extent: match from.u8("extent")? {
            0 => Extent::Page,
            1 => Extent::Whole,
            _ => return Err(Malformed("extent")),
        },
    })
}

pub(super) fn put_direction<W: FieldWriter>(direction: Direction, out: &mut W) {
    out.u8(match direction {
        Direction::Ascending => 0,
        Direction::Descending => 1,
    });
}

pub(super) fn take_direction(from: &mut FieldReader<'_>) -> WireResult<Direction> {
    Ok(match from.u8("direction")? {
        0 => Direction::Ascending,
        1 => Direction::Descending,
        _ => return Err(Malformed("direction")),
    })
}

pub(super) fn put_bound<W: FieldWriter>(bound: &Bound, out: &mut W) {
    match bound {
        Bound::Open => out.u8(0),
        Bound::Included(key) => out.u8(1).bytes(key),
        Bound::Excluded(key) => out.u8(2).bytes(key),
    };
}

pub(super) fn take_bound(from: &mut FieldReader<'_>) -> WireResult<Bound> {
    Ok(match from.u8("bound")? {
        0 => Bound::Open,
        1 => Bound::Included(from.key()?),
        2 => Bound::Excluded(from.key()?),
        _ => return Err(Malformed("bound")),
    })
}

fn put_directory<W: FieldWriter>(call: &DirectoryCall, out: &mut W) {
    match call {
        DirectoryCall::CreateBucket(changes) => put_changes(changes, out.u8(0)),
        DirectoryCall::AlterBucket(changes) => put_changes(changes, out.u8(1)),
        DirectoryCall::DropBucket => out.put_u8(2),
        DirectoryCall::ClearBucket => out.put_u8(3),
        DirectoryCall::DescribeBucket => out.put_u8(4),
        DirectoryCall::ListBuckets { after, rows_max } => {
            out.u8(5).bool(after.is_some());
            if let Some(after) = after {
                put_name(after, out);
            }
            out.u64(*rows_max as u64);
        }
        DirectoryCall::CreateType(changes) => put_changes(changes, out.u8(6)),
        DirectoryCall::AlterType(changes) => put_changes(changes, out.u8(7)),
        DirectoryCall::DropType => out.put_u8(8),
        DirectoryCall::ListTypes => out.put_u8(9),
        DirectoryCall::Cluster(call) => cluster::put_call(call, out.u8(10)),
        DirectoryCall::PlaceBucket { changes, place } => {
            match place {
                BucketPlace::Group(group) => out.u8(11).u8(0).u32(group.0),
                BucketPlace::Replicas(voters) => out.u8(11).u8(1).u32(*voters),
            };
            put_changes(changes, out);
        }
        DirectoryCall::MoveBucket { group } => {
            out.u8(12).u32(group.0);
        }
        DirectoryCall::CancelMove => out.put_u8(13),
        DirectoryCall::StepMove { id, moving, step } => {
            out.u8(14).u32(id.0).u32(moving.0).u8(match step {
                MoveStep::Renew => 0,
                MoveStep::Finish => 1,
            });
        }
        DirectoryCall::Ring(call) => ring::put_call(call, out.u8(15)),
        DirectoryCall::ResetBucket => {
            out.u8(16);
        }
        DirectoryCall::Access(call) => access::put_call(call, out.u8(17)),
        DirectoryCall::Index(call) => index::put_call(call, out.u8(18)),
    }
}

fn take_directory(from: &mut FieldReader<'_>) -> WireResult<DirectoryCall> {
    Ok(match from.u8("kind of directory call")? {
        0 => DirectoryCall::CreateBucket(take_changes(from)?),
        1 => DirectoryCall::AlterBucket(take_changes(from)?),
        2 => DirectoryCall::DropBucket,
        3 => DirectoryCall::ClearBucket,
        4 => DirectoryCall::DescribeBucket,
        5 => {
            let after = from.optional("bucket or none", take_name)?;
            DirectoryCall::ListBuckets { after, rows_max: from.usize("rows")? }
        }
        6 => DirectoryCall::CreateType(take_changes(from)?),
        7 => DirectoryCall::AlterType(take_changes(from)?),
        8 => DirectoryCall::DropType,
        9 => DirectoryCall::ListTypes,
        10 => DirectoryCall::Cluster(cluster::take_call(from)?),
        11 => {
            let place = match from.u8("place")? {
                0 => BucketPlace::Group(GroupId(from.u32("group")?)),
                1 => BucketPlace::Replicas(from.u32("replicas")?),
                _ => return Err(Malformed("place")),
            };
            DirectoryCall::PlaceBucket { place, changes: take_changes(from)? }
        }
        12 => DirectoryCall::MoveBucket { group: GroupId(from.u32("group")?) },
        13 => DirectoryCall::CancelMove,
        14 => DirectoryCall::StepMove {
            id: BucketId(from.u32("bucket's number")?),
            moving: BucketId(from.u32("bucket's number")?),
            step: match from.u8("step")? {
                0 => MoveStep::Renew,
                1 => MoveStep::Finish,
                _ => return Err(Malformed("step")),
            },
        },
        15 => DirectoryCall::Ring(ring::take_call(from)?),
        16 => DirectoryCall::ResetBucket,
        17 => DirectoryCall::Access(access::take_call(from)?),
        18 => DirectoryCall::Index(index::take_call(from)?),
        _ => return Err(Malformed("kind of directory call")),
    })
}

fn put_changes<W: FieldWriter>(changes: &Changes, out: &mut W) {
    out.list(changes, |(name, text), out| {
        out.bytes(name.as_bytes()).bytes(text.as_bytes());
    });
}

fn take_changes(from: &mut FieldReader<'_>) -> WireResult<Changes> {
    from.list((CHANGES_MAX, 8), "number of changes", |from| {
        let name = from.text(HTTP_SMALL_BODY_BYTES_MAX, "property")?.to_string();
        Ok((name, from.text(HTTP_SMALL_BODY_BYTES_MAX, "property")?.to_string()))
    })
}
