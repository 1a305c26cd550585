//! Codec of calls of available buckets and their answers: contents, siblings, properties.

use super::fields::{Fields, Source};
use super::request::{put_name, take_name};
use super::{WireResult, types};
use crate::Partition;
use crate::available::{
    AvailableCall, BucketNames, Condition, Content, Context, FetchOptions, Headers, Keys, Link,
    Owner, Sibling, Siblings, Store, StoreOptions, TypeChange, Vtag,
};
use crate::codec::Malformed;
use crate::limits::{
    BUCKETS_MAX, CONTENT_HEADERS_BYTES_MAX, CONTENT_HEADERS_MAX, CONTEXT_BYTES_MAX, NAME_BYTES_MAX,
    PAGE_ROWS_MAX, PEER_ADDRESS_BYTES_MAX, PEERS_MAX,
};
use crate::properties::{DataType, Replication};
use crate::quorum::Quorum;
use bytes::Bytes;

/// Most siblings of one answer: replicas that were partitioned may hold more together than one of
/// them would accept.
const SIBLINGS_TOLD_MAX: usize = 65_536;

pub(super) fn put_call<W: Fields>(call: &AvailableCall, out: &mut W) {
    match call {
        AvailableCall::Fetch { key, options } => put_fetch(options, out.byte(0).bytes(key)),
        AvailableCall::Store(store) => {
            let Store { key, content, context, options, condition } = &**store;
            put_content(content, out.byte(1).bytes(key));
            put_context(context.as_ref(), out);
            put_store(options, out);
            match condition {
                None => out.byte(0),
                Some(Condition::Absent) => out.byte(1),
                Some(Condition::Unchanged(context)) => out.byte(2).bytes(&context.0),
            };
        }
        AvailableCall::Remove { key, context, options } => {
            put_context(context.as_ref(), out.byte(2).bytes(key));
            put_store(options, out);
        }
        AvailableCall::Keys { after, rows_max } => {
            out.byte(3).maybe_bytes(after.as_ref()).word(*rows_max as u64);
        }
        AvailableCall::Buckets { after, rows_max } => {
            out.byte(4).yes(after.is_some());
            if let Some(after) = after {
                put_name(after, out);
            }
            out.word(*rows_max as u64);
        }
        AvailableCall::Change(change) => {
            let TypeChange { key, operation, context, options } = &**change;
            types::put_operation(operation, out.byte(5).bytes(key));
            put_context(context.as_ref(), out);
            put_store(options, out);
        }
        AvailableCall::FetchType { key, options } => put_fetch(options, out.byte(6).bytes(key)),
        AvailableCall::Owners { key } => {
            out.byte(7).bytes(key);
        }
    }
}

pub(super) fn take_call(from: &mut Source<'_>) -> WireResult<AvailableCall> {
    Ok(match from.byte("which available call")? {
        0 => AvailableCall::Fetch { key: from.key()?, options: take_fetch(from)? },
        1 => AvailableCall::Store(Box::new(Store {
            key: from.key()?,
            content: take_content(from)?,
            context: from.maybe("context or none", take_context)?,
            options: take_store(from)?,
            condition: match from.byte("condition")? {
                0 => None,
                1 => Some(Condition::Absent),
                2 => Some(Condition::Unchanged(take_context(from)?)),
                _ => return Err(Malformed("condition")),
            },
        })),
        2 => AvailableCall::Remove {
            key: from.key()?,
            context: from.maybe("context or none", take_context)?,
            options: take_store(from)?,
        },
        3 => AvailableCall::Keys {
            after: from.maybe("key or none", Source::key)?,
            rows_max: from.size("rows")?,
        },
        4 => AvailableCall::Buckets {
            after: from.maybe("bucket or none", take_name)?,
            rows_max: from.size("rows")?,
        },
        5 => AvailableCall::Change(Box::new(TypeChange {
            key: from.key()?,
            operation: types::take_operation(from, 0)?,
            context: from.maybe("context or none", take_context)?,
            options: take_store(from)?,
        })),
        6 => AvailableCall::FetchType { key: from.key()?, options: take_fetch(from)? },
        7 => AvailableCall::Owners { key: from.key()? },
        _ => return Err(Malformed("which available call")),
    })
}

fn put_fetch<W: Fields>(options: &FetchOptions, out: &mut W) {
    let FetchOptions { r, pr, node_confirms, basic_quorum, notfound_ok, timeout_ms } = options;
    put_quorum(*r, out);
    put_quorum(*pr, out);
    put_count(*node_confirms, out);
    put_flag(*basic_quorum, out);
    put_flag(*notfound_ok, out);
    out.maybe_word(*timeout_ms);
}

fn take_fetch(from: &mut Source<'_>) -> WireResult<FetchOptions> {
    Ok(FetchOptions {
        r: take_quorum(from)?,
        pr: take_quorum(from)?,
        node_confirms: take_count(from)?,
        basic_quorum: take_flag(from)?,
        notfound_ok: take_flag(from)?,
        timeout_ms: from.maybe("timeout or none", |from| from.word("timeout"))?,
    })
}

fn put_store<W: Fields>(options: &StoreOptions, out: &mut W) {
    let StoreOptions { w, dw, pw, node_confirms, timeout_ms, return_body } = options;
    for quorum in [w, dw, pw] {
        put_quorum(*quorum, out);
    }
    put_count(*node_confirms, out);
    out.maybe_word(*timeout_ms).yes(*return_body);
}

fn take_store(from: &mut Source<'_>) -> WireResult<StoreOptions> {
    Ok(StoreOptions {
        w: take_quorum(from)?,
        dw: take_quorum(from)?,
        pw: take_quorum(from)?,
        node_confirms: take_count(from)?,
        timeout_ms: from.maybe("timeout or none", |from| from.word("timeout"))?,
        return_body: from.yes("return body")?,
    })
}

fn put_quorum<W: Fields>(quorum: Option<Quorum>, out: &mut W) {
    match quorum {
        None => out.byte(0),
        Some(Quorum::One) => out.byte(1),
        Some(Quorum::Quorum) => out.byte(2),
        Some(Quorum::All) => out.byte(3),
        Some(Quorum::Number(number)) => out.byte(4).byte(number),
    };
}

fn take_quorum(from: &mut Source<'_>) -> WireResult<Option<Quorum>> {
    Ok(match from.byte("quorum or none")? {
        0 => None,
        1 => Some(Quorum::One),
        2 => Some(Quorum::Quorum),
        3 => Some(Quorum::All),
        4 => Some(Quorum::Number(from.byte("quorum")?)),
        _ => return Err(Malformed("quorum or none")),
    })
}

fn put_count<W: Fields>(count: Option<u8>, out: &mut W) {
    match count {
        None => out.yes(false),
        Some(count) => out.yes(true).byte(count),
    };
}

fn take_count(from: &mut Source<'_>) -> WireResult<Option<u8>> {
    from.maybe("count or none", |from| from.byte("count"))
}

fn put_flag<W: Fields>(flag: Option<bool>, out: &mut W) {
    match flag {
        None => out.yes(false),
        Some(flag) => out.yes(true).yes(flag),
    };
}

fn take_flag(from: &mut Source<'_>) -> WireResult<Option<bool>> {
    from.maybe("flag or none", |from| from.yes("flag"))
}

fn put_context<W: Fields>(context: Option<&Context>, out: &mut W) {
    out.maybe_bytes(context.map(|context| &context.0));
}

pub(super) fn take_context(from: &mut Source<'_>) -> WireResult<Context> {
    from.bytes(CONTEXT_BYTES_MAX, "context").map(Context)
}

fn put_content<W: Fields>(content: &Content, out: &mut W) {
    let Content { value, headers } = content;
    out.bytes(value).yes(!headers.is_empty());
    if headers.is_empty() {
        return;
    }
    let Headers { content_type, charset, encoding, meta, links, indexes } = headers;
    out.bytes(content_type).bytes(charset).bytes(encoding);
    let pair = |(name, text): &(Bytes, Bytes), out: &mut W| {
        out.bytes(name).bytes(text);
    };
    out.list(meta, pair).list(indexes, pair).list(links, |link, out| {
        out.bytes(&link.bucket).bytes(&link.key).bytes(&link.tag);
    });
}

fn take_content(from: &mut Source<'_>) -> WireResult<Content> {
    let value = from.value()?;
    let headers = from.maybe("headers or none", take_headers)?;
    if headers.as_ref().is_some_and(|headers| headers.is_empty() || headers.check().is_err()) {
        return Err(Malformed("headers"));
    }
    Ok(Content { value, headers: headers.unwrap_or_default() })
}

fn take_headers(from: &mut Source<'_>) -> WireResult<Headers> {
    let text = |from: &mut Source<'_>| from.bytes(CONTENT_HEADERS_BYTES_MAX, "header");
    let pair = |from: &mut Source<'_>| Ok((text(from)?, text(from)?));
    let most = CONTENT_HEADERS_MAX;
    Ok(Headers {
        content_type: text(from)?,
        charset: text(from)?,
        encoding: text(from)?,
        meta: from.list((most, 8), "how many headers", pair)?,
        indexes: from.list((most, 8), "how many indexes", pair)?,
        links: from.list((most, 12), "how many links", |from| {
            Ok(Link { bucket: text(from)?, key: text(from)?, tag: text(from)? })
        })?,
    })
}

pub(super) fn put_stored<W: Fields>(context: &Context, out: &mut W) {
    out.bytes(&context.0);
}

pub(super) fn take_stored(from: &mut Source<'_>) -> WireResult<Context> {
    take_context(from)
}

pub(super) fn put_siblings<W: Fields>(siblings: &Siblings, out: &mut W) {
    out.bytes(&siblings.context.0).list(&siblings.values, |sibling, out| {
        let Sibling { content, written_ms, vtag, tombstone } = sibling;
        put_content(content, out);
        out.word(*written_ms).word((vtag.0 >> 64) as u64).word(vtag.0 as u64).yes(*tombstone);
    });
}

pub(super) fn take_siblings(from: &mut Source<'_>) -> WireResult<Siblings> {
    Ok(Siblings {
        context: take_context(from)?,
        values: from.list((SIBLINGS_TOLD_MAX, 30), "how many siblings", |from| {
            Ok(Sibling {
                content: take_content(from)?,
                written_ms: from.word("written at")?,
                vtag: Vtag(u128::from(from.word("vtag")?) << 64 | u128::from(from.word("vtag")?)),
                tombstone: from.yes("tombstone")?,
            })
        })?,
    })
}

pub(super) fn put_keys<W: Fields>(keys: &Keys, out: &mut W) {
    out.keys(&keys.keys).yes(keys.more);
}

pub(super) fn take_keys(from: &mut Source<'_>) -> WireResult<Keys> {
    Ok(Keys { keys: from.keys(PAGE_ROWS_MAX)?, more: from.yes("more")? })
}

pub(super) fn put_names<W: Fields>(names: &BucketNames, out: &mut W) {
    out.list(&names.names, |name, out| put_name(name, out)).yes(names.more);
}

pub(super) fn take_names(from: &mut Source<'_>) -> WireResult<BucketNames> {
    let names = from.list((BUCKETS_MAX, 7), "how many buckets", take_name)?;
    Ok(BucketNames { names, more: from.yes("more")? })
}

pub(super) fn put_owners<W: Fields>(owners: &[Owner], out: &mut W) {
    out.list(owners, |owner, out| {
        let Owner { partition, node, address, primary } = owner;
        out.half(partition.0).bytes(node.as_bytes()).bytes(address.as_bytes()).yes(*primary);
    });
}

pub(super) fn take_owners(from: &mut Source<'_>) -> WireResult<Vec<Owner>> {
    from.list((PEERS_MAX, 13), "how many owners", |from| {
        Ok(Owner {
            partition: Partition(from.half("partition")?),
            node: from.text(NAME_BYTES_MAX, "node's name")?.into(),
            address: from.text(PEER_ADDRESS_BYTES_MAX, "node's address")?.into(),
            primary: from.yes("primary")?,
        })
    })
}

pub(super) fn put_replication<W: Fields>(replication: &Replication, out: &mut W) {
    let Replication { n_val, r, pr, w, dw, pw, rw, node_confirms, .. } = *replication;
    out.byte(n_val);
    for quorum in [r, pr, w, dw, pw, rw] {
        put_quorum(Some(quorum), out);
    }
    let Replication { basic_quorum, notfound_ok, allow_mult, last_write_wins, .. } = *replication;
    out.byte(node_confirms).yes(basic_quorum).yes(notfound_ok);
    out.yes(allow_mult).yes(last_write_wins);
    let Replication { siblings_max, datatype, hll_precision, write_once, .. } = *replication;
    let kind = datatype as u8 | if write_once { WRITTEN_ONCE } else { 0 };
    out.half(siblings_max.into()).byte(kind).byte(hll_precision);
}

/// Flag beside a data type's number; a reader that does not know it refuses the number.
const WRITTEN_ONCE: u8 = 0x80;

pub(super) fn take_replication(from: &mut Source<'_>) -> WireResult<Replication> {
    let n_val = from.byte("n_val")?;
    let quorum = |from: &mut Source<'_>| take_quorum(from)?.ok_or(Malformed("quorum"));
    let mut replication = Replication {
        n_val,
        r: quorum(from)?,
        pr: quorum(from)?,
        w: quorum(from)?,
        dw: quorum(from)?,
        pw: quorum(from)?,
        rw: quorum(from)?,
        node_confirms: from.byte("node_confirms")?,
        basic_quorum: from.yes("basic_quorum")?,
        notfound_ok: from.yes("notfound_ok")?,
        allow_mult: from.yes("allow_mult")?,
        last_write_wins: from.yes("last_write_wins")?,
        siblings_max: u16::try_from(from.half("siblings_max")?)
            .map_err(|_| Malformed("siblings_max"))?,
        ..Replication::default()
    };
    let kind = from.byte("datatype")?;
    let number = usize::from(kind & !WRITTEN_ONCE);
    replication.datatype = *DataType::ALL.get(number).ok_or(Malformed("datatype"))?;
    replication.write_once = kind & WRITTEN_ONCE != 0;
    replication.hll_precision = from.byte("hll_precision")?;
    Ok(replication)
}
