//! Codec of queries of feeds and of their pages.

use super::WireResult;
use super::fields::{FieldReader, FieldWriter};
use super::reply::{put_record, take_record};
use crate::Version;
use crate::codec::Malformed;
use crate::feed::{FeedEvent, FeedEventKind, FeedOrigin, FeedPage, FeedQuery};
use crate::limits::{FEED_PAGE_BYTES_MAX, FEED_TOKEN_BYTES_MAX, ROW_OVERHEAD_BYTES};

/// Most events of a page: the last one may exceed its bytes.
const EVENTS_MAX: usize = FEED_PAGE_BYTES_MAX / ROW_OVERHEAD_BYTES + 1;

pub(super) fn put_query<W: FieldWriter>(query: &FeedQuery, out: &mut W) {
    let FeedQuery { from, events_max, values, wait_ms } = query;
    match from {
        FeedOrigin::Start => out.u8(0),
        FeedOrigin::Now => out.u8(1),
        FeedOrigin::Token(token) => out.u8(2).bytes(token),
    };
    out.optional_u64(events_max.map(|events| events as u64)).bool(*values).u64(*wait_ms);
}

pub(super) fn take_query(from: &mut FieldReader<'_>) -> WireResult<FeedQuery> {
    Ok(FeedQuery {
        from: match from.u8("origin of a feed")? {
            0 => FeedOrigin::Start,
            1 => FeedOrigin::Now,
            2 => FeedOrigin::Token(from.bytes(FEED_TOKEN_BYTES_MAX, "token")?),
            _ => return Err(Malformed("origin of a feed")),
        },
        events_max: from.optional("events or none", |from| from.usize("events"))?,
        values: from.bool("values")?,
        wait_ms: from.u64("wait")?,
    })
}

pub(super) fn put_page<W: FieldWriter>(page: &FeedPage, out: &mut W) {
    let FeedPage { events, next, level, restart } = page;
    out.list(events, |event, out| {
        let out = out.u8(event.kind as u8).bytes(&event.key);
        let out = out.optional_u64(event.version.map(|version| version.0));
        put_record(event.record.as_ref(), out);
        out.bool(event.again);
    });
    out.bytes(next).bool(*level).bool(*restart);
}

pub(super) fn take_page(from: &mut FieldReader<'_>) -> WireResult<FeedPage> {
    let events = from.list((EVENTS_MAX, 8), "number of events", take_event)?;
    Ok(FeedPage {
        events,
        next: from.bytes(FEED_TOKEN_BYTES_MAX, "token")?,
        level: from.bool("level")?,
        restart: from.bool("restart")?,
    })
}

fn take_event(from: &mut FieldReader<'_>) -> WireResult<FeedEvent> {
    let kind = match from.u8("kind of event")? {
        0 => FeedEventKind::Put,
        1 => FeedEventKind::Delete,
        _ => return Err(Malformed("kind of event")),
    };
    Ok(FeedEvent {
        kind,
        key: from.key()?,
        version: from.optional("version or none", |from| from.u64("version").map(Version))?,
        record: take_record(from)?,
        again: from.bool("again")?,
    })
}
