//! Ring of the last events, kept in memory unformatted, for the crash log.
//!
//! A slot holds the call site (which is static), the time and the values of the fields. It is
//! formatted only when it is dumped. Strings are copied, and cut at the slot's end. Writers never
//! wait for each other: every slot has its own lock, and a writer that finds it locked (by a writer
//! a whole round behind) drops its event.

use super::line;
use std::fmt::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

/// Number of events kept.
pub const EVENTS_MAX: usize = 1_000;
/// Maximum number of fields kept per event, including its message.
const FIELDS_MAX: usize = 10;
/// Maximum number of bytes kept of an event's strings.
const TEXT_BYTES_MAX: usize = 256;

/// Ring of the last events.
pub struct EventRing {
    next: AtomicU64,
    slots: Box<[Mutex<RingSlot>]>,
}

#[derive(Clone, Copy)]
enum RingItem {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text { start: u16, end: u16, is_truncated: bool },
}

struct RingSlot {
    number: u64,
    at: Duration,
    metadata: Option<&'static Metadata<'static>>,
    fields: [(&'static str, RingItem); FIELDS_MAX],
    field_count: usize,
    text: [u8; TEXT_BYTES_MAX],
    text_bytes: usize,
}

impl EventRing {
    /// Returns an empty ring with all the memory it will ever need.
    pub fn new() -> EventRing {
        let slot = || {
            Mutex::new(RingSlot {
                number: 0,
                at: Duration::ZERO,
                metadata: None,
                fields: [("", RingItem::Unsigned(0)); FIELDS_MAX],
                field_count: 0,
                text: [0; TEXT_BYTES_MAX],
                text_bytes: 0,
            })
        };
        EventRing { next: AtomicU64::new(0), slots: (0..EVENTS_MAX).map(|_| slot()).collect() }
    }

    /// Stores an event in the slot of the oldest one.
    pub fn record_event(&self, event: &Event<'_>, at: Duration) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let index = (number % EVENTS_MAX as u64) as usize;
        let Ok(mut slot) = self.slots[index].try_lock() else { return };
        slot.number = number;
        slot.at = at;
        slot.metadata = Some(event.metadata());
        slot.field_count = 0;
        slot.text_bytes = 0;
        event.record(&mut *slot);
    }

    /// Formats all events as lines, the oldest first. Leaves out slots that a thread is writing to,
    /// such as the one that panicked.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<(u64, String)> = Vec::with_capacity(EVENTS_MAX);
        for slot in &self.slots {
            let Ok(slot) = slot.try_lock() else { continue };
            if let Some(text) = slot.line() {
                lines.push((slot.number, text));
            }
        }
        lines.sort();
        lines.into_iter().map(|(_, text)| text).collect()
    }
}

impl RingSlot {
    fn line(&self) -> Option<String> {
        let metadata = self.metadata?;
        let mut text = line::head(metadata, self.at);
        for (name, item) in &self.fields[..self.field_count] {
            let value = match *item {
                RingItem::Unsigned(number) => number.to_string(),
                RingItem::Signed(number) => number.to_string(),
                RingItem::Float(number) => number.to_string(),
                RingItem::Bool(on) => on.to_string(),
                RingItem::Text { start, end, is_truncated } => {
                    let bytes = &self.text[usize::from(start)..usize::from(end)];
                    let dots = if is_truncated { "..." } else { "" };
                    format!("{}{dots}", String::from_utf8_lossy(bytes))
                }
            };
            line::append(&mut text, name, &value);
        }
        if let (Some(file), Some(number)) = (metadata.file(), metadata.line()) {
            line::append(&mut text, "at", &format!("{file}:{number}"));
        }
        Some(text)
    }

    fn push_field(&mut self, field: &Field, item: RingItem) {
        if let Some(slot_field) = self.fields.get_mut(self.field_count) {
            *slot_field = (field.name(), item);
            self.field_count += 1;
        }
    }
}

/// Writer of strings into a slot: it copies as much as fits, and records truncation.
struct SlotWriter<'a> {
    slot: &'a mut RingSlot,
    is_truncated: bool,
}

impl Write for SlotWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let space = TEXT_BYTES_MAX - self.slot.text_bytes;
        let copied = text.floor_char_boundary(space);
        let end = self.slot.text_bytes + copied;
        self.slot.text[self.slot.text_bytes..end].copy_from_slice(&text.as_bytes()[..copied]);
        self.slot.text_bytes = end;
        self.is_truncated |= copied < text.len();
        if self.is_truncated { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Visit for RingSlot {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_field(field, RingItem::Unsigned(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_field(field, RingItem::Signed(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push_field(field, RingItem::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_field(field, RingItem::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_text(field, |to| to.write_str(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_text(field, |to| write!(to, "{value:?}"));
    }
}

impl RingSlot {
    fn record_text(
        &mut self,
        field: &Field,
        write: impl FnOnce(&mut SlotWriter<'_>) -> fmt::Result,
    ) {
        let start = self.text_bytes;
        let mut writer = SlotWriter { slot: self, is_truncated: false };
        // An error only means that the slot is full, which `is_truncated` records, too.
        let is_full = write(&mut writer).is_err();
        let is_truncated = writer.is_truncated || is_full;
        let end = self.text_bytes;
        self.push_field(
            field,
            RingItem::Text { start: start as u16, end: end as u16, is_truncated },
        );
    }
}
