//! Codec of requests: the bucket's full name, the optional retry id, the kind of call, the call.
//!
//! The retry id precedes the call, which is the long part.

use super::fields::{Fields, Source};
use super::{WireResult, available, cluster, ring, update};
use crate::bucket::BucketName;
use crate::codec::Malformed;
use crate::limits::{
    BUCKET_NAME_BYTES_MAX, CHANGES_MAX, HTTP_SMALL_BODY_BYTES_MAX, KEYS_PER_READ_MAX,
    NAME_BYTES_MAX,
};
use crate::properties::Changes;
use crate::range::{Bound, Direction, Extent, Range, Want};
use crate::request::{
    BucketPlace, Call, DirectoryCall, MoveStep, Read, ReadLevel, Request, SessionCall,
};
use crate::{BucketId, GroupId, LogIndex, RetryId, SessionId};

pub(super) fn put<W: Fields>(request: &Request, out: &mut W) {
    put_name(&request.bucket, out);
    match request.retry {
        None => out.yes(false),
        Some(retry) => out.yes(true).word(retry.session.0).word(retry.number),
    };
    match &request.call {
        Call::Read(read, level) => {
            put_read(read, out.byte(0));
            match level {
                ReadLevel::Consistent => out.byte(0),
                ReadLevel::Dirty => out.byte(1),
                ReadLevel::AtLeast(index) => out.byte(2).word(index.0),
            };
        }
        Call::Update(it) => update::put(it, out.byte(1)),
        Call::Directory(it) => put_directory(it, out.byte(2)),
        Call::Session(SessionCall::Open) => {
            out.byte(3).byte(0);
        }
        Call::Session(SessionCall::Close(session)) => {
            out.byte(3).byte(1).word(session.0);
        }
        Call::Available(it) => available::put_call(it, out.byte(4)),
    }
}

pub(super) fn take(from: &mut Source<'_>) -> WireResult<Request> {
    let bucket = take_name(from)?;
    let retry = from.maybe("retry id or none", |from| {
        let session = SessionId(from.word("session")?);
        Ok(RetryId { session, number: from.word("request number")? })
    })?;
    let call = match from.byte("which call")? {
        0 => Call::Read(take_read(from)?, take_read_level(from)?),
        1 => Call::Update(update::take(from, 0)?),
        2 => Call::Directory(take_directory(from)?),
        3 => Call::Session(match from.byte("which session call")? {
            0 => SessionCall::Open,
            1 => SessionCall::Close(SessionId(from.word("session")?)),
            _ => return Err(Malformed("which session call")),
        }),
        4 => Call::Available(available::take_call(from)?),
        _ => return Err(Malformed("which call")),
    };
    Ok(Request { bucket, call, retry })
}

pub(super) fn put_name<W: Fields>(name: &BucketName, out: &mut W) {
    out.bytes(name.full().as_bytes());
}

pub(super) fn take_name(from: &mut Source<'_>) -> WireResult<BucketName> {
    let text = from.text(NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX, "bucket")?;
    BucketName::from_full(text).map_err(|_| Malformed("bucket"))
}

fn take_read_level(from: &mut Source<'_>) -> WireResult<ReadLevel> {
    Ok(match from.byte("consistency")? {
        0 => ReadLevel::Consistent,
        1 => ReadLevel::Dirty,
        2 => ReadLevel::AtLeast(LogIndex(from.word("index")?)),
        _ => return Err(Malformed("consistency")),
    })
}

pub(super) fn put_read<W: Fields>(read: &Read, out: &mut W) {
    match read {
        Read::Get(key) => out.byte(0).bytes(key),
        Read::Exists(keys) => out.byte(1).keys(keys),
        Read::MultiGet(keys) => out.byte(2).keys(keys),
        Read::MultiGetAll(keys) => out.byte(3).keys(keys),
        Read::Range(range) => {
            put_range(range, out.byte(4));
            out
        }
        Read::KeyCount => out.byte(5),
        Read::Assert { key, expected } => out.byte(6).bytes(key).maybe_bytes(expected.as_ref()),
        Read::AssertExists(key) => out.byte(7).bytes(key),
    };
}

pub(super) fn take_read(from: &mut Source<'_>) -> WireResult<Read> {
    Ok(match from.byte("which read")? {
        0 => Read::Get(from.key()?),
        1 => Read::Exists(from.keys(KEYS_PER_READ_MAX)?),
        2 => Read::MultiGet(from.keys(KEYS_PER_READ_MAX)?),
        3 => Read::MultiGetAll(from.keys(KEYS_PER_READ_MAX)?),
        4 => Read::Range(take_range(from)?),
        5 => Read::KeyCount,
        6 => Read::Assert { key: from.key()?, expected: from.maybe_value()? },
        7 => Read::AssertExists(from.key()?),
        _ => return Err(Malformed("which read")),
    })
}

fn put_range<W: Fields>(range: &Range, out: &mut W) {
    for bound in [&range.low, &range.high] {
        match bound {
            Bound::Open => out.byte(0),
            Bound::Included(key) => out.byte(1).bytes(key),
            Bound::Excluded(key) => out.byte(2).bytes(key),
        };
    }
    out.byte(match range.direction {
        Direction::Ascending => 0,
        Direction::Descending => 1,
    });
    out.maybe_word(range.rows_max.map(|rows| rows as u64));
    out.maybe_word(range.bytes_max.map(|bytes| bytes as u64));
    out.byte(match range.want {
        Want::Keys => 0,
        Want::Entries => 1,
    });
    out.byte(match range.extent {
        Extent::Page => 0,
        Extent::Whole => 1,
    });
}

fn take_range(from: &mut Source<'_>) -> WireResult<Range> {
    Ok(Range {
        low: take_bound(from)?,
        high: take_bound(from)?,
        direction: match from.byte("direction")? {
            0 => Direction::Ascending,
            1 => Direction::Descending,
            _ => return Err(Malformed("direction")),
        },
        rows_max: from.maybe("rows or none", |from| from.size("rows"))?,
        bytes_max: from.maybe("bytes or none", |from| from.size("bytes"))?,
        want: match from.byte("what of a row")? {
            0 => Want::Keys,
            1 => Want::Entries,
            _ => return Err(Malformed("what of a row")),
        },
        extent: match from.byte("extent")? {
            0 => Extent::Page,
            1 => Extent::Whole,
            _ => return Err(Malformed("extent")),
        },
    })
}

fn take_bound(from: &mut Source<'_>) -> WireResult<Bound> {
    Ok(match from.byte("bound")? {
        0 => Bound::Open,
        1 => Bound::Included(from.key()?),
        2 => Bound::Excluded(from.key()?),
        _ => return Err(Malformed("bound")),
    })
}

fn put_directory<W: Fields>(call: &DirectoryCall, out: &mut W) {
    match call {
        DirectoryCall::CreateBucket(changes) => put_changes(changes, out.byte(0)),
        DirectoryCall::AlterBucket(changes) => put_changes(changes, out.byte(1)),
        DirectoryCall::DropBucket => out.put_u8(2),
        DirectoryCall::ClearBucket => out.put_u8(3),
        DirectoryCall::DescribeBucket => out.put_u8(4),
        DirectoryCall::ListBuckets { after, rows_max } => {
            out.byte(5).yes(after.is_some());
            if let Some(after) = after {
                put_name(after, out);
            }
            out.word(*rows_max as u64);
        }
        DirectoryCall::CreateType(changes) => put_changes(changes, out.byte(6)),
        DirectoryCall::AlterType(changes) => put_changes(changes, out.byte(7)),
        DirectoryCall::DropType => out.put_u8(8),
        DirectoryCall::ListTypes => out.put_u8(9),
        DirectoryCall::Cluster(call) => cluster::put_call(call, out.byte(10)),
        DirectoryCall::PlaceBucket { changes, place } => {
            match place {
                BucketPlace::Group(group) => out.byte(11).byte(0).half(group.0),
                BucketPlace::Replicas(voters) => out.byte(11).byte(1).half(*voters),
            };
            put_changes(changes, out);
        }
        DirectoryCall::MoveBucket { group } => {
            out.byte(12).half(group.0);
        }
        DirectoryCall::CancelMove => out.put_u8(13),
        DirectoryCall::StepMove { id, moving, step } => {
            out.byte(14).half(id.0).half(moving.0).byte(match step {
                MoveStep::Renew => 0,
                MoveStep::Finish => 1,
            });
        }
        DirectoryCall::Ring(call) => ring::put_call(call, out.byte(15)),
        DirectoryCall::ResetBucket => {
            out.byte(16);
        }
    }
}

fn take_directory(from: &mut Source<'_>) -> WireResult<DirectoryCall> {
    Ok(match from.byte("which directory call")? {
        0 => DirectoryCall::CreateBucket(take_changes(from)?),
        1 => DirectoryCall::AlterBucket(take_changes(from)?),
        2 => DirectoryCall::DropBucket,
        3 => DirectoryCall::ClearBucket,
        4 => DirectoryCall::DescribeBucket,
        5 => {
            let after = from.maybe("bucket or none", take_name)?;
            DirectoryCall::ListBuckets { after, rows_max: from.size("rows")? }
        }
        6 => DirectoryCall::CreateType(take_changes(from)?),
        7 => DirectoryCall::AlterType(take_changes(from)?),
        8 => DirectoryCall::DropType,
        9 => DirectoryCall::ListTypes,
        10 => DirectoryCall::Cluster(cluster::take_call(from)?),
        11 => {
            let place = match from.byte("place")? {
                0 => BucketPlace::Group(GroupId(from.half("group")?)),
                1 => BucketPlace::Replicas(from.half("replicas")?),
                _ => return Err(Malformed("place")),
            };
            DirectoryCall::PlaceBucket { place, changes: take_changes(from)? }
        }
        12 => DirectoryCall::MoveBucket { group: GroupId(from.half("group")?) },
        13 => DirectoryCall::CancelMove,
        14 => DirectoryCall::StepMove {
            id: BucketId(from.half("bucket's number")?),
            moving: BucketId(from.half("bucket's number")?),
            step: match from.byte("step")? {
                0 => MoveStep::Renew,
                1 => MoveStep::Finish,
                _ => return Err(Malformed("step")),
            },
        },
        15 => DirectoryCall::Ring(ring::take_call(from)?),
        16 => DirectoryCall::ResetBucket,
        _ => return Err(Malformed("which directory call")),
    })
}

fn put_changes<W: Fields>(changes: &Changes, out: &mut W) {
    out.list(changes, |(name, text), out| {
        out.bytes(name.as_bytes()).bytes(text.as_bytes());
    });
}

fn take_changes(from: &mut Source<'_>) -> WireResult<Changes> {
    from.list((CHANGES_MAX, 8), "how many changes", |from| {
        let name = from.text(HTTP_SMALL_BODY_BYTES_MAX, "property")?.to_string();
        Ok((name, from.text(HTTP_SMALL_BODY_BYTES_MAX, "property")?.to_string()))
    })
}
