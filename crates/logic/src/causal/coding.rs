//! A clock's bytes: short, one form only.
//!
//! A version (1); then, as varints, twice the number of entries, plus one if values without a dot
//! follow. An entry is its actor, its counters, how many values (varint), and each value newest
//! first: how many counters lie between it and the one before (varint), its length (varint), its
//! bytes. Values without a dot follow at the end: how many, then length and bytes of each.
//!
//! Counters are ranges from the highest down: twice the upper end (of later ones: how many counters
//! more than one are missing before the range above), plus one if another range follows; then how
//! much lower the range begins. An actor is told relative to the one before it, see [`Identity`].
//!
//! Three replicas that each wrote a key some times make 40 bytes, beside the values; a test
//! measures it.

use super::clock::{Clock, Entry};
use super::seen::{COUNT_MAX, Seen};
use base::codec::{Malformed, Reader, Writer};
use base::{Actor, NodeId, varint};

/// The version of a clock's bytes; another one is refused.
const VERSION: u8 = 1;
/// A range of counters takes two bytes at least.
const SEEN_BYTES_MIN: usize = 2;

/// Who mints dots, as bytes. In a sorted list each is told relative to the one before it.
pub trait Identity: Ord + Clone {
    /// Fewest bytes one takes.
    const BYTES_MIN: usize;
    /// Appends it.
    fn put(&self, previous: Option<&Self>, out: &mut Vec<u8>);
    /// Reads it; refuses any form but the one [`Identity::put`] chooses.
    fn take(previous: Option<&Self>, from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// A value that has bytes of its own; what they mean is its owner's.
pub trait Coded {
    /// How many bytes [`Coded::put`] appends.
    fn coded_bytes(&self) -> usize;
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
}

/// The highest incarnation that fits beside the two marks below.
pub(super) const INCARNATION_MAX: u64 = (1 << 62) - 1;
const SAME_NODE: u64 = 2;
const OTHER_VNODE: u64 = 1;

/// An actor is its incarnation with two marks, then its node (8 bytes) unless it is the one
/// before's, then its vnode if that is not the one before's. All replicas of a key are vnodes of
/// one partition, so it stands there once.
impl Identity for Actor {
    const BYTES_MIN: usize = 1;

    fn put(&self, previous: Option<&Actor>, out: &mut Vec<u8>) {
        assert!(self.incarnation <= INCARNATION_MAX, "incarnations go up by far less");
        let same_node = previous.is_some_and(|previous| previous.node == self.node);
        let other_vnode = previous.map_or(0, |previous| previous.vnode) != self.vnode;
        let marks = u64::from(same_node) * SAME_NODE + u64::from(other_vnode) * OTHER_VNODE;
        varint::put(self.incarnation << 2 | marks, out);
        if !same_node {
            out.put_u64(self.node.0);
        }
        if other_vnode {
            varint::put(self.vnode.into(), out);
        }
    }

    fn take(previous: Option<&Actor>, from: &mut Reader<'_>) -> Result<Actor, Malformed> {
        let word = varint::take(from, "an actor's incarnation")?;
        let node = match (word & SAME_NODE != 0, previous) {
            (true, Some(previous)) => previous.node,
            (true, None) => return Err(Malformed("the first actor names no node")),
            (false, _) => {
                let node = NodeId(from.u64("an actor's node")?);
                if previous.is_some_and(|previous| previous.node == node) {
                    return Err(Malformed("an actor's node stands there twice"));
                }
                node
            }
        };
        let known = previous.map_or(0, |previous| previous.vnode);
        let vnode = if word & OTHER_VNODE != 0 {
            let vnode = varint::take(from, "an actor's vnode")?;
            match u32::try_from(vnode) {
                Ok(vnode) if vnode != known => vnode,
                _ => return Err(Malformed("an actor's vnode")),
            }
        } else {
            known
        };
        Ok(Actor { node, vnode, incarnation: word >> 2 })
    }
}

/// Appends a set of counters.
pub(super) fn put_seen(seen: &Seen, out: &mut Vec<u8>) {
    let mut above = None;
    let mut left = seen.range_count();
    for (from, to) in seen.ranges().rev() {
        left -= 1;
        let end = match above {
            None => to,
            Some(above) => above - to - 2,
        };
        varint::put(end << 1 | u64::from(left > 0), out);
        varint::put(to - from, out);
        above = Some(from);
    }
}

/// Reads a set of counters.
pub(super) fn take_seen(from: &mut Reader<'_>) -> Result<Seen, Malformed> {
    const FIELD: &str = "counters";
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(1);
    loop {
        let word = varint::take(from, FIELD)?;
        let to = match ranges.last() {
            None => Some(word >> 1),
            Some((above, _)) => above.checked_sub(2).and_then(|top| top.checked_sub(word >> 1)),
        };
        let to = to.filter(|to| (1..=COUNT_MAX).contains(to)).ok_or(Malformed(FIELD))?;
        let lower = varint::take(from, FIELD)?;
        let first = to.checked_sub(lower).filter(|first| *first > 0).ok_or(Malformed(FIELD))?;
        ranges.push((first, to));
        if word & 1 == 0 {
            break;
        }
    }
    ranges.reverse();
    Seen::of(&ranges).ok_or(Malformed(FIELD))
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
        put_seen(&entry.seen, out);
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

/// Reads a clock that fills these bytes. `value` makes a value of its bytes, which are a slice of
/// those given.
pub fn decode<'a, I: Identity, V>(
    bytes: &'a [u8],
    mut value: impl FnMut(&'a [u8]) -> Result<V, Malformed>,
) -> Result<Clock<I, V>, Malformed> {
    let mut from = Reader::new(bytes);
    if from.u8("a clock's version")? != VERSION {
        return Err(Malformed("a clock of a version this node does not know"));
    }
    let head = varint::take(&mut from, "a clock's entries")?;
    let room = from.rest().len() / (I::BYTES_MIN + SEEN_BYTES_MIN + 1);
    let count = usize::try_from(head >> 1).ok().filter(|count| *count <= room);
    let count = count.ok_or(Malformed("a clock's entries"))?;
    let mut entries: Vec<Entry<I, V>> = Vec::with_capacity(count);
    for _ in 0..count {
        let previous = entries.last().map(|entry| &entry.id);
        let id = I::take(previous, &mut from)?;
        if previous.is_some_and(|previous| *previous >= id) {
            return Err(Malformed("a clock's actors out of order"));
        }
        let seen = take_seen(&mut from)?;
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
    seen: &Seen,
    from: &mut Reader<'a>,
    value: &mut impl FnMut(&'a [u8]) -> Result<V, Malformed>,
) -> Result<Vec<(u64, V)>, Malformed> {
    let many = varint::take_count(from, 2, "an actor's values")?;
    let mut values = Vec::with_capacity(many);
    let mut above = seen.highest() + 1;
    for _ in 0..many {
        let between = varint::take(from, "a value's dot")?;
        let count = (above - 1).checked_sub(between).filter(|count| seen.contains(*count));
        let count = count.ok_or(Malformed("a value's dot"))?;
        values.push((count, value(varint::take_string(from, usize::MAX, "a value")?)?));
        above = count;
    }
    Ok(values)
}
