//! Search for an order of one key's calls: depth first, over a linked list of the calls that are
//! not ordered yet, with a memory of the configurations that led nowhere.
//!
//! Three rules keep the search small, each without losing an order that exists:
//! - a call that fits, and by its answer changed nothing, is taken at once: any other call that can
//!   come first can come after it as well. (Not so a write of the value that is there already: it
//!   may have come later, over another value.)
//! - a call of unknown outcome is taken only where it changes something, for it need not be taken;
//! - of two equal calls of unknown outcome, the older is taken first.

use std::collections::HashSet;

/// One call, with its values as numbers; 0: absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStep {
    Get { found: Option<u32> },
    Put { value: u32 },
    Delete { existed: Option<bool> },
    TestAndSet { expect: u32, wanted: u32, found: Option<u32> },
}

impl CallStep {
    /// Returns the key's value after the call. `None`: the call can't have been answered so on
    /// `current`.
    fn after(self, current: u32) -> Option<u32> {
        match self {
            CallStep::Get { found } => {
                found.is_none_or(|found| found == current).then_some(current)
            }
            CallStep::Put { value } => Some(value),
            CallStep::Delete { existed } => {
                existed.is_none_or(|existed| existed == (current != 0)).then_some(0)
            }
            CallStep::TestAndSet { found: Some(found), .. } if found != current => None,
            CallStep::TestAndSet { expect, wanted, .. } if expect == current => Some(wanted),
            CallStep::TestAndSet { .. } => Some(current),
        }
    }

    /// Returns true if the call, by its answer, changed nothing at any place in the order.
    fn never_writes(self) -> bool {
        match self {
            CallStep::Get { .. } => true,
            CallStep::Put { .. } => false,
            CallStep::Delete { existed } => existed == Some(false),
            CallStep::TestAndSet { expect, wanted, found } => {
                found.is_some_and(|found| found != expect || wanted == expect)
            }
        }
    }
}

/// Calls of one key: first those that must be ordered, by their beginning, then those that may be
/// left out.
#[derive(Debug)]
pub(super) struct KeyCalls {
    steps: Vec<CallStep>,
    /// Beginning and end of each call.
    times: Vec<(u64, u64)>,
    first_open: usize,
    /// Next older open call that equals this one.
    older_equal: Vec<Option<usize>>,
}

impl KeyCalls {
    pub(super) fn new(steps: Vec<CallStep>, times: Vec<(u64, u64)>, first_open: usize) -> KeyCalls {
        let older_equal_of = |at: usize| {
            (first_open..at).rev().find(|&older| at >= first_open && steps[older] == steps[at])
        };
        let older_equal = (0..steps.len()).map(older_equal_of).collect();
        KeyCalls { steps, times, first_open, older_equal }
    }
}

/// Outcome of a search.
#[derive(Debug)]
pub(super) enum SearchOutcome {
    /// All calls that must be ordered are in order.
    Ordered,
    /// The step limit was reached.
    StepLimit,
    /// There is no order: the length of the longest one found, the key's value after it, and the
    /// calls that could come next by their times.
    Stuck { ordered: usize, value: u32, next: Vec<usize> },
}

/// A call in the order, with the key's value before it, and true if there was a choice.
struct OrderedCall {
    call: usize,
    previous: u32,
    had_choice: bool,
}

/// Position in the list: 0 is its head, `2 * call + 1` a beginning, `2 * call + 2` an end.
type ListPosition = usize;

/// State of the search.
pub(super) struct Search<'a> {
    calls: &'a KeyCalls,
    next: Vec<ListPosition>,
    previous: Vec<ListPosition>,
    value: u32,
    /// One bit for each call that is ordered.
    ordered_bits: Vec<u64>,
    remaining: usize,
    order: Vec<OrderedCall>,
    visited: HashSet<Box<[u64]>>,
    steps: u64,
    longest: Option<(usize, u32, Vec<usize>)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(calls: &'a KeyCalls) -> Search<'a> {
        let count = calls.steps.len();
        let mut positions: Vec<(u64, bool, ListPosition)> = Vec::new();
        for (call, (began, ended)) in calls.times.iter().enumerate() {
            positions.push((*began, false, 2 * call + 1));
            if call < calls.first_open {
                positions.push((*ended, true, 2 * call + 2));
            }
        }
        // At equal times beginnings come before ends, so that such calls count as concurrent.
        positions.sort_unstable();
        let mut next = vec![0; 2 * count + 1];
        let mut previous = vec![0; 2 * count + 1];
        let mut last = 0;
        for (_, _, position) in positions {
            next[last] = position;
            previous[position] = last;
            last = position;
        }
        next[last] = 0;
        previous[0] = last;
        Search {
            calls,
            next,
            previous,
            value: 0,
            // The open calls begin at a word boundary, see `configuration`.
            ordered_bits: vec![
                0;
                calls.first_open.div_ceil(64)
                    + (count - calls.first_open).div_ceil(64)
            ],
            remaining: calls.first_open,
            order: Vec::new(),
            visited: HashSet::new(),
            steps: 0,
            longest: None,
        }
    }

    /// Searches; returns the outcome and the number of configurations tried.
    pub(super) fn run(mut self, steps_max: u64) -> (SearchOutcome, u64) {
        loop {
            self.order_non_writes();
            if self.remaining == 0 {
                return (SearchOutcome::Ordered, self.steps);
            }
            self.steps += 1;
            if self.steps > steps_max {
                return (SearchOutcome::StepLimit, self.steps);
            }
            self.update_longest();
            let configuration = self.configuration();
            let is_new = self.visited.insert(configuration);
            let from = if is_new { Some(self.next[0]) } else { self.backtrack() };
            if !self.order_next(from) {
                let (ordered, value, next) = self.longest.unwrap_or_default();
                return (SearchOutcome::Stuck { ordered, value, next }, self.steps);
            }
        }
    }

    /// Orders the first call that can come next, from this position of the list on; backtracks if
    /// there is none. Returns false if no choice is left.
    fn order_next(&mut self, mut from: Option<ListPosition>) -> bool {
        while let Some(position) = from {
            if position == 0 || position.is_multiple_of(2) {
                from = self.backtrack();
                continue;
            }
            let call = (position - 1) / 2;
            if let Some(value_after) = self.value_if_next(call) {
                self.order_call(call, value_after, true);
                return true;
            }
            from = Some(self.next[position]);
        }
        false
    }

    fn value_if_next(&self, call: usize) -> Option<u32> {
        let value_after = self.calls.steps[call].after(self.value)?;
        let open = call >= self.calls.first_open;
        let older_first = self.calls.older_equal[call].is_some_and(|older| !self.is_ordered(older));
        (!open || (value_after != self.value && !older_first)).then_some(value_after)
    }

    fn order_non_writes(&mut self) {
        let mut position = self.next[0];
        while !position.is_multiple_of(2) {
            let call = (position - 1) / 2;
            let step = self.calls.steps[call];
            let fits = step.after(self.value).is_some();
            if fits && step.never_writes() && call < self.calls.first_open {
                self.order_call(call, self.value, false);
                position = self.next[0];
            } else {
                position = self.next[position];
            }
        }
    }

    fn bit(&self, call: usize) -> (usize, u64) {
        let open = self.calls.first_open;
        let (base, at) = if call < open { (0, call) } else { (open.div_ceil(64), call - open) };
        (base + at / 64, 1 << (at % 64))
    }

    fn is_ordered(&self, call: usize) -> bool {
        let (word, bit) = self.bit(call);
        self.ordered_bits[word] & bit != 0
    }

    fn order_call(&mut self, call: usize, value_after: u32, had_choice: bool) {
        let (word, bit) = self.bit(call);
        self.ordered_bits[word] |= bit;
        self.order.push(OrderedCall { call, previous: self.value, had_choice });
        self.value = value_after;
        self.unlink(2 * call + 1);
        if call < self.calls.first_open {
            self.unlink(2 * call + 2);
            self.remaining -= 1;
        }
    }

    /// Removes calls from the order up to the last one that was chosen; returns the position after
    /// it. `None`: there is none.
    fn backtrack(&mut self) -> Option<ListPosition> {
        while let Some(OrderedCall { call, previous, had_choice }) = self.order.pop() {
            let (word, bit) = self.bit(call);
            self.ordered_bits[word] &= !bit;
            self.value = previous;
            if call < self.calls.first_open {
                self.link(2 * call + 2);
                self.remaining += 1;
            }
            self.link(2 * call + 1);
            if had_choice {
                return Some(self.next[2 * call + 1]);
            }
        }
        None
    }

    fn unlink(&mut self, position: ListPosition) {
        let (previous, next) = (self.previous[position], self.next[position]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn link(&mut self, position: ListPosition) {
        let (previous, next) = (self.previous[position], self.next[position]);
        self.next[previous] = position;
        self.previous[next] = position;
    }

    /// Returns the state that the rest of the search depends on: the ordered calls, and the key's
    /// value. Of the calls that must be ordered only the words between "all done" and "none done"
    /// are included.
    fn configuration(&self) -> Box<[u64]> {
        let (ordered, open) = self.ordered_bits.split_at(self.calls.first_open.div_ceil(64));
        let first = ordered.iter().position(|word| *word != u64::MAX).unwrap_or(ordered.len());
        let last = ordered.iter().rposition(|word| *word != 0).map_or(first, |at| at + 1);
        let window = &ordered[first..last.max(first)];
        let mut all = Vec::with_capacity(2 + window.len() + open.len());
        all.push((first as u64) << 32 | u64::from(self.value));
        all.push(window.len() as u64);
        all.extend_from_slice(window);
        all.extend_from_slice(open);
        all.into()
    }

    fn update_longest(&mut self) {
        let ordered = self.calls.first_open - self.remaining;
        if self.longest.as_ref().is_some_and(|(longest, ..)| *longest >= ordered) {
            return;
        }
        let mut next = Vec::new();
        let mut position = self.next[0];
        while !position.is_multiple_of(2) {
            next.push((position - 1) / 2);
            position = self.next[position];
        }
        self.longest = Some((ordered, self.value, next));
    }
}
