//! Encoding of replies as frames: the form that a command's answer has in Redis.

use super::CommandContext;
use super::expiry::Unit;
use crate::resp::client::Watched;
use crate::resp::glob::Glob;
use base::{Body, BucketName, Entry, Error, Key, Outcome, Page, Reason, Row, SyncPolicy, Value};
use bytes::Bytes;
use std::sync::atomic::Ordering::Relaxed;

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
    /// 1 or 0: whether the update applied, or the key existed or was written.
    Truth,
    /// Number of steps whose key existed.
    Sum,
    /// A number as text.
    Text,
    /// `OK` if written, else null.
    Written,
    /// The value of the first step.
    First,
    /// 1, or 0 if an assertion failed.
    AllOrNone,
    /// The length of a value in bytes.
    Measure,
    /// A part of a value. Negative positions count from its end.
    Slice {
        /// Position of the first byte.
        first: i64,
        /// Position of the last byte, inclusive.
        last: i64,
    },
    /// Time until a row expires: -1 without expiry, -2 without a row.
    TimeLeft(Unit),
    /// `string` or `none`.
    Kind,
    /// A property of a value.
    Inspected(Inspection),
    /// The keys of a page that match.
    Keys(Box<Glob>),
    /// The key to continue after (or null), and keys with or without values.
    Page,
    /// `OK`; the connection remembers the keys' versions.
    Watch(Box<[Key]>),
    /// The answers of the steps, in an array.
    Steps(Box<[RespShape]>),
    /// The answers of a transaction. The steps of its watched keys precede them.
    Exec {
        /// Number of steps that only check watched keys.
        watched: usize,
        /// One slot per command.
        slots: Box<[TransactionSlot]>,
    },
    /// `OK`; the connection uses this bucket from now on.
    Selected(BucketName),
    /// Buckets, each with its name and properties.
    Buckets,
    /// The id of a session; the connection uses it from now on.
    Opened,
    /// A context, and the values that it covers.
    Siblings,
    /// The context of a write.
    Context,
    /// The context of a delete, or null if there was nothing to delete.
    Removed,
    /// The given text if the bucket syncs every write, else an error.
    Saved(&'static str),
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
pub enum Inspection {
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

impl RespShape {
    /// Writes the node's reply.
    #[inline]
    pub fn speak(&self, answer: Result<Body, Error>, talk: &mut CommandContext<'_>) {
        match (self, answer) {
            // Nearly every answer is one of these two.
            (RespShape::Ok, Ok(Body::Updated(Outcome::Done))) => talk.out.ok(),
            (RespShape::Value, Ok(Body::Row(row))) => speak_row(row, talk),
            (_, Ok(body)) => self.speak_body(body, talk),
            (RespShape::AllOrNone, Err(error)) if error.reason == Reason::AssertionFailed => {
                talk.out.integer(0);
            }
            (RespShape::Exec { .. }, Err(error)) if error.reason == Reason::Changed => {
                talk.out.null_array();
            }
            (RespShape::Removed, Err(error)) if error.reason == Reason::NotFound => talk.out.null(),
            (_, Err(error)) => talk.fail(&error),
        }
    }

    fn speak_body(&self, body: Body, talk: &mut CommandContext<'_>) {
        match (self, body) {
            (_, Body::Updated(Outcome::AppliedAt(index))) => {
                talk.out.error(&format!(
                    "APPLIED an earlier attempt was applied at index {index}; its answer is no \
                     longer kept"
                ));
            }
            (_, Body::Updated(Outcome::Read(body))) => self.speak(Ok(*body), talk),
            (RespShape::Ok, _) => talk.out.ok(),
            (RespShape::AllOrNone, _) => talk.out.integer(1),
            (RespShape::Page, Body::Page(page)) => speak_page(&page, talk),
            (RespShape::Keys(glob), Body::Page(page)) => speak_keys(glob, &page, talk),
            (RespShape::Watch(keys), Body::Rows(rows)) => watch(keys, &rows, talk),
            (RespShape::Buckets, Body::Buckets(buckets)) => super::buckets::speak(&buckets, talk),
            (RespShape::Selected(bucket), Body::Buckets(_)) => super::buckets::select(bucket, talk),
            (RespShape::Saved(text), Body::Buckets(buckets)) => {
                let lazy = buckets.iter().any(|b| b.properties.sync == SyncPolicy::Interval);
                match lazy {
                    true => talk.out.error(
                        "ERR the bucket has sync=interval: by itself, it is \
                                            written to disk within that interval",
                    ),
                    false => talk.out.simple(text),
                }
            }
            (RespShape::Opened, Body::Session(session)) => {
                talk.client.session = Some(session);
                talk.out.text(session.to_string());
            }
            (RespShape::Siblings, Body::Siblings(found)) => super::siblings::speak(&found, talk),
            (RespShape::Context | RespShape::Removed, Body::Stored(context)) => {
                talk.out.value(&context.0)
            }
            (_, Body::Row(row)) => self.speak_about_row(row, talk),
            (RespShape::Values, Body::Rows(rows)) => {
                talk.out.array(rows.len());
                rows.into_iter().for_each(|row| speak_row(row, talk));
            }
            (RespShape::Number, Body::Count(count)) => talk.out.count(count),
            (RespShape::Kind, Body::Count(0)) => talk.out.simple("none"),
            (RespShape::Kind, Body::Count(_)) => talk.out.simple("string"),
            (_, Body::Updated(outcome)) => self.speak_outcome(outcome, talk),
            _ => unexpected(talk),
        }
    }

    fn speak_outcome(&self, outcome: Outcome, talk: &mut CommandContext<'_>) {
        match (self, outcome) {
            (RespShape::Value, Outcome::Old(old) | Outcome::Swapped { old, .. }) => {
                speak_value(old.as_ref(), talk);
            }
            (RespShape::Written, Outcome::Swapped { written: true, .. }) => talk.out.ok(),
            (RespShape::Written, Outcome::Swapped { written: false, .. }) => talk.out.null(),
            (
                RespShape::Truth,
                Outcome::Applied(truth)
                | Outcome::Existed(truth)
                | Outcome::Swapped { written: truth, .. },
            ) => talk.out.integer(i64::from(truth)),
            (RespShape::Number, Outcome::Number(number)) => talk.out.integer(number),
            (RespShape::Number, Outcome::Count(count) | Outcome::Length(count)) => {
                talk.out.count(count);
            }
            (RespShape::Text, Outcome::Text(text)) => talk.out.value(&text),
            (RespShape::Sum, Outcome::Steps(steps)) => {
                let existed = |step: &&Result<Outcome, Error>| **step == Ok(Outcome::Existed(true));
                talk.out.integer(steps.iter().filter(existed).count() as i64);
            }
            (RespShape::First, Outcome::Steps(steps)) => match steps.into_iter().next() {
                Some(first) => RespShape::Value.speak(first.map(Body::Updated), talk),
                None => unexpected(talk),
            },
            (RespShape::Steps(shapes), Outcome::Steps(steps)) => {
                talk.out.array(shapes.len());
                let mut steps = steps.into_iter();
                shapes.iter().for_each(|shape| shape.speak_step(steps.next(), talk));
            }
            (RespShape::Exec { watched, .. }, Outcome::Steps(steps)) => {
                self.speak_slots(&mut steps.into_iter().skip(*watched), talk);
            }
            _ => unexpected(talk),
        }
    }

    fn speak_step(&self, step: Option<Result<Outcome, Error>>, talk: &mut CommandContext<'_>) {
        match step {
            Some(step) => self.speak(step.map(Body::Updated), talk),
            None => unexpected(talk),
        }
    }

    /// Writes the answers of a transaction in which no command needs the node.
    pub fn speak_alone(&self, talk: &mut CommandContext<'_>) {
        self.speak_slots(&mut std::iter::empty(), talk);
    }

    fn speak_slots(
        &self,
        steps: &mut dyn Iterator<Item = Result<Outcome, Error>>,
        talk: &mut CommandContext<'_>,
    ) {
        let RespShape::Exec { slots, .. } = self else { return unexpected(talk) };
        talk.out.array(slots.len());
        for slot in slots {
            match slot {
                TransactionSlot::Step(shape) => shape.speak_step(steps.next(), talk),
                TransactionSlot::Answer(said) => talk.out.raw(said),
            }
        }
    }

    fn speak_about_row(&self, row: Option<Row>, talk: &mut CommandContext<'_>) {
        match self {
            RespShape::Value => speak_row(row, talk),
            RespShape::Measure => talk.out.count(row.map_or(0, |row| row.value.len() as u64)),
            RespShape::Slice { first, last } => {
                let value = row.map(|row| row.value).unwrap_or_default();
                talk.out.value(&slice(&value, *first, *last));
            }
            RespShape::TimeLeft(unit) => {
                let time = match row {
                    None => -2,
                    Some(Row { expires_in_ms: None, .. }) => -1,
                    Some(Row { expires_in_ms: Some(ms), .. }) => time_left(*unit, ms, talk),
                };
                talk.out.integer(time);
            }
            RespShape::Inspected(what) => match row {
                None => talk.out.null(),
                Some(row) => inspect(*what, &row.value, talk),
            },
            _ => unexpected(talk),
        }
    }
}

/// Reports a reply that does not fit the command, a defect of the server. The connection goes on,
/// because later answers are still right.
fn unexpected(talk: &mut CommandContext<'_>) {
    tracing::error!("an answer does not have the shape that its command expects");
    talk.out.error("ERR the answer does not have the expected shape");
}

fn speak_row(row: Option<Row>, talk: &mut CommandContext<'_>) {
    speak_value(row.as_ref().map(|row| &row.value), talk);
}

fn speak_value(value: Option<&Value>, talk: &mut CommandContext<'_>) {
    match value {
        Some(value) => {
            talk.client.tally.hits += 1;
            talk.out.value(value);
        }
        None => {
            talk.client.tally.misses += 1;
            talk.out.null();
        }
    }
}

/// Cuts a value as Redis does: both ends inclusive, negative ones from the end, positions outside
/// give nothing.
fn slice(value: &Value, first: i64, last: i64) -> Value {
    let length = value.len() as i64;
    if first < 0 && last < 0 && first > last {
        return Value::new();
    }
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (first, last) = (place(first), place(last).min(length - 1));
    if first > last {
        return Value::new();
    }
    value.slice(first as usize..last as usize + 1)
}

fn time_left(unit: Unit, ms: u64, talk: &CommandContext<'_>) -> i64 {
    let at = || talk.clock.unix_ms().saturating_add(ms);
    let time = match unit {
        Unit::Seconds => ms.saturating_add(500) / 1_000,
        Unit::Milliseconds => ms,
        Unit::SecondsSince1970 => at().saturating_add(500) / 1_000,
        Unit::MillisecondsSince1970 => at(),
    };
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn inspect(what: Inspection, value: &Value, talk: &mut CommandContext<'_>) {
    match what {
        Inspection::Encoding if base::codec::decimal(value).is_some() => talk.out.text("int"),
        Inspection::Encoding if value.len() <= EMBEDDED_BYTES_MAX => talk.out.text("embstr"),
        Inspection::Encoding => talk.out.text("raw"),
        Inspection::References => talk.out.integer(1),
        Inspection::Memory { key_bytes } => {
            let bytes = key_bytes + value.len() + ROW_OVERHEAD_BYTES;
            talk.out.count(bytes as u64);
        }
    }
}

fn speak_page(page: &Page, talk: &mut CommandContext<'_>) {
    talk.out.array(2);
    match page.entries.last().filter(|_| page.more) {
        Some(last) => talk.out.value(&last.key),
        None => talk.out.null(),
    }
    let frames = |entry: &Entry| 1 + usize::from(entry.row.is_some());
    talk.out.array(page.entries.iter().map(frames).sum());
    for entry in &page.entries {
        talk.out.value(&entry.key);
        if let Some(row) = &entry.row {
            talk.out.value(&row.value);
        }
    }
}

fn speak_keys(glob: &Glob, page: &Page, talk: &mut CommandContext<'_>) {
    if page.more {
        return talk.out.error(crate::resp::errors::TOO_MANY_KEYS);
    }
    let fits = |entry: &&Entry| glob.fits(&entry.key);
    talk.out.array(page.entries.iter().filter(fits).count());
    page.entries.iter().filter(fits).for_each(|entry| talk.out.value(&entry.key));
}

fn watch(keys: &[Key], rows: &[Option<Row>], talk: &mut CommandContext<'_>) {
    for (key, row) in keys.iter().zip(rows) {
        // A key that is watched twice keeps its first version.
        if !talk.client.watched.iter().any(|watched| watched.key == *key) {
            let version = row.as_ref().map(|row| row.version);
            talk.client.watched.push(Watched { key: key.clone(), version });
        }
    }
    talk.client.card.watched.store(talk.client.watched.len() as u64, Relaxed);
    talk.out.ok();
}
