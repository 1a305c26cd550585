//! Resolution of siblings to one value, for buckets that ask for it: lossy on request.

use super::clock::{Clock, Entry};
use base::dots::DotContext;

impl<I: Ord + Clone, V> Clock<I, V> {
    /// Changes each value; dots and order stay.
    pub fn map<W>(self, mut change: impl FnMut(V) -> W) -> Clock<I, W> {
        let anon = self.anon.into_iter().map(&mut change).collect();
        let mut entries = Vec::with_capacity(self.entries.len());
        for Entry { id, seen, values } in self.entries {
            let values = values.into_iter().map(|(count, value)| (count, change(value))).collect();
            entries.push(Entry { id, seen, values });
        }
        Clock { entries, anon }
    }

    /// Removes the values for which `goes` returns true. Their dots stay known, so a merge removes
    /// the values elsewhere too.
    pub fn remove_if(mut self, mut is_removed: impl FnMut(&V) -> bool) -> Clock<I, V> {
        self.anon.retain(|value| !is_removed(value));
        for entry in &mut self.entries {
            entry.values.retain(|(_, value)| !is_removed(value));
        }
        self
    }

    /// Resolves all values to one without a dot, whose causal past is everything seen so far.
    pub fn reconcile(self, resolve: impl FnOnce(Vec<V>) -> V) -> Clock<I, V> {
        let context: DotContext<I> = self.join();
        let mut values = self.anon;
        for entry in self.entries {
            values.extend(entry.values.into_iter().map(|(_, value)| value));
        }
        Clock::after(&context, resolve(values))
    }

    /// Returns the greatest value by `at_most`; the first of equal ones.
    pub fn last(&self, mut at_most: impl FnMut(&V, &V) -> bool) -> Option<&V> {
        let mut values = self.values();
        let mut last = values.next()?;
        for value in values {
            if !at_most(value, last) {
                last = value;
            }
        }
        Some(last)
    }

    /// Keeps the greatest value at its own dot, and drops the rest.
    pub fn lww(mut self, mut at_most: impl FnMut(&V, &V) -> bool) -> Clock<I, V> {
        // Place of the value: its entry (`None`: without a dot), and its index there.
        let mut best: Option<((Option<usize>, usize), &V)> = None;
        let anon = self.anon.iter().enumerate().map(|(at, value)| ((None, at), value));
        let dotted = self.entries.iter().enumerate().flat_map(|(entry, of)| {
            of.values.iter().enumerate().map(move |(at, (_, value))| ((Some(entry), at), value))
        });
        for (place, value) in anon.chain(dotted) {
            if best.is_none_or(|(_, known)| !at_most(value, known)) {
                best = Some((place, value));
            }
        }
        let Some(((kept, at), _)) = best else { return self };
        keep_only(&mut self.anon, (kept.is_none()).then_some(at));
        for (index, entry) in self.entries.iter_mut().enumerate() {
            keep_only(&mut entry.values, (kept == Some(index)).then_some(at));
        }
        self
    }
}

/// Keeps the element at this index, or none.
fn keep_only<T>(list: &mut Vec<T>, at: Option<usize>) {
    if let Some(at) = at {
        list.swap(0, at);
    }
    list.truncate(at.map_or(0, |_| 1));
}
