//! Codec of the descriptions of buckets and types.
//!
//! Later formats add properties behind the last bucket or type. An answer has the oldest format
//! that can express it, so that members of older versions understand as many as possible.

use super::fields::{FieldReader, FieldWriter};
use super::request::{put_name, take_name};
use super::{WireResult, available};
use crate::codec::Malformed;
use crate::limits::{
    BUCKETS_MAX, FEED_KEEP_BYTES_DEFAULT, FEED_KEEP_MS_DEFAULT, KEY_BYTES_MAX, NAME_BYTES_MAX,
    TTL_MS_MAX, VALUE_BYTES_MAX,
};
use crate::properties::FeedMode;
use crate::properties::{
    BYTES_MAX_MOST, BucketAudit, Consistency, Properties, Replication, SyncPolicy,
};
use crate::reply::{BucketDescription, MoveDestination};
use crate::{BucketId, GroupId};

/// Addition of a format to the properties of version 1. Each includes the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Extension {
    None,
    /// Replication properties of all.
    Replicated,
    /// Flags of counted ones.
    Counted,
    /// Bounds on the bytes of each.
    Bounded,
    /// Audited operations of each.
    Audited,
    /// Feed of each.
    Fed,
}

impl Extension {
    /// Returns the first that can express all properties.
    fn of<'a>(all: impl Iterator<Item = &'a Properties>) -> Extension {
        let of_one = |one: &Properties| match one {
            one if one.has_feed_properties() => Extension::Fed,
            one if one.audit != BucketAudit::Off => Extension::Audited,
            Properties { bytes_max: 1.., .. } => Extension::Bounded,
            Properties { counted: true, .. } => Extension::Counted,
            one if !fits_version_1(one) => Extension::Replicated,
            _ => Extension::None,
        };
        all.map(of_one).max().unwrap_or(Extension::None)
    }
}

/// Returns true if the format of version 1 can express the properties.
fn fits_version_1(properties: &Properties) -> bool {
    properties.replication == Replication::default()
}

/// Appends buckets, with the number of their format.
pub(super) fn put_buckets<W: FieldWriter>(buckets: &[BucketDescription], out: &mut W) {
    let properties = || buckets.iter().map(|bucket| &bucket.properties);
    let extension = Extension::of(properties());
    let number = match extension {
        Extension::None if buckets.iter().all(|bucket| bucket.moving.is_none()) => 7,
        Extension::None => 12,
        Extension::Replicated => 13,
        Extension::Counted => 25,
        Extension::Bounded => 30,
        Extension::Audited => 32,
        Extension::Fed => 36,
    };
    out.u8(number).list(buckets, put_bucket);
    if number > 7 {
        buckets.iter().for_each(|bucket| put_moving(bucket.moving, out));
    }
    put_extension(properties(), extension, out);
}

/// Appends types, with the number of their format.
pub(super) fn put_types<W: FieldWriter>(types: &[(String, Properties)], out: &mut W) {
    let properties = || types.iter().map(|(_, properties)| properties);
    let extension = Extension::of(properties());
    let number = match extension {
        Extension::None => 8,
        Extension::Replicated => 14,
        Extension::Counted => 26,
        Extension::Bounded => 31,
        Extension::Audited => 33,
        Extension::Fed => 37,
    };
    out.u8(number).list(types, |(name, properties), out| {
        put_properties(properties, out.bytes(name.as_bytes()));
    });
    put_extension(properties(), extension, out);
}

fn put_extension<'a, W: FieldWriter>(
    all: impl Iterator<Item = &'a Properties> + Clone,
    extension: Extension,
    out: &mut W,
) {
    if extension >= Extension::Replicated {
        all.clone().for_each(|one| available::put_replication(&one.replication, out));
    }
    for one in all.clone().filter(|_| extension >= Extension::Counted) {
        out.bool(one.counted);
    }
    for one in all.clone().filter(|_| extension >= Extension::Bounded) {
        out.u64(one.bytes_max);
    }
    for one in all.clone().filter(|_| extension >= Extension::Audited) {
        out.u8(one.audit as u8);
    }
    for one in all.filter(|_| extension >= Extension::Fed) {
        out.u8(one.feed as u8).u64(one.feed_keep_ms).u64(one.feed_keep_bytes);
    }
}

/// Reads buckets in the format of this number.
pub(super) fn take_buckets(
    number: u8,
    from: &mut FieldReader<'_>,
) -> WireResult<Vec<BucketDescription>> {
    let mut buckets = from.list((BUCKETS_MAX, 41), "number of buckets", take_bucket)?;
    if number > 7 {
        for bucket in &mut buckets {
            bucket.moving = from.optional("a move or none", |from| {
                let group = GroupId(from.u32("group")?);
                Ok(MoveDestination { group, id: BucketId(from.u32("bucket's number")?) })
            })?;
        }
    }
    if number == 12 && buckets.iter().all(|bucket| bucket.moving.is_none()) {
        return Err(Malformed("moves"));
    }
    let extension = match number {
        13 => Extension::Replicated,
        25 => Extension::Counted,
        30 => Extension::Bounded,
        32 => Extension::Audited,
        36 => Extension::Fed,
        _ => Extension::None,
    };
    let all = buckets.iter_mut().map(|bucket| &mut bucket.properties).collect();
    take_extension(from, all, extension)?;
    Ok(buckets)
}

/// Reads types in the format of this number.
pub(super) fn take_types(
    number: u8,
    from: &mut FieldReader<'_>,
) -> WireResult<Vec<(String, Properties)>> {
    let mut types = from.list((BUCKETS_MAX, 30), "number of types", |from| {
        let name = from.text(NAME_BYTES_MAX, "type")?.to_string();
        Ok((name, take_properties(from)?))
    })?;
    let extension = match number {
        14 => Extension::Replicated,
        26 => Extension::Counted,
        31 => Extension::Bounded,
        33 => Extension::Audited,
        37 => Extension::Fed,
        _ => Extension::None,
    };
    let all = types.iter_mut().map(|(_, properties)| properties).collect();
    take_extension(from, all, extension)?;
    Ok(types)
}

/// Reads the addition of a format. Malformed if an older one would have done, or a bucket can't
/// have it.
fn take_extension(
    from: &mut FieldReader<'_>,
    mut all: Vec<&mut Properties>,
    extension: Extension,
) -> WireResult<()> {
    for one in all.iter_mut().filter(|_| extension >= Extension::Replicated) {
        one.replication = available::take_replication(from)?;
    }
    for one in all.iter_mut().filter(|_| extension >= Extension::Counted) {
        one.counted = from.bool("counted")?;
        if one.counted && one.consistency == Consistency::Available {
            return Err(Malformed("counted"));
        }
    }
    for one in all.iter_mut().filter(|_| extension >= Extension::Bounded) {
        one.bytes_max = from.u64("bytes_max")?;
        if one.bytes_max > 0 && (!one.counted || one.bytes_max > BYTES_MAX_MOST) {
            return Err(Malformed("bytes_max"));
        }
    }
    for one in all.iter_mut().filter(|_| extension >= Extension::Audited) {
        let audit = BucketAudit::ALL.get(usize::from(from.u8("audit")?));
        one.audit = *audit.ok_or(Malformed("audit"))?;
    }
    for one in all.iter_mut().filter(|_| extension >= Extension::Fed) {
        let feed = FeedMode::ALL.get(usize::from(from.u8("feed")?));
        one.feed = *feed.ok_or(Malformed("feed"))?;
        one.feed_keep_ms = from.u64("feed_keep_ms")?;
        one.feed_keep_bytes = from.u64("feed_keep_bytes")?;
        if one.feed_keep_ms > TTL_MS_MAX || one.feed_keep_bytes > BYTES_MAX_MOST {
            return Err(Malformed("retention of a feed"));
        }
    }
    let needed = Extension::of(all.iter().map(|one| &**one));
    if needed == extension { Ok(()) } else { Err(Malformed("properties")) }
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
        bytes_max: 0,
        audit: BucketAudit::Off,
        feed: FeedMode::Off,
        feed_keep_ms: FEED_KEEP_MS_DEFAULT,
        feed_keep_bytes: FEED_KEEP_BYTES_DEFAULT,
        replication: Replication::default(),
    };
    let valid = (1..=KEY_BYTES_MAX).contains(&properties.key_bytes_max)
        && (1..=VALUE_BYTES_MAX).contains(&properties.value_bytes_max)
        && properties.ttl_ms <= TTL_MS_MAX;
    if valid { Ok(properties) } else { Err(Malformed("properties")) }
}
