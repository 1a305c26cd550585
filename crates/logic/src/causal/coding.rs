//! Codec of clocks: short, with one form only.
//!
//! A version (1); then, as varints, twice the number of entries, plus one if values without a dot
//! follow. An entry is its actor, its counters, the number of its values (varint), and each value
//! newest first: the number of counters between it and the one before (varint), its length
//! (varint), its bytes. Values without a dot follow at the end: their number, then length and bytes
//! of each. Actors and counters are encoded as in `base/dots/`.
//!
//! Three replicas that each wrote a key some times make 40 bytes, beside the values; a test
//! measures it.

use super::clock::{Clock, Entry};
use base::codec::{Malformed, Reader, Writer};
use base::dots::{CounterSet, Identity};
use base::varint;

/// Version of the format; any other is refused.
const VERSION: u8 = 1;
/// Value with an encoding of its own.
pub trait Coded {
    /// Returns the number of bytes that [`Coded::put`] appends.
    fn coded_bytes(&self) -> usize;
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
}

/// Appends a clock.
pub fn encode<I: Identity, V: Coded>(clock: &Clock<I, V>, out: &mut Vec<u8>) {
    out.put_u8(VERSION);
    let anon = !clock.anon.is_empty();
    varint::put((clock.entries.len() as u64) << 1 | u64::from(anon), out);
    let mut previous = None;
    for entry in &clock.entries {
        entry.id.put(previous, out);
        previous = Some(&entry.id);
        entry.seen.put(out);
        varint::put(entry.values.len() as u64, out);
        let mut above = entry.seen.highest() + 1;
        for (count, value) in &entry.values {
            varint::put(above - count - 1, out);
            put_value(value, out);
            above = *count;
        }
    }
    if anon {
        varint::put(clock.anon.len() as u64, out);
        clock.anon.iter().for_each(|value| put_value(value, out));
    }
}

fn put_value<V: Coded>(value: &V, out: &mut Vec<u8>) {
    let length = value.coded_bytes();
    varint::put(length as u64, out);
    let end = out.len() + length;
    value.put(out);
    assert_eq!(out.len(), end, "a value has as many bytes as it says");
}

/// Decodes a clock that fills these bytes. `value` decodes each value from its bytes, a slice of
/// the input.
pub fn decode<'a, I: Identity, V>(
    bytes: &'a [u8],
    mut value: impl FnMut(&'a [u8]) -> Result<V, Malformed>,
) -> Result<Clock<I, V>, Malformed> {
    let mut from = Reader::new(bytes);
    if from.u8("a clock's version")? != VERSION {
        return Err(Malformed("a clock of a version this node does not know"));
    }
    let head = varint::take(&mut from, "a clock's entries")?;
    let count_max = from.rest().len() / (I::BYTES_MIN + CounterSet::BYTES_MIN + 1);
    let count = usize::try_from(head >> 1).ok().filter(|count| *count <= count_max);
    let count = count.ok_or(Malformed("a clock's entries"))?;
    let mut entries: Vec<Entry<I, V>> = Vec::with_capacity(count);
    for _ in 0..count {
        let previous = entries.last().map(|entry| &entry.id);
        let id = I::take(previous, &mut from)?;
        if previous.is_some_and(|previous| *previous >= id) {
            return Err(Malformed("a clock's actors out of order"));
        }
        let seen = CounterSet::take(&mut from)?;
        let values = take_values(&seen, &mut from, &mut value)?;
        entries.push(Entry { id, seen, values });
    }
    let mut anon = Vec::new();
    if head & 1 == 1 {
        let count = varint::take_count(&mut from, 1, "values without a dot")?;
        if count == 0 {
            return Err(Malformed("values without a dot"));
        }
        anon.reserve_exact(count);
        for _ in 0..count {
            anon.push(value(varint::take_string(&mut from, usize::MAX, "a value")?)?);
        }
    }
    from.end("a clock's end")?;
    Ok(Clock { entries, anon })
}

fn take_values<'a, V>(
    seen: &CounterSet,
    from: &mut Reader<'a>,
    value: &mut impl FnMut(&'a [u8]) -> Result<V, Malformed>,
) -> Result<Vec<(u64, V)>, Malformed> {
    let length = varint::take_count(from, 2, "an actor's values")?;
    let mut values = Vec::with_capacity(length);
    let mut above = seen.highest() + 1;
    for _ in 0..length {
        let skipped = varint::take(from, "a value's dot")?;
        let count = (above - 1).checked_sub(skipped).filter(|count| seen.contains(*count));
        let count = count.ok_or(Malformed("a value's dot"))?;
        values.push((count, value(varint::take_string(from, usize::MAX, "a value")?)?));
        above = count;
    }
    Ok(values)
}
