//! Codec of calls of available buckets and their answers: contents, siblings, properties.

use super::fields::{FieldReader, FieldWriter};
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
const REPLY_SIBLINGS_MAX: usize = 65_536;

pub(super) fn put_call<W: FieldWriter>(call: &AvailableCall, out: &mut W) {
    match call {
        AvailableCall::Fetch { key, options } => put_fetch_options(options, out.u8(0).bytes(key)),
        AvailableCall::Store(store) => {
            let Store { key, content, context, options, condition } = &**store;
            put_content(content, out.u8(1).bytes(key));
            put_context(context.as_ref(), out);
            put_store_options(options, out);
            match condition {
                None => out.u8(0),
                Some(Condition::Absent) => out.u8(1),
                Some(Condition::Unchanged(context)) => out.u8(2).bytes(&context.0),
            };
        }
        AvailableCall::Remove { key, context, options } => {
            put_context(context.as_ref(), out.u8(2).bytes(key));
            put_store_options(options, out);
        }
        AvailableCall::Keys { after, rows_max } => {
            out.u8(3).optional_bytes(after.as_ref()).u64(*rows_max as u64);
        }
        AvailableCall::Buckets { after, rows_max } => {
            out.u8(4).bool(after.is_some());
            if let Some(after) = after {
                put_name(after, out);
            }
            out.u64(*rows_max as u64);
        }
        AvailableCall::Change(change) => {
            let TypeChange { key, operation, context, options } = &**change;
            types::put_operation(operation, out.u8(5).bytes(key));
            put_context(context.as_ref(), out);
            put_store_options(options, out);
        }
        AvailableCall::FetchType { key, options } => {
            put_fetch_options(options, out.u8(6).bytes(key))
        }
        AvailableCall::Owners { key } => {
            out.u8(7).bytes(key);
        }
    }
}

pub(super) fn take_call(from: &mut FieldReader<'_>) -> WireResult<AvailableCall> {
    Ok(match from.u8("kind of available call")? {
        0 => AvailableCall::Fetch { key: from.key()?, options: take_fetch_options(from)? },
        1 => AvailableCall::Store(Box::new(Store {
            key: from.key()?,
            content: take_content(from)?,
            context: from.optional("context or none", take_context)?,
            options: take_store_options(from)?,
            condition: match from.u8("condition")? {
                0 => None,
                1 => Some(Condition::Absent),
                2 => Some(Condition::Unchanged(take_context(from)?)),
                _ => return Err(Malformed("condition")),
            },
        })),
        2 => AvailableCall::Remove {
            key: from.key()?,
            context: from.optional("context or none", take_context)?,
            options: take_store_options(from)?,
        },
        3 => AvailableCall::Keys {
            after: from.optional("key or none", FieldReader::key)?,
            rows_max: from.usize("rows")?,
        },
        4 => AvailableCall::Buckets {
            after: from.optional("bucket or none", take_name)?,
            rows_max: from.usize("rows")?,
        },
        5 => AvailableCall::Change(Box::new(TypeChange {
            key: from.key()?,
            operation: types::take_operation(from, 0)?,
            context: from.optional("context or none", take_context)?,
            options: take_store_options(from)?,
        })),
        6 => AvailableCall::FetchType { key: from.key()?, options: take_fetch_options(from)? },
        7 => AvailableCall::Owners { key: from.key()? },
        _ => return Err(Malformed("kind of available call")),
    })
}

fn put_fetch_options<W: FieldWriter>(options: &FetchOptions, out: &mut W) {
    let FetchOptions { r, pr, node_confirms, basic_quorum, notfound_ok, timeout_ms } = options;
    put_quorum(*r, out);
    put_quorum(*pr, out);
    put_count(*node_confirms, out);
    put_flag(*basic_quorum, out);
    put_flag(*notfound_ok, out);
    out.optional_u64(*timeout_ms);
}

fn take_fetch_options(from: &mut FieldReader<'_>) -> WireResult<FetchOptions> {
    Ok(FetchOptions {
        r: take_quorum(from)?,
        pr: take_quorum(from)?,
        node_confirms: take_count(from)?,
        basic_quorum: take_flag(from)?,
        notfound_ok: take_flag(from)?,
        timeout_ms: from.optional("timeout or none", |from| from.u64("timeout"))?,
    })
}

fn put_store_options<W: FieldWriter>(options: &StoreOptions, out: &mut W) {
    let StoreOptions { w, dw, pw, node_confirms, timeout_ms, return_body } = options;
    for quorum in [w, dw, pw] {
        put_quorum(*quorum, out);
    }
    put_count(*node_confirms, out);
    out.optional_u64(*timeout_ms).bool(*return_body);
}

fn take_store_options(from: &mut FieldReader<'_>) -> WireResult<StoreOptions> {
    Ok(StoreOptions {
        w: take_quorum(from)?,
        dw: take_quorum(from)?,
        pw: take_quorum(from)?,
        node_confirms: take_count(from)?,
        timeout_ms: from.optional("timeout or none", |from| from.u64("timeout"))?,
        return_body: from.bool("return body")?,
    })
}

pub(super) fn put_quorum<W: FieldWriter>(quorum: Option<Quorum>, out: &mut W) {
    match quorum {
        None => out.u8(0),
        Some(Quorum::One) => out.u8(1),
        Some(Quorum::Quorum) => out.u8(2),
        Some(Quorum::All) => out.u8(3),
        Some(Quorum::Number(number)) => out.u8(4).u8(number),
    };
}

pub(super) fn take_quorum(from: &mut FieldReader<'_>) -> WireResult<Option<Quorum>> {
    Ok(match from.u8("quorum or none")? {
        0 => None,
        1 => Some(Quorum::One),
        2 => Some(Quorum::Quorum),
        3 => Some(Quorum::All),
        4 => Some(Quorum::Number(from.u8("quorum")?)),
        _ => return Err(Malformed("quorum or none")),
    })
}

fn put_count<W: FieldWriter>(count: Option<u8>, out: &mut W) {
    match count {
        None => out.bool(false),
        Some(count) => out.bool(true).u8(count),
    };
}

fn take_count(from: &mut FieldReader<'_>) -> WireResult<Option<u8>> {
    from.optional("count or none", |from| from.u8("count"))
}

fn put_flag<W: FieldWriter>(flag: Option<bool>, out: &mut W) {
    match flag {
        None => out.bool(false),
        Some(flag) => out.bool(true).bool(flag),
    };
}

fn take_flag(from: &mut FieldReader<'_>) -> WireResult<Option<bool>> {
    from.optional("flag or none", |from| from.bool("flag"))
}

fn put_context<W: FieldWriter>(context: Option<&Context>, out: &mut W) {
    out.optional_bytes(context.map(|context| &context.0));
}

pub(super) fn take_context(from: &mut FieldReader<'_>) -> WireResult<Context> {
    from.bytes(CONTEXT_BYTES_MAX, "context").map(Context)
}

fn put_content<W: FieldWriter>(content: &Content, out: &mut W) {
    let Content { value, headers } = content;
    out.bytes(value).bool(!headers.is_empty());
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

fn take_content(from: &mut FieldReader<'_>) -> WireResult<Content> {
    let value = from.value()?;
    let headers = from.optional("headers or none", take_headers)?;
    if headers.as_ref().is_some_and(|headers| headers.is_empty() || headers.check().is_err()) {
        return Err(Malformed("headers"));
    }
    Ok(Content { value, headers: headers.unwrap_or_default() })
}

fn take_headers(from: &mut FieldReader<'_>) -> WireResult<Headers> {
    let text = |from: &mut FieldReader<'_>| from.bytes(CONTENT_HEADERS_BYTES_MAX, "header");
    let pair = |from: &mut FieldReader<'_>| Ok((text(from)?, text(from)?));
    let entries_max = CONTENT_HEADERS_MAX;
    Ok(Headers {
        content_type: text(from)?,
        charset: text(from)?,
        encoding: text(from)?,
        meta: from.list((entries_max, 8), "number of headers", pair)?,
        indexes: from.list((entries_max, 8), "number of indexes", pair)?,
        links: from.list((entries_max, 12), "number of links", |from| {
            Ok(Link { bucket: text(from)?, key: text(from)?, tag: text(from)? })
        })?,
    })
}

pub(super) fn put_stored<W: FieldWriter>(context: &Context, out: &mut W) {
    out.bytes(&context.0);
}

pub(super) fn take_stored(from: &mut FieldReader<'_>) -> WireResult<Context> {
    take_context(from)
}

pub(super) fn put_siblings<W: FieldWriter>(siblings: &Siblings, out: &mut W) {
    out.bytes(&siblings.context.0).list(&siblings.values, |sibling, out| {
        let Sibling { content, written_ms, vtag, tombstone } = sibling;
        put_content(content, out);
        out.u64(*written_ms).u64((vtag.0 >> 64) as u64).u64(vtag.0 as u64).bool(*tombstone);
    });
}

pub(super) fn take_siblings(from: &mut FieldReader<'_>) -> WireResult<Siblings> {
    Ok(Siblings {
        context: take_context(from)?,
        values: from.list((REPLY_SIBLINGS_MAX, 30), "number of siblings", |from| {
            Ok(Sibling {
                content: take_content(from)?,
                written_ms: from.u64("written at")?,
                vtag: Vtag(u128::from(from.u64("vtag")?) << 64 | u128::from(from.u64("vtag")?)),
                tombstone: from.bool("tombstone")?,
            })
        })?,
    })
}

pub(super) fn put_keys<W: FieldWriter>(keys: &Keys, out: &mut W) {
    out.keys(&keys.keys).bool(keys.more);
}

pub(super) fn take_keys(from: &mut FieldReader<'_>) -> WireResult<Keys> {
    Ok(Keys { keys: from.keys(PAGE_ROWS_MAX)?, more: from.bool("more")? })
}

pub(super) fn put_names<W: FieldWriter>(names: &BucketNames, out: &mut W) {
    out.list(&names.names, |name, out| put_name(name, out)).bool(names.more);
}

pub(super) fn take_names(from: &mut FieldReader<'_>) -> WireResult<BucketNames> {
    let names = from.list((BUCKETS_MAX, 7), "number of buckets", take_name)?;
    Ok(BucketNames { names, more: from.bool("more")? })
}

pub(super) fn put_owners<W: FieldWriter>(owners: &[Owner], out: &mut W) {
    out.list(owners, |owner, out| {
        let Owner { partition, node, address, primary } = owner;
        out.u32(partition.0).bytes(node.as_bytes()).bytes(address.as_bytes()).bool(*primary);
    });
}

pub(super) fn take_owners(from: &mut FieldReader<'_>) -> WireResult<Vec<Owner>> {
    from.list((PEERS_MAX, 13), "number of owners", |from| {
        Ok(Owner {
            partition: Partition(from.u32("partition")?),
            node: from.text(NAME_BYTES_MAX, "node's name")?.into(),
            address: from.text(PEER_ADDRESS_BYTES_MAX, "node's address")?.into(),
            primary: from.bool("primary")?,
        })
    })
}

pub(super) fn put_replication<W: FieldWriter>(replication: &Replication, out: &mut W) {
    let Replication { n_val, r, pr, w, dw, pw, rw, node_confirms, .. } = *replication;
    out.u8(n_val);
    for quorum in [r, pr, w, dw, pw, rw] {
        put_quorum(Some(quorum), out);
    }
    let Replication { basic_quorum, notfound_ok, allow_mult, last_write_wins, .. } = *replication;
    out.u8(node_confirms).bool(basic_quorum).bool(notfound_ok);
    out.bool(allow_mult).bool(last_write_wins);
    let Replication { siblings_max, datatype, hll_precision, write_once, .. } = *replication;
    let kind = datatype as u8 | if write_once { WRITE_ONCE_FLAG } else { 0 };
    out.u32(siblings_max.into()).u8(kind).u8(hll_precision);
}

/// Flag in the byte of a data type's number; a reader of an older version refuses the number.
const WRITE_ONCE_FLAG: u8 = 0x80;

pub(super) fn take_replication(from: &mut FieldReader<'_>) -> WireResult<Replication> {
    let n_val = from.u8("n_val")?;
    let quorum = |from: &mut FieldReader<'_>| take_quorum(from)?.ok_or(Malformed("quorum"));
    let mut replication = Replication {
        n_val,
        r: quorum(from)?,
        pr: quorum(from)?,
        w: quorum(from)?,
        dw: quorum(from)?,
        pw: quorum(from)?,
        rw: quorum(from)?,
        node_confirms: from.u8("node_confirms")?,
        basic_quorum: from.bool("basic_quorum")?,
        notfound_ok: from.bool("notfound_ok")?,
        allow_mult: from.bool("allow_mult")?,
        last_write_wins: from.bool("last_write_wins")?,
        siblings_max: u16::try_from(from.u32("siblings_max")?)
            .map_err(|_| Malformed("siblings_max"))?,
        ..Replication::default()
    };
    let kind = from.u8("datatype")?;
    let number = usize::from(kind & !WRITE_ONCE_FLAG);
    replication.datatype = *DataType::ALL.get(number).ok_or(Malformed("datatype"))?;
    replication.write_once = kind & WRITE_ONCE_FLAG != 0;
    replication.hll_precision = from.u8("hll_precision")?;
    Ok(replication)
}
