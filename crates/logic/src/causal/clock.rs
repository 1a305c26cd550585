//! Clock of one key: its siblings, and all dots it knows.

use base::dots::{CounterSet, DotContext};
use std::cmp::Ordering;

/// Name of one write: its coordinator (an actor), and that actor's counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dot<I> {
    /// Actor that minted the dot.
    pub id: I,
    /// Counter of the actor, from 1.
    pub count: u64,
}

/// Known dots of one actor, and the values among them that no write has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<I, V> {
    pub(super) id: I,
    pub(super) seen: CounterSet,
    /// Values with their counters, newest first; every counter is in `seen`.
    pub(super) values: Vec<(u64, V)>,
}

impl<I, V> Entry<I, V> {
    /// Returns the actor.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// Returns its known dots.
    pub fn seen(&self) -> &CounterSet {
        &self.seen
    }

    /// Returns the values that are left, with their counters, newest first.
    pub fn values(&self) -> &[(u64, V)] {
        &self.values
    }
}

/// DVV set: entries sorted by actor, and values without a dot (a client's new one, or one that
/// several were resolved into).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock<I, V> {
    pub(super) entries: Vec<Entry<I, V>>,
    pub(super) anon: Vec<V>,
}

impl<I, V> Default for Clock<I, V> {
    fn default() -> Clock<I, V> {
        Clock { entries: Vec::new(), anon: Vec::new() }
    }
}

impl<I: Ord + Clone, V> Clock<I, V> {
    /// Returns a clock without values or dots.
    pub fn empty() -> Clock<I, V> {
        Clock::default()
    }

    /// Returns a clock with one value, without a dot and without causal past.
    pub fn new(value: V) -> Clock<I, V> {
        Clock { entries: Vec::new(), anon: vec![value] }
    }

    /// Returns a clock with one value without a dot, whose causal past is the context.
    pub fn after(context: &DotContext<I>, value: V) -> Clock<I, V> {
        Clock { anon: vec![value], ..Clock::of_context(context) }
    }

    /// Returns a clock with all dots of a context and no values.
    fn of_context(context: &DotContext<I>) -> Clock<I, V> {
        let entry = |(id, seen): (&I, &CounterSet)| Entry {
            id: id.clone(),
            seen: seen.clone(),
            values: Vec::new(),
        };
        Clock { entries: context.entries().map(entry).collect(), anon: Vec::new() }
    }

    /// Returns all known dots: the context for a client that was shown all values.
    pub fn join(&self) -> DotContext<I> {
        let id_and_seen = |entry: &Entry<I, V>| (entry.id.clone(), entry.seen.clone());
        DotContext::from_sorted(self.entries.iter().map(id_and_seen).collect())
    }

    /// Returns the number of values.
    pub fn size(&self) -> usize {
        let of_entries: usize = self.entries.iter().map(|entry| entry.values.len()).sum();
        self.anon.len() + of_entries
    }

    /// Returns true if it holds no value and knows no dot.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.anon.is_empty()
    }

    /// Returns the values: those without a dot first, then by actor, newest first.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.siblings().map(|(_, value)| value)
    }

    /// Returns the values, each with its dot if it has one.
    pub fn siblings(&self) -> impl Iterator<Item = (Option<(&I, u64)>, &V)> {
        let dotted = self.entries.iter().flat_map(|entry| {
            entry.values.iter().map(|(count, value)| (Some((&entry.id, *count)), value))
        });
        self.anon.iter().map(|value| (None, value)).chain(dotted)
    }

    /// Returns the actors, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &I> {
        self.entries.iter().map(|entry| &entry.id)
    }

    /// Returns the entries, in the order of their actors.
    pub fn entries(&self) -> &[Entry<I, V>] {
        &self.entries
    }

    /// Returns the known dots of an actor. `None`: none is known.
    pub fn seen(&self, id: &I) -> Option<&CounterSet> {
        let index = self.entries.binary_search_by(|entry| entry.id.cmp(id)).ok()?;
        Some(&self.entries[index].seen)
    }

    /// Returns true if the other clock knows all dots of this one, and at least one more. Ignores
    /// values.
    pub fn less(&self, other: &Clock<I, V>) -> bool {
        let (ours, theirs) = self.compare_dots(other);
        !ours && theirs
    }

    /// Returns two flags: this clock has a dot that the other lacks, and the reverse.
    fn compare_dots(&self, other: &Clock<I, V>) -> (bool, bool) {
        let lacks = |of: &Clock<I, V>, entry: &Entry<I, V>| {
            !of.seen(&entry.id).is_some_and(|seen| seen.covers(&entry.seen))
        };
        let ours = self.entries.iter().any(|entry| lacks(other, entry));
        let theirs = other.entries.iter().any(|entry| lacks(self, entry));
        (ours, theirs)
    }

    /// Returns true if both clocks know the same dots and hold values for the same ones. Ignores
    /// the values themselves, and those without a dot.
    pub fn equal(&self, other: &Clock<I, V>) -> bool {
        let counts = |entry: &Entry<I, V>| -> Vec<u64> {
            entry.values.iter().map(|(count, _)| *count).collect()
        };
        let same = |(a, b): (&Entry<I, V>, &Entry<I, V>)| {
            a.id == b.id && a.seen == b.seen && counts(a) == counts(b)
        };
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(same)
    }
}

impl<I: Ord + Clone, V: Ord> Clock<I, V> {
    /// Merges two clocks: keeps every value that the other side also holds or does not know.
    /// Replicas combine each other's clocks in no other way.
    pub fn sync(self, other: Clock<I, V>) -> Clock<I, V> {
        let anon = match self.compare_dots(&other) {
            (false, true) => other.anon,
            (true, false) => self.anon,
            _ => union(self.anon, other.anon),
        };
        let mut entries = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let mut theirs = other.entries.into_iter().peekable();
        for ours in self.entries {
            while let Some(earlier) = theirs.next_if(|entry| entry.id < ours.id) {
                entries.push(earlier);
            }
            match theirs.next_if(|entry| entry.id == ours.id) {
                Some(same) => entries.push(merge(ours, same)),
                None => entries.push(ours),
            }
        }
        entries.extend(theirs);
        Clock { entries, anon }
    }

    /// Merges all of these clocks.
    pub fn sync_many(clocks: impl IntoIterator<Item = Clock<I, V>>) -> Clock<I, V> {
        clocks.into_iter().fold(Clock::empty(), Clock::sync)
    }

    /// Drops the values that a context covers, and adds the context's dots.
    pub fn discard(self, context: &DotContext<I>) -> Clock<I, V> {
        Clock::of_context(context).sync(self)
    }

    /// Adds a value under a dot, which must be new to the actor: see [`super::Minter`].
    pub fn event(&mut self, dot: Dot<I>, value: V) {
        let Some(seen) = CounterSet::single(dot.count) else { return };
        match self.entries.binary_search_by(|entry| entry.id.cmp(&dot.id)) {
            Ok(index) => {
                let entry = &mut self.entries[index];
                let place = entry.values.partition_point(|(count, _)| *count > dot.count);
                entry.values.insert(place, (dot.count, value));
                entry.seen.union(&seen);
            }
            Err(index) => {
                let values = vec![(dot.count, value)];
                self.entries.insert(index, Entry { id: dot.id, seen, values });
            }
        }
    }

    /// Writes a value that replaces those that the context covers, under the actor's next dot. Only
    /// valid while this clock knows every dot of the actor; a vnode writes through its
    /// [`super::Minter`].
    pub fn update(self, context: &DotContext<I>, value: V, id: I) -> Clock<I, V> {
        let mut clock = self.discard(context);
        let count = clock.seen(&id).map_or(0, CounterSet::highest) + 1;
        clock.event(Dot { id, count }, value);
        clock
    }
}

/// Merges two entries of one actor: a value stays if the other side also holds it, or has not seen
/// its dot.
fn merge<I, V: Ord>(ours: Entry<I, V>, theirs: Entry<I, V>) -> Entry<I, V> {
    let mut values = Vec::with_capacity(ours.values.len().max(theirs.values.len()));
    let mut left = ours.values.into_iter().peekable();
    let mut right = theirs.values.into_iter().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some((ours, _)), Some((theirs, _))) => ours.cmp(theirs),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => break,
        };
        match order {
            Ordering::Greater => {
                values.extend(left.next().filter(|(count, _)| !theirs.seen.contains(*count)));
            }
            Ordering::Less => {
                values.extend(right.next().filter(|(count, _)| !ours.seen.contains(*count)));
            }
            // One dot has one value. If a dot were minted twice despite the minter, all replicas
            // would still keep the same value.
            Ordering::Equal => values.extend(left.next().max(right.next())),
        }
    }
    let mut seen = ours.seen;
    seen.union(&theirs.seen);
    Entry { id: ours.id, seen, values }
}

fn union<V: Ord>(mut ours: Vec<V>, theirs: Vec<V>) -> Vec<V> {
    ours.extend(theirs);
    ours.sort_unstable();
    ours.dedup();
    ours
}
