//! Credenza's commands on declared indexes of the connection's bucket: creating, dropping, listing,
//! querying.

use super::range::{parse_bound, parse_limit};
use super::siblings::{quorum, set_once, write_values};
use super::{CommandContext, RespPlan, RespShape, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::output::Output;
use base::index::{
    IndexCall, IndexContent, IndexDescription, IndexQuery, IndexSpec, IndexState, TermSelection,
};
use base::range::Direction;
use base::reply::IndexRecord;
use base::{DirectoryCall, IndexPage, IndexRow, Read};

pub fn create(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let mut spec =
        IndexSpec { name: args.text(2)?.into(), format: "json".into(), ..IndexSpec::default() };
    let mut at = 3;
    while at < args.len() {
        let has_next = at + 1 < args.len();
        match args.upper(at).as_str() {
            "UNIQUE" => spec.is_unique = true,
            "STRICT" => spec.is_strict = true,
            "PATH" if has_next => {
                at += 1;
                spec.path = args.text(at)?.into();
            }
            "TYPE" if has_next => {
                at += 1;
                spec.value_type = args.text(at)?.to_ascii_lowercase();
            }
            "FORMAT" if has_next => {
                at += 1;
                spec.format = args.text(at)?.to_ascii_lowercase();
            }
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    if spec.path.is_empty() || spec.value_type.is_empty() {
        return Err(RespRefusal::new("ERR an index needs PATH and TYPE: `PATH $.age TYPE INT`"));
    }
    plan(ctx, IndexCall::Create(spec), RespShape::Ok)
}

pub fn drop(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    plan(ctx, IndexCall::Drop { name: args.text(2)?.into() }, RespShape::Ok)
}

pub fn list(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    plan(ctx, IndexCall::List, RespShape::Indexes)
}

pub fn status(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    plan(ctx, IndexCall::Describe { name: args.text(2)?.into() }, RespShape::Index)
}

fn plan(ctx: &CommandContext<'_>, call: IndexCall, shape: RespShape) -> TranslateResult {
    Ok(RespPlan::Directory(ctx.client.bucket.clone(), DirectoryCall::Index(call), shape))
}

pub fn range(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let terms = match args.upper(3).as_str() {
        "EQUALS" => TermSelection::Equal(args.get_bytes(4)),
        "PREFIX" => TermSelection::Prefix(args.get_bytes(4)),
        _ => TermSelection::Between(parse_bound(args, 3, b"-")?, parse_bound(args, 4, b"+")?),
    };
    let mut query = IndexQuery { index: args.get_bytes(2), terms, ..IndexQuery::default() };
    let mut at = 5;
    while at < args.len() {
        let has_next = at + 1 < args.len();
        match args.upper(at).as_str() {
            "REV" => query.direction = Direction::Descending,
            "KEYS" => query.want = IndexContent::Keys,
            "TERMS" => query.want = IndexContent::Terms,
            "RECORDS" => query.want = IndexContent::Records,
            "LIMIT" if has_next => {
                at += 1;
                query.rows_max = Some(parse_limit(args, at)?);
            }
            "AFTER" if has_next => {
                at += 1;
                query.after = Some(args.get_bytes(at));
            }
            "PARTIAL" => query.allows_partial = true,
            "R" if has_next => {
                set_once(&mut query.r, quorum(args, at)?)?;
                at += 1;
            }
            "TIMEOUT" if has_next => {
                at += 1;
                set_once(&mut query.timeout_ms, args.natural(at)?)?;
            }
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    query.check().map_err(|error| RespRefusal::from_text(errors::text(&error)))?;
    let shape = RespShape::IndexPage(query.allows_partial);
    ctx.read(Read::Index(query.into()), shape)
}

pub fn help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "CREDENZA.INDEX [<subcommand>]. Without one: returns a log index that covers everything in \
         the last answer. Subcommands, on the connection's bucket, are:",
        "CREATE <name> PATH <path> TYPE <type> [FORMAT <format>] [UNIQUE] [STRICT]: creates an \
         index, which is then built.",
        "DROP <name>: drops an index; rows stay as they are.",
        "LIST: lists the indexes.",
        "STATUS <name>: returns an index, its state and the progress of its build.",
        "RANGE <name> (<low> <high> | EQUALS <term> | PREFIX <prefix>) [REV] [LIMIT <count>] [KEYS \
         | TERMS | RECORDS] [AFTER <continuation>] [R <quorum>] [PARTIAL] [TIMEOUT \
         <milliseconds>]: returns a page of keys.",
    ])
}

/// Writes indexes: an array of them, or the only one by itself.
pub fn write_indexes(indexes: &[IndexDescription], is_list: bool, ctx: &mut CommandContext<'_>) {
    if is_list {
        ctx.out.array(indexes.len());
        indexes.iter().for_each(|index| write_index(index, ctx));
    } else if let [index] = indexes {
        write_index(index, ctx);
    } else {
        ctx.out.null();
    }
}

fn write_index(index: &IndexDescription, ctx: &mut CommandContext<'_>) {
    let IndexSpec { name, path, value_type, format, is_unique, is_strict } = &index.spec;
    let flag = |is_set: &bool| is_set.to_string();
    let mut fields = vec![
        ("name", name.clone()),
        ("number", index.number.to_string()),
        ("path", path.clone()),
        ("type", value_type.clone()),
        ("format", format.clone()),
        ("unique", flag(is_unique)),
        ("strict", flag(is_strict)),
        ("state", index.state.name().into()),
    ];
    match &index.state {
        IndexState::Building(progress) => {
            fields.push(("done", progress.done.to_string()));
            fields.push(("total", progress.total.to_string()));
        }
        IndexState::Failed(cause) => fields.push(("cause", cause.clone())),
        IndexState::Ready | IndexState::Dropping => {}
    }
    ctx.out.map(fields.len());
    for (name, text) in fields {
        ctx.out.text(name);
        ctx.out.text(text);
    }
}

/// Writes a page: the continuation, or null, and for each row its key, and what was asked for of
/// its term and its record. A record of an available bucket is a context with values, however many
/// there are. A query that allows a partial page is told by a number whether it got one.
pub fn write_page(page: &IndexPage, says_partial: bool, out: &mut Output) {
    out.array(if says_partial { 3 } else { 2 });
    match &page.after {
        Some(after) => out.value(after),
        None => out.null(),
    }
    let frames =
        |row: &IndexRow| 1 + usize::from(row.term.is_some()) + usize::from(row.record.is_some());
    out.array(page.rows.iter().map(frames).sum());
    for row in &page.rows {
        out.value(&row.key);
        if let Some(term) = &row.term {
            out.value(term);
        }
        match &row.record {
            Some(IndexRecord::Row(row)) => out.value(&row.value),
            Some(IndexRecord::Siblings(siblings)) => write_values(siblings, out),
            None => {}
        }
    }
    if says_partial {
        out.integer(page.is_partial.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::output::Protocol;
    use base::{Content, Context, Row, Sibling, Siblings, Version, Vtag};
    use bytes::Bytes;

    fn encoded(page: &IndexPage, says_partial: bool) -> String {
        let mut out = Output::new(Protocol::Two);
        write_page(page, says_partial, &mut out);
        base::codec::printable(&out.to_bytes()).replace("\\x0d\\x0a", "|")
    }

    fn record(key: &'static str, record: IndexRecord) -> IndexRow {
        let (key, term) = (Bytes::from_static(key.as_bytes()), Some(Bytes::from_static(b"7")));
        IndexRow { key, term, record: Some(record) }
    }

    #[test]
    fn record_has_the_form_of_its_bucket() {
        let sibling = |value: &'static str, tombstone| Sibling {
            content: Content::plain(Bytes::from_static(value.as_bytes())),
            written_ms: 4,
            vtag: Vtag(0),
            tombstone,
        };
        let siblings = |values: Vec<Sibling>| {
            let context = Context(Bytes::from_static(b"seen"));
            IndexRecord::Siblings(Siblings { context, values })
        };
        let value = Bytes::from_static(b"v");
        let row = Row { value, version: Version(3), expires_in_ms: None, tags: None };
        let rows = vec![
            record("a", IndexRecord::Row(row)),
            record("b", siblings(vec![sibling("v", false)])),
            record("c", siblings(vec![sibling("w", false), sibling("", true)])),
        ];
        let page = IndexPage { rows, ..IndexPage::default() };
        let expected = "*2|$-1|*9|$1|a|$1|7|$1|v|\
                        $1|b|$1|7|*2|$4|seen|*1|$1|v|\
                        $1|c|$1|7|*2|$4|seen|*2|$1|w|$-1|";
        assert_eq!(encoded(&page, false), expected);
    }

    #[test]
    fn third_element_says_whether_rows_may_be_missing() {
        let page = |is_partial| IndexPage { is_partial, ..IndexPage::default() };
        assert_eq!(encoded(&page(false), false), "*2|$-1|*0|");
        assert_eq!(encoded(&page(false), true), "*3|$-1|*0|:0|");
        assert_eq!(encoded(&page(true), true), "*3|$-1|*0|:1|");
    }
}
