//! Credenza's command on the changes of a bucket, in the form of Redis' `XREAD`.

use super::buckets::bucket_name;
use super::range::parse_limit;
use super::siblings::{set_once, write_values};
use super::{CommandContext, MultiStep, RespPlan, TranslateResult};
use crate::feed_reader::PAGE_WAIT_MS_MAX;
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::output::{Output, Protocol};
use base::feed::FeedOrigin;
use base::reply::IndexRecord;
use base::{BucketName, Call, FeedEvent, FeedPage, FeedQuery, Read, Request};
use bytes::Bytes;

pub fn feed(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let bucket = bucket_name(args, 1)?;
    let (mut from, mut events_max, mut block) = (None, None, None);
    let mut query = FeedQuery::default();
    let mut at = 2;
    while at < args.len() {
        let has_next = at + 1 < args.len();
        match args.upper(at).as_str() {
            "VALUES" => query.values = true,
            "FROM" if has_next => {
                at += 1;
                set_once(&mut from, FeedOrigin::parse(args.get(at)))?;
            }
            "COUNT" if has_next => {
                at += 1;
                set_once(&mut events_max, parse_limit(args, at)?)?;
            }
            "BLOCK" if has_next => {
                at += 1;
                set_once(&mut block, args.natural(at)?)?;
            }
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    query.from = from.unwrap_or_default();
    query.events_max = events_max;
    query.wait_ms = match (&query.from, block) {
        // The answer tells the token at once: a client that waited without one would miss what
        // happens between two waits.
        (FeedOrigin::Start | FeedOrigin::Now, _) | (_, None) => 0,
        // Redis waits for ever for 0; here the client asks again.
        (_, Some(0)) => PAGE_WAIT_MS_MAX,
        (_, Some(block)) => block.min(PAGE_WAIT_MS_MAX),
    };
    query.check().map_err(|error| RespRefusal::from_text(errors::text(&error)))?;
    let call = Call::Read(Read::Feed(Box::new(query)), ctx.client.read_level);
    let request = Request { bucket, call, retry: None };
    Ok(RespPlan::MultiStep(MultiStep::Feed(Box::new(request))))
}

/// Writes a page as `XREAD` does: for the bucket its entries, each with an id and fields. The last
/// entry is no event: its id is the token behind the page. Events have no id, because they are no
/// places to begin at.
pub fn write_page(bucket: &BucketName, page: &FeedPage, out: &mut Output) {
    match out.protocol {
        Protocol::Two => {
            out.array(1);
            out.array(2);
        }
        Protocol::Three => out.map(1),
    }
    out.text(bucket.full());
    out.array(usize::from(page.restart) + page.events.len() + 1);
    if page.restart {
        write_message(None, "restart", out);
    }
    page.events.iter().for_each(|event| write_event(event, out));
    write_message(Some(&page.next), if page.level { "level" } else { "token" }, out);
}

fn write_message(token: Option<&Bytes>, name: &str, out: &mut Output) {
    out.array(2);
    match token {
        Some(token) => out.value(token),
        None => out.null(),
    }
    out.array(2);
    out.text("event");
    out.text(name);
}

fn write_event(event: &FeedEvent, out: &mut Output) {
    let version = match &event.record {
        Some(IndexRecord::Row(row)) => Some(row.version),
        _ => event.version,
    };
    let record_fields = match &event.record {
        None => 0,
        Some(IndexRecord::Row(row)) => 1 + usize::from(row.expires_in_ms.is_some()),
        Some(IndexRecord::Siblings(_)) => 1,
    };
    let fields = 2 + usize::from(version.is_some()) + record_fields + usize::from(event.again);
    out.array(2);
    out.null();
    out.array(2 * fields);
    out.text("event");
    out.text(event.kind.name());
    out.text("key");
    out.value(&event.key);
    if let Some(version) = version {
        out.text("version");
        out.text(version.to_string());
    }
    match &event.record {
        None => {}
        Some(IndexRecord::Row(row)) => {
            out.text("value");
            out.value(&row.value);
            if let Some(ms) = row.expires_in_ms {
                out.text("expires_in_ms");
                out.text(ms.to_string());
            }
        }
        Some(IndexRecord::Siblings(siblings)) => {
            out.text("siblings");
            write_values(siblings, out);
        }
    }
    if event.again {
        out.text("again");
        out.text("1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::feed::FeedEventKind;
    use base::{Row, Version};

    fn page() -> FeedPage {
        let key = Bytes::from_static(b"a");
        let value = Bytes::from_static(b"v");
        let row = Row { value, version: Version(3), expires_in_ms: Some(9), tags: None };
        let event = |kind, version, record| FeedEvent {
            kind,
            key: key.clone(),
            version,
            record,
            again: kind == FeedEventKind::Delete,
        };
        let put = event(FeedEventKind::Put, None, Some(IndexRecord::Row(row)));
        let delete = event(FeedEventKind::Delete, Some(Version(4)), None);
        let (next, events) = (Bytes::from_static(b"AQ"), vec![put, delete]);
        FeedPage { events, next, level: true, restart: true }
    }

    fn encoded(protocol: Protocol) -> String {
        let mut out = Output::new(protocol);
        write_page(&BucketName::default(), &page(), &mut out);
        base::codec::printable(&out.to_bytes()).replace("\\x0d\\x0a", "|")
    }

    #[test]
    fn page_has_the_form_of_xread_and_its_last_entry_the_token() {
        let entries = "$15|default/default|*4|\
                       *2|NIL|*2|$5|event|$7|restart|\
                       *2|NIL|*10|$5|event|$3|put|$3|key|$1|a|$7|version|$1|3|$5|value|$1|v|\
                       $13|expires_in_ms|$1|9|\
                       *2|NIL|*8|$5|event|$6|delete|$3|key|$1|a|$7|version|$1|4|$5|again|$1|1|\
                       *2|$2|AQ|*2|$5|event|$5|level|";
        assert_eq!(encoded(Protocol::Two), format!("*1|*2|{}", entries.replace("NIL", "$-1")));
        assert_eq!(encoded(Protocol::Three), format!("%1|{}", entries.replace("NIL", "_")));
    }
}
