//! Causal context: the dots that a client has seen and its next write replaces. Opaque to clients.
//!
//! Bytes: a version, the entries as in `identity.rs` and `seen.rs`, then a seal over all before it.
//! The seal of version 1 is four bytes of an xxh3 checksum, salted by the key: it catches a context
//! of another key or another cluster by mistake, and anybody can compute it. The seal of version 2
//! is eight bytes of a MAC: only a holder of the cluster's secret can write such a context
//! (`docs/decisions/0025-contexts.md`).

use super::identity::Identity;
use super::seen::CounterSet;
use crate::codec::{Malformed, Reader, Writer, checksum};
use crate::varint;

/// Version of contexts with a checksum.
const VERSION: u8 = 1;
/// Version of contexts with a MAC.
const VERSION_AUTHENTICATED: u8 = 2;
const CHECKSUM_BYTES: usize = 4;

/// Seal of a context that the cluster returned: the beginning of a MAC. A guess is right once in
/// 2^64 times.
pub type ContextMac = [u8; 8];

/// A set of dots, sorted by actor; no actor twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DotContext<I> {
    entries: Vec<(I, CounterSet)>,
}

impl<I> DotContext<I> {
    /// Most bytes of one context; an entry takes 4 to 20 bytes.
    pub const BYTES_MAX: usize = crate::limits::CONTEXT_BYTES_MAX;
}

impl<I> Default for DotContext<I> {
    fn default() -> DotContext<I> {
        DotContext { entries: Vec::new() }
    }
}

impl<I: Ord + Clone> DotContext<I> {
    /// Returns the empty context: a write with it replaces nothing.
    pub fn empty() -> DotContext<I> {
        DotContext::default()
    }

    /// Returns the context of all dots of each actor up to its count: a version vector.
    pub fn from_counts(counts: impl IntoIterator<Item = (I, u64)>) -> DotContext<I> {
        let mut context = DotContext::empty();
        for (id, count) in counts {
            if let Some(seen) = CounterSet::up_to(count) {
                context.add(id, &seen);
            }
        }
        context
    }

    /// Builds a context from entries that are sorted by actor, without duplicates; panics on
    /// others.
    pub fn from_sorted(entries: Vec<(I, CounterSet)>) -> DotContext<I> {
        assert!(entries.is_sorted_by(|(one, _), (next, _)| one < next), "actors ascend");
        DotContext { entries }
    }

    /// Adds one dot. A client that wrote with this context and did not get the siblings back may
    /// send the result: it replaces what the client had seen and its own write, and no sibling that
    /// it never saw.
    pub fn with_dot(mut self, id: I, count: u64) -> DotContext<I> {
        if let Some(seen) = CounterSet::single(count) {
            self.add(id, &seen);
        }
        self
    }

    /// Returns the union of both.
    pub fn join(mut self, other: &DotContext<I>) -> DotContext<I> {
        for (id, seen) in &other.entries {
            self.add(id.clone(), seen);
        }
        self
    }

    fn add(&mut self, id: I, seen: &CounterSet) {
        match self.entries.binary_search_by(|(known, _)| known.cmp(&id)) {
            Ok(index) => self.entries[index].1.union(seen),
            Err(index) => self.entries.insert(index, (id, seen.clone())),
        }
    }

    /// Returns true if no dot was seen.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns each actor with its seen counters, in the order of actors.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&I, &CounterSet)> {
        self.entries.iter().map(|(id, seen)| (id, seen))
    }

    /// Returns the seen counters of an actor.
    pub fn seen(&self, id: &I) -> Option<&CounterSet> {
        let index = self.entries.binary_search_by(|(known, _)| known.cmp(id)).ok()?;
        Some(&self.entries[index].1)
    }

    /// Returns true if the dot was seen.
    pub fn contains(&self, id: &I, count: u64) -> bool {
        self.seen(id).is_some_and(|seen| seen.contains(count))
    }

    /// Returns true if this context contains every dot of the other.
    pub fn covers(&self, other: &DotContext<I>) -> bool {
        let is_covered = |(id, seen)| self.seen(id).is_some_and(|own| own.covers(seen));
        other.entries().all(is_covered)
    }
}

impl<I: Identity> DotContext<I> {
    /// Encodes the context.
    pub fn encode(&self, salt: u64) -> Vec<u8> {
        self.encode_sealed(VERSION, |content| sum(content, salt))
    }

    /// Encodes the context with a MAC over its bytes.
    pub fn encode_authenticated(&self, mac: impl FnOnce(&[u8]) -> ContextMac) -> Vec<u8> {
        self.encode_sealed(VERSION_AUTHENTICATED, mac)
    }

    fn encode_sealed<const SEAL_BYTES: usize>(
        &self,
        version: u8,
        seal: impl FnOnce(&[u8]) -> [u8; SEAL_BYTES],
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + SEAL_BYTES + 16 * self.entries.len());
        out.put_u8(version);
        self.put(&mut out);
        let seal = seal(&out);
        out.extend_from_slice(&seal);
        out
    }

    /// Drops actors until the context fits into [`DotContext::BYTES_MAX`], but never those for
    /// which `needed` returns true. A write with the result replaces fewer values, never more.
    pub fn shorten(self, needed: impl Fn(&I) -> bool) -> DotContext<I> {
        if self.fits() {
            return self;
        }
        let (required, optional): (Vec<_>, Vec<_>) =
            self.entries.into_iter().partition(|(id, _)| needed(id));
        // The newest incarnations of each node sort last and are kept: they still mint dots.
        let keep_last = |count: usize| {
            let mut entries = required.clone();
            entries.extend_from_slice(&optional[optional.len() - count..]);
            entries.sort_unstable();
            DotContext { entries }
        };
        let (mut fits, mut too_many) = (0, optional.len());
        while too_many - fits > 1 {
            let count = fits + (too_many - fits) / 2;
            if keep_last(count).fits() { fits = count } else { too_many = count }
        }
        keep_last(fits)
    }

    fn fits(&self) -> bool {
        let bytes_max = |(_, seen): &(I, CounterSet)| {
            I::BYTES_MAX + seen.range_count() * CounterSet::RANGE_BYTES_MAX
        };
        let entries: usize = self.entries.iter().map(bytes_max).sum();
        // A context so short cannot exceed the limit: no need to encode it.
        2 * entries <= DotContext::<I>::BYTES_MAX
            || self.encode_authenticated(|_| ContextMac::default()).len()
                <= DotContext::<I>::BYTES_MAX
    }

    /// Decodes what [`DotContext::encode`] wrote with the same salt, and nothing else.
    pub fn decode(bytes: &[u8], salt: u64) -> Result<DotContext<I>, Malformed> {
        DotContext::decode_sealed(bytes, VERSION, |content| sum(content, salt))
    }

    /// Decodes what [`DotContext::encode_authenticated`] wrote with the same MAC, and nothing else.
    pub fn decode_authenticated(
        bytes: &[u8],
        mac: impl FnOnce(&[u8]) -> ContextMac,
    ) -> Result<DotContext<I>, Malformed> {
        DotContext::decode_sealed(bytes, VERSION_AUTHENTICATED, mac)
    }

    /// Returns true if the bytes are those of a context with a MAC.
    pub fn is_authenticated(bytes: &[u8]) -> bool {
        bytes.first() == Some(&VERSION_AUTHENTICATED)
    }

    fn decode_sealed<const SEAL_BYTES: usize>(
        bytes: &[u8],
        version: u8,
        seal: impl FnOnce(&[u8]) -> [u8; SEAL_BYTES],
    ) -> Result<DotContext<I>, Malformed> {
        if bytes.len() > DotContext::<I>::BYTES_MAX {
            return Err(Malformed("the context is longer than any that this cluster returns"));
        }
        let (content, found) =
            bytes.split_last_chunk::<SEAL_BYTES>().ok_or(Malformed("the context is too short"))?;
        let mut from = Reader::new(content);
        if from.u8("the context is too short")? != version {
            return Err(Malformed("the context has a version that this node does not know"));
        }
        // In constant time: the time must not tell how much of a guess is right.
        let expected = seal(content);
        let differs = expected.iter().zip(found).fold(0, |differs, (a, b)| differs | (a ^ b));
        if std::hint::black_box(differs) != 0 {
            return Err(Malformed("the context was changed, or belongs to another key"));
        }
        let context = DotContext::take(&mut from)?;
        from.end("a context's end")?;
        Ok(context)
    }

    /// Appends the entries alone: their number, then each.
    pub fn put(&self, out: &mut Vec<u8>) {
        varint::put(self.entries.len() as u64, out);
        let mut previous = None;
        for (id, seen) in &self.entries {
            id.put(previous, out);
            seen.put(out);
            previous = Some(id);
        }
    }

    /// Reads what [`DotContext::put`] wrote.
    pub fn take(from: &mut Reader<'_>) -> Result<DotContext<I>, Malformed> {
        let count =
            varint::take_count(from, I::BYTES_MIN + CounterSet::BYTES_MIN, "entries of a context")?;
        let mut entries: Vec<(I, CounterSet)> = Vec::with_capacity(count);
        for _ in 0..count {
            let previous = entries.last().map(|(id, _)| id);
            let id = I::take(previous, from)?;
            if previous.is_some_and(|previous| *previous >= id) {
                return Err(Malformed("actors of a context out of order"));
            }
            entries.push((id, CounterSet::take(from)?));
        }
        Ok(DotContext { entries })
    }
}

/// Returns the salted checksum of an encoded context.
fn sum(content: &[u8], salt: u64) -> [u8; CHECKSUM_BYTES] {
    (checksum(content, salt) as u32).to_le_bytes()
}
