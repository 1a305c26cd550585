//! Encoding of replies as frames: the form that a command's answer has in Redis.

use super::CommandContext;
use super::expiry::TimeUnit;
use crate::buffer_budget::BufferBudget;
use crate::resp::glob::{Glob, run_long_match};
use base::{Body, BucketName, Entry, Error, Key, Outcome, Page, Reason, Row, SyncPolicy, Value};
use bytes::Bytes;
use std::sync::Arc;

/// Form of the answer to a command, with what is needed to encode it.
#[derive(Clone, Debug)]
pub enum RespShape {
    /// `OK`, whatever the reply is.
    Ok,
    /// A value or null: the value of a row, or the old value of an update.
    Value,
    /// Values or nulls, in the order of the keys.
    Values,
    /// A number.
    Number,
    /// 1 if the update applied, the key existed or it was written; else 0.
    Boolean,
    /// Number of steps whose key existed.
    ExistedCount,
    /// A number as text.
    Text,
    /// `OK` if written, else null.
    OkIfWritten,
    /// The value of the first step.
    FirstStep,
    /// 1, or 0 if an assertion failed.
    AllOrNone,
    /// The length of a value in bytes.
    Length,
    /// A part of a value. Negative positions count from its end.
    Slice {
        /// Position of the first byte.
        first: i64,
        /// Position of the last byte, inclusive.
        last: i64,
    },
    /// Time until a row expires: -1 without expiry, -2 without a row.
    TimeLeft(TimeUnit),
    /// `string` or `none`.
    TypeName,
    /// A property of a value.
    Property(ValueProperty),
    /// The keys of a page that match.
    Keys(Box<Glob>),
    /// The key to continue after (or null), and keys with or without values.
    Page,
    /// The continuation (or null), and keys, with terms and values as asked for. True: and 1 if
    /// rows may be missing, else 0.
    IndexPage(bool),
    /// One index: its definition and its state.
    Index,
    /// Indexes, each with its definition and its state.
    Indexes,
    /// `OK`; the connection records the keys' versions.
    Watch(Box<[Key]>),
    /// The answers of the steps, in an array.
    Steps(Box<[RespShape]>),
    /// The answers of a transaction. The steps of its watched keys precede them.
    Exec(Arc<TransactionShape>),
    /// `OK`; the connection uses this bucket from now on.
    BucketSelected(BucketName),
    /// Buckets, each with its name and properties.
    Buckets,
    /// The id of a session; the connection uses it from now on.
    SessionOpened,
    /// A context, and the values that it covers.
    Siblings,
    /// The context of a write.
    Context,
    /// The context of a delete, or null if there was nothing to delete.
    RemovedContext,
    /// The given text if the bucket syncs every write, else an error.
    SyncStatus(&'static str),
}

/// Form of a transaction's answers.
#[derive(Debug, Default)]
pub struct TransactionShape {
    /// Number of steps that only check watched keys.
    pub watched: usize,
    /// One slot per command.
    pub slots: Vec<TransactionSlot>,
    /// Bytes of the answers among the slots.
    pub answer_bytes: usize,
    /// Share of the memory budget of all connections, for these answers.
    pub budget: BufferBudget,
}

/// Command of a transaction.
#[derive(Clone, Debug)]
pub enum TransactionSlot {
    /// A step, and the form of its answer.
    Step(RespShape),
    /// An answer that needs no step.
    Answer(Bytes),
}

/// Property of a value that a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueProperty {
    /// Redis' encoding of the value.
    Encoding,
    /// Number of references to the value.
    References,
    /// Memory of the row in bytes.
    Memory {
        /// Length of its key in bytes.
        key_bytes: usize,
    },
}

/// Bytes stored with a row besides its key and value, as `MEMORY USAGE` reports them.
const ROW_OVERHEAD_BYTES: usize = 32;

/// The longest string that Redis calls `embstr`.
const EMBEDDED_BYTES_MAX: usize = 44;

impl TransactionShape {
    /// Writes the answers, with these outcomes of the steps.
    pub fn encode(
        &self,
        steps: &mut dyn Iterator<Item = Result<Outcome, Error>>,
        ctx: &mut CommandContext<'_>,
    ) {
        ctx.out.array(self.slots.len());
        for slot in &self.slots {
            match slot {
                TransactionSlot::Step(shape) => shape.encode_step(steps.next(), ctx),
                TransactionSlot::Answer(frames) => ctx.out.raw(frames),
            }
        }
    }
}

impl RespShape {
    /// Returns the bytes of the answer that are not those of the reply.
    #[inline]
    pub fn answer_bytes(&self) -> usize {
        match self {
            RespShape::Exec(transaction) => transaction.answer_bytes,
            _ => 0,
        }
    }

    /// Writes the node's reply.
    #[inline]
    pub fn encode(&self, answer: Result<Body, Error>, ctx: &mut CommandContext<'_>) {
        match (self, answer) {
            // Nearly every answer is one of these two.
            (RespShape::Ok, Ok(Body::Updated(Outcome::Done))) => ctx.out.ok(),
            (RespShape::Value, Ok(Body::Row(row))) => write_row_value(row, ctx),
            (_, Ok(body)) => self.encode_body(body, ctx),
            (RespShape::AllOrNone, Err(error)) if error.reason == Reason::AssertionFailed => {
                ctx.out.integer(0);
            }
            (RespShape::Exec(_), Err(error)) if error.reason == Reason::Changed => {
                ctx.out.null_array();
            }
            (RespShape::RemovedContext, Err(error)) if error.reason == Reason::NotFound => {
                ctx.out.null()
            }
            (_, Err(error)) => ctx.fail(&error),
        }
    }

    fn encode_body(&self, body: Body, ctx: &mut CommandContext<'_>) {
        match (self, body) {
            (_, Body::Updated(Outcome::AppliedAt(index))) => {
                ctx.out.error(&format!(
                    "APPLIED an earlier attempt was applied at index {index}; its answer is no \
                     longer kept"
                ));
            }
            (_, Body::Updated(Outcome::Read(body))) => self.encode(Ok(*body), ctx),
            (RespShape::Ok, _) => ctx.out.ok(),
            (RespShape::AllOrNone, _) => ctx.out.integer(1),
            (RespShape::Page, Body::Page(page)) => super::range::write_page(&page, ctx),
            (RespShape::Keys(glob), Body::Page(page)) => write_keys(glob, &page, ctx),
            (RespShape::Watch(keys), Body::KeyVersions(versions)) => {
                super::transaction::watch_versions(keys, &versions, ctx)
            }
            (RespShape::Watch(keys), Body::Rows(rows)) => {
                super::transaction::watch_rows(keys, &rows, ctx)
            }
            (RespShape::Buckets, Body::Buckets(buckets)) => {
                super::buckets::write_buckets(&buckets, ctx)
            }
            (RespShape::IndexPage(says_partial), Body::IndexPage(page)) => {
                super::declared_indexes::write_page(&page, *says_partial, ctx.out)
            }
            (RespShape::Indexes | RespShape::Index, Body::Indexes(indexes)) => {
                super::declared_indexes::write_indexes(
                    &indexes,
                    matches!(self, RespShape::Indexes),
                    ctx,
                )
            }
            (RespShape::BucketSelected(bucket), Body::Buckets(_)) => {
                super::buckets::select(bucket, ctx)
            }
            (RespShape::SyncStatus(text), Body::Buckets(buckets)) => {
                let syncs_by_interval =
                    buckets.iter().any(|b| b.properties.sync == SyncPolicy::Interval);
                match syncs_by_interval {
                    true => ctx.out.error(
                        "ERR the bucket has sync=interval: the server syncs its writes within that \
                         interval",
                    ),
                    false => ctx.out.simple(text),
                }
            }
            (RespShape::SessionOpened, Body::Session(session)) => {
                ctx.client.session = Some(session);
                ctx.out.text(session.to_string());
            }
            (RespShape::Siblings, Body::Siblings(siblings)) => {
                super::siblings::write_siblings(&siblings, ctx)
            }
            (RespShape::Context | RespShape::RemovedContext, Body::Stored(context)) => {
                ctx.out.value(&context.0)
            }
            (_, Body::Row(row)) => self.encode_from_row(row, ctx),
            (RespShape::Values, Body::Rows(rows)) => {
                ctx.out.array(rows.len());
                rows.into_iter().for_each(|row| write_row_value(row, ctx));
            }
            (RespShape::Number, Body::Count(count) | Body::Size { keys: count, .. }) => {
                ctx.out.count(count)
            }
            (RespShape::TypeName, Body::Count(0)) => ctx.out.simple("none"),
            (RespShape::TypeName, Body::Count(_)) => ctx.out.simple("string"),
            (_, Body::Updated(outcome)) => self.encode_outcome(outcome, ctx),
            _ => unexpected(ctx),
        }
    }

    fn encode_outcome(&self, outcome: Outcome, ctx: &mut CommandContext<'_>) {
        match (self, outcome) {
            (RespShape::Value, Outcome::Old(old) | Outcome::Swapped { old, .. }) => {
                write_value(old.as_ref(), ctx);
            }
            (RespShape::OkIfWritten, Outcome::Swapped { written: true, .. }) => ctx.out.ok(),
            (RespShape::OkIfWritten, Outcome::Swapped { written: false, .. }) => ctx.out.null(),
            (
                RespShape::Boolean,
                Outcome::Applied(is_true)
                | Outcome::Existed(is_true)
                | Outcome::Swapped { written: is_true, .. },
            ) => ctx.out.integer(i64::from(is_true)),
            (RespShape::Number, Outcome::Number(number)) => ctx.out.integer(number),
            (RespShape::Number, Outcome::Count(count) | Outcome::Length(count)) => {
                ctx.out.count(count);
            }
            (RespShape::Text, Outcome::Text(text)) => ctx.out.value(&text),
            (RespShape::ExistedCount, Outcome::Steps(steps)) => {
                let existed = |step: &&Result<Outcome, Error>| **step == Ok(Outcome::Existed(true));
                ctx.out.integer(steps.iter().filter(existed).count() as i64);
            }
            (RespShape::FirstStep, Outcome::Steps(steps)) => match steps.into_iter().next() {
                Some(first) => RespShape::Value.encode(first.map(Body::Updated), ctx),
                None => unexpected(ctx),
            },
            (RespShape::Steps(shapes), Outcome::Steps(steps)) => {
                ctx.out.array(shapes.len());
                let mut steps = steps.into_iter();
                shapes.iter().for_each(|shape| shape.encode_step(steps.next(), ctx));
            }
            (RespShape::Exec(transaction), Outcome::Steps(steps)) => {
                transaction.encode(&mut steps.into_iter().skip(transaction.watched), ctx);
            }
            _ => unexpected(ctx),
        }
    }

    fn encode_step(&self, step: Option<Result<Outcome, Error>>, ctx: &mut CommandContext<'_>) {
        match step {
            Some(step) => self.encode(step.map(Body::Updated), ctx),
            None => unexpected(ctx),
        }
    }

    fn encode_from_row(&self, row: Option<Row>, ctx: &mut CommandContext<'_>) {
        match self {
            RespShape::Value => write_row_value(row, ctx),
            RespShape::Length => ctx.out.count(row.map_or(0, |row| row.value.len() as u64)),
            RespShape::Slice { first, last } => {
                let value = row.map(|row| row.value).unwrap_or_default();
                ctx.out.value(&slice(&value, *first, *last));
            }
            RespShape::TimeLeft(unit) => {
                let time = match row {
                    None => -2,
                    Some(Row { expires_in_ms: None, .. }) => -1,
                    Some(Row { expires_in_ms: Some(ms), .. }) => time_left(*unit, ms, ctx),
                };
                ctx.out.integer(time);
            }
            RespShape::Property(property) => match row {
                None => ctx.out.null(),
                Some(row) => inspect(*property, &row.value, ctx),
            },
            _ => unexpected(ctx),
        }
    }
}

/// Reports a reply that does not fit the command, a defect of the server. The connection stays
/// open, because later answers are still correct.
fn unexpected(ctx: &mut CommandContext<'_>) {
    tracing::error!("an answer does not have the shape that its command expects");
    ctx.out.error("ERR the answer does not have the expected shape");
}

fn write_row_value(row: Option<Row>, ctx: &mut CommandContext<'_>) {
    write_value(row.as_ref().map(|row| &row.value), ctx);
}

fn write_value(value: Option<&Value>, ctx: &mut CommandContext<'_>) {
    match value {
        Some(value) => {
            ctx.client.counts.hits += 1;
            ctx.out.value(value);
        }
        None => {
            ctx.client.counts.misses += 1;
            ctx.out.null();
        }
    }
}

/// Cuts a value as Redis does: both ends inclusive, negative ones from the end, positions outside
/// yield no bytes.
fn slice(value: &Value, first: i64, last: i64) -> Value {
    let length = value.len() as i64;
    if first < 0 && last < 0 && first > last {
        return Value::new();
    }
    let offset = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (first, last) = (offset(first), offset(last).min(length - 1));
    if first > last {
        return Value::new();
    }
    value.slice(first as usize..last as usize + 1)
}

fn time_left(unit: TimeUnit, ms: u64, ctx: &CommandContext<'_>) -> i64 {
    let at = || ctx.clock.unix_ms().saturating_add(ms);
    let time = match unit {
        TimeUnit::Seconds => ms.saturating_add(500) / 1_000,
        TimeUnit::Milliseconds => ms,
        TimeUnit::SecondsSince1970 => at().saturating_add(500) / 1_000,
        TimeUnit::MillisecondsSince1970 => at(),
    };
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn inspect(property: ValueProperty, value: &Value, ctx: &mut CommandContext<'_>) {
    match property {
        ValueProperty::Encoding if base::codec::decimal(value).is_some() => ctx.out.text("int"),
        ValueProperty::Encoding if value.len() <= EMBEDDED_BYTES_MAX => ctx.out.text("embstr"),
        ValueProperty::Encoding => ctx.out.text("raw"),
        ValueProperty::References => ctx.out.integer(1),
        ValueProperty::Memory { key_bytes } => {
            let bytes = key_bytes + value.len() + ROW_OVERHEAD_BYTES;
            ctx.out.count(bytes as u64);
        }
    }
}

fn write_keys(glob: &Glob, page: &Page, ctx: &mut CommandContext<'_>) {
    if page.more {
        return ctx.out.error(crate::resp::errors::TOO_MANY_KEYS);
    }
    let cost = page.entries.iter().map(|entry| glob.match_cost(entry.key.len())).sum();
    let matching: Vec<&Entry> = run_long_match(cost, || {
        page.entries.iter().filter(|entry| glob.matches(&entry.key)).collect()
    });
    ctx.out.array(matching.len());
    matching.iter().for_each(|entry| ctx.out.value(&entry.key));
}
