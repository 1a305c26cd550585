//! Codec of calls about indexes, their descriptions, and queries of them.

use super::WireResult;
use super::available::{put_quorum, take_quorum};
use super::fields::{FieldReader, FieldWriter};
use super::request::{put_bound, put_direction, take_bound, take_direction};
use crate::codec::Malformed;
use crate::index::{
    BuildProgress, IndexCall, IndexContent, IndexDescription, IndexQuery, IndexReport, IndexSpec,
    IndexState, ReportPlace, ReportedState, TermSelection,
};
use crate::limits::{
    HTTP_SMALL_BODY_BYTES_MAX, INDEX_CONTINUATION_BYTES_MAX, INDEX_NAME_BYTES_MAX,
    INDEX_REGEX_BYTES_MAX, INDEXES_PER_BUCKET_MAX, KEY_BYTES_MAX,
};
use crate::{BucketId, NodeId};
use bytes::Bytes;

/// Longest text of a definition on its way. The directory refuses shorter ones, with the remedy.
const TEXT_BYTES_MAX: usize = HTTP_SMALL_BODY_BYTES_MAX;

pub(super) fn put_call<W: FieldWriter>(call: &IndexCall, out: &mut W) {
    match call {
        IndexCall::Create(spec) => put_spec(spec, out.u8(0)),
        IndexCall::Drop { name } => {
            out.u8(1).bytes(name.as_bytes());
        }
        IndexCall::Describe { name } => {
            out.u8(2).bytes(name.as_bytes());
        }
        IndexCall::List => out.put_u8(3),
        IndexCall::Report(report) => put_report(report, out.u8(4)),
    }
}

pub(super) fn take_call(from: &mut FieldReader<'_>) -> WireResult<IndexCall> {
    Ok(match from.u8("kind of index call")? {
        0 => IndexCall::Create(take_spec(from)?),
        1 => IndexCall::Drop { name: take_text(from, "index")? },
        2 => IndexCall::Describe { name: take_text(from, "index")? },
        3 => IndexCall::List,
        4 => IndexCall::Report(take_report(from)?),
        _ => return Err(Malformed("kind of index call")),
    })
}

fn take_text(from: &mut FieldReader<'_>, field: &'static str) -> WireResult<String> {
    from.text(TEXT_BYTES_MAX, field).map(String::from)
}

fn put_spec<W: FieldWriter>(spec: &IndexSpec, out: &mut W) {
    let IndexSpec { name, path, value_type, format, is_unique, is_strict } = spec;
    for text in [name, path, value_type, format] {
        out.bytes(text.as_bytes());
    }
    out.bool(*is_unique).bool(*is_strict);
}

fn take_spec(from: &mut FieldReader<'_>) -> WireResult<IndexSpec> {
    Ok(IndexSpec {
        name: take_text(from, "index")?,
        path: take_text(from, "path of an index")?,
        value_type: take_text(from, "type of an index")?,
        format: take_text(from, "format of an index")?,
        is_unique: from.bool("unique")?,
        is_strict: from.bool("strict")?,
    })
}

fn put_report<W: FieldWriter>(report: &IndexReport, out: &mut W) {
    out.u32(report.number);
    match report.place {
        ReportPlace::Bucket(bucket) => out.u8(0).u32(bucket.0),
        ReportPlace::Node(node) => out.u8(1).u64(node.0),
    };
    match &report.state {
        ReportedState::Building(progress) => put_progress(*progress, out.u8(0)),
        ReportedState::Complete(records) => {
            out.u8(1).u64(*records);
        }
        ReportedState::Failed(cause) => {
            out.u8(2).bytes(cause.as_bytes());
        }
        ReportedState::Removed => out.put_u8(3),
    }
}

fn take_report(from: &mut FieldReader<'_>) -> WireResult<IndexReport> {
    Ok(IndexReport {
        number: from.u32("number of an index")?,
        place: match from.u8("place of an index")? {
            0 => ReportPlace::Bucket(BucketId(from.u32("bucket's number")?)),
            1 => ReportPlace::Node(NodeId(from.u64("node")?)),
            _ => return Err(Malformed("place of an index")),
        },
        state: match from.u8("state of an index")? {
            0 => ReportedState::Building(take_progress(from)?),
            1 => ReportedState::Complete(from.u64("records")?),
            2 => ReportedState::Failed(take_text(from, "cause")?),
            3 => ReportedState::Removed,
            _ => return Err(Malformed("state of an index")),
        },
    })
}

fn put_progress<W: FieldWriter>(progress: BuildProgress, out: &mut W) {
    out.u64(progress.done).u64(progress.total);
}

fn take_progress(from: &mut FieldReader<'_>) -> WireResult<BuildProgress> {
    Ok(BuildProgress { done: from.u64("records")?, total: from.u64("records")? })
}

pub(super) fn put_descriptions<W: FieldWriter>(all: &[IndexDescription], out: &mut W) {
    out.list(all, |one, out| {
        put_spec(&one.spec, out.u32(one.number));
        match &one.state {
            IndexState::Building(progress) => put_progress(*progress, out.u8(0)),
            IndexState::Ready => out.put_u8(1),
            IndexState::Failed(cause) => {
                out.u8(2).bytes(cause.as_bytes());
            }
            IndexState::Dropping => out.put_u8(3),
        }
    });
}

pub(super) fn take_descriptions(from: &mut FieldReader<'_>) -> WireResult<Vec<IndexDescription>> {
    from.list((INDEXES_PER_BUCKET_MAX, 23), "number of indexes", |from| {
        Ok(IndexDescription {
            number: from.u32("number of an index")?,
            spec: take_spec(from)?,
            state: match from.u8("state of an index")? {
                0 => IndexState::Building(take_progress(from)?),
                1 => IndexState::Ready,
                2 => IndexState::Failed(take_text(from, "cause")?),
                3 => IndexState::Dropping,
                _ => return Err(Malformed("state of an index")),
            },
        })
    })
}

pub(super) fn put_query<W: FieldWriter>(query: &IndexQuery, out: &mut W) {
    let IndexQuery { index, terms, direction, after, rows_max, want, regex, .. } = query;
    out.bytes(index);
    match terms {
        TermSelection::Equal(text) => {
            out.u8(0).bytes(text);
        }
        TermSelection::Between(low, high) => {
            put_bound(low, out.u8(1));
            put_bound(high, out);
        }
        TermSelection::Prefix(text) => {
            out.u8(2).bytes(text);
        }
    }
    put_direction(*direction, out);
    out.optional_bytes(after.as_ref()).optional_u64(rows_max.map(|rows| rows as u64));
    out.u8(*want as u8).bool(regex.is_some());
    if let Some(regex) = regex {
        out.bytes(regex.as_bytes());
    }
    put_quorum(query.r, out);
    out.bool(query.allows_partial).optional_u64(query.timeout_ms);
}

pub(super) fn take_query(from: &mut FieldReader<'_>) -> WireResult<IndexQuery> {
    let term = |from: &mut FieldReader<'_>| -> WireResult<Bytes> {
        from.bytes(KEY_BYTES_MAX, "term of a query")
    };
    Ok(IndexQuery {
        index: from.bytes(INDEX_NAME_BYTES_MAX, "index")?,
        terms: match from.u8("terms")? {
            0 => TermSelection::Equal(term(from)?),
            1 => TermSelection::Between(take_bound(from)?, take_bound(from)?),
            2 => TermSelection::Prefix(term(from)?),
            _ => return Err(Malformed("terms")),
        },
        direction: take_direction(from)?,
        after: from.optional("continuation or none", |from| {
            from.bytes(INDEX_CONTINUATION_BYTES_MAX, "continuation")
        })?,
        rows_max: from.optional("rows or none", |from| from.usize("rows"))?,
        want: {
            let want = IndexContent::ALL.get(usize::from(from.u8("wanted part of a row")?));
            *want.ok_or(Malformed("wanted part of a row"))?
        },
        regex: from.optional("expression or none", |from| {
            from.text(INDEX_REGEX_BYTES_MAX, "expression").map(String::from)
        })?,
        r: take_quorum(from)?,
        allows_partial: from.bool("partial")?,
        timeout_ms: from.optional("timeout or none", |from| from.u64("timeout"))?,
    })
}
