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
    /// `holds`.
    fn after(self, holds: u32) -> Option<u32> {
        match self {
            CallStep::Get { found } => found.is_none_or(|found| found == holds).then_some(holds),
            CallStep::Put { value } => Some(value),
            CallStep::Delete { existed } => {
                existed.is_none_or(|existed| existed == (holds != 0)).then_some(0)
            }
            CallStep::TestAndSet { found: Some(found), .. } if found != holds => None,
            CallStep::TestAndSet { expect, wanted, .. } if expect == holds => Some(wanted),
            CallStep::TestAndSet { .. } => Some(holds),
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
    twins: Vec<Option<usize>>,
}

impl KeyCalls {
    pub(super) fn new(steps: Vec<CallStep>, times: Vec<(u64, u64)>, first_open: usize) -> KeyCalls {
        let twin = |at: usize| {
            (first_open..at).rev().find(|&older| at >= first_open && steps[older] == steps[at])
        };
        let twins = (0..steps.len()).map(twin).collect();
        KeyCalls { steps, times, first_open, twins }
    }
}

/// Outcome of a search.
#[derive(Debug)]
pub(super) enum End {
    /// All calls that must be ordered are in order.
    Ordered,
    /// The step limit was reached.
    TooMuch,
    /// There is no order: the length of the longest one found, the key's value after it, and the
    /// calls that could come next by their times.
    Stuck { ordered: usize, holds: u32, next: Vec<usize> },
}

/// A call that was taken, with the key's value before, and true if there was a choice.
struct TakenCall {
    call: usize,
    held: u32,
    chosen: bool,
}

/// Position in the list: 0 is its head, `2 * call + 1` a beginning, `2 * call + 2` an end.
type ListPosition = usize;

/// State of the search.
pub(super) struct Search<'a> {
    work: &'a KeyCalls,
    next: Vec<ListPosition>,
    before: Vec<ListPosition>,
    holds: u32,
    /// One bit for each call that is ordered.
    done: Vec<u64>,
    left: usize,
    taken: Vec<TakenCall>,
    seen: HashSet<Box<[u64]>>,
    steps: u64,
    longest: Option<(usize, u32, Vec<usize>)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(work: &'a KeyCalls) -> Search<'a> {
        let count = work.steps.len();
        let mut places: Vec<(u64, bool, ListPosition)> = Vec::new();
        for (call, (began, ended)) in work.times.iter().enumerate() {
            places.push((*began, false, 2 * call + 1));
            if call < work.first_open {
                places.push((*ended, true, 2 * call + 2));
            }
        }
        // At equal times beginnings come before ends, so that such calls count as concurrent.
        places.sort_unstable();
        let mut next = vec![0; 2 * count + 1];
        let mut before = vec![0; 2 * count + 1];
        let mut last = 0;
        for (_, _, place) in places {
            next[last] = place;
            before[place] = last;
            last = place;
        }
        next[last] = 0;
        before[0] = last;
        Search {
            work,
            next,
            before,
            holds: 0,
            // The open calls begin at a word boundary, see `configuration`.
            done: vec![0; work.first_open.div_ceil(64) + (count - work.first_open).div_ceil(64)],
            left: work.first_open,
            taken: Vec::new(),
            seen: HashSet::new(),
            steps: 0,
            longest: None,
        }
    }

    /// Searches; returns the outcome and the number of configurations tried.
    pub(super) fn run(mut self, steps_max: u64) -> (End, u64) {
        loop {
            self.take_what_never_writes();
            if self.left == 0 {
                return (End::Ordered, self.steps);
            }
            self.steps += 1;
            if self.steps > steps_max {
                return (End::TooMuch, self.steps);
            }
            self.remember_the_longest();
            let configuration = self.configuration();
            let fresh = self.seen.insert(configuration);
            let from = if fresh { Some(self.next[0]) } else { self.back() };
            if !self.choose(from) {
                let (ordered, holds, next) = self.longest.unwrap_or_default();
                return (End::Stuck { ordered, holds, next }, self.steps);
            }
        }
    }

    /// Takes the first call that can come next, from this position of the list on; goes back if
    /// there is none. Returns false if no choice is left.
    fn choose(&mut self, mut from: Option<ListPosition>) -> bool {
        while let Some(place) = from {
            if place == 0 || place.is_multiple_of(2) {
                from = self.back();
                continue;
            }
            let call = (place - 1) / 2;
            if let Some(after) = self.may_take(call) {
                self.take(call, after, true);
                return true;
            }
            from = Some(self.next[place]);
        }
        false
    }

    fn may_take(&self, call: usize) -> Option<u32> {
        let after = self.work.steps[call].after(self.holds)?;
        let open = call >= self.work.first_open;
        let older_first = self.work.twins[call].is_some_and(|twin| !self.is_done(twin));
        (!open || (after != self.holds && !older_first)).then_some(after)
    }

    fn take_what_never_writes(&mut self) {
        let mut place = self.next[0];
        while !place.is_multiple_of(2) {
            let call = (place - 1) / 2;
            let step = self.work.steps[call];
            let fits = step.after(self.holds).is_some();
            if fits && step.never_writes() && call < self.work.first_open {
                self.take(call, self.holds, false);
                place = self.next[0];
            } else {
                place = self.next[place];
            }
        }
    }

    fn bit(&self, call: usize) -> (usize, u64) {
        let open = self.work.first_open;
        let (base, at) = if call < open { (0, call) } else { (open.div_ceil(64), call - open) };
        (base + at / 64, 1 << (at % 64))
    }

    fn is_done(&self, call: usize) -> bool {
        let (word, bit) = self.bit(call);
        self.done[word] & bit != 0
    }

    fn take(&mut self, call: usize, after: u32, chosen: bool) {
        let (word, bit) = self.bit(call);
        self.done[word] |= bit;
        self.taken.push(TakenCall { call, held: self.holds, chosen });
        self.holds = after;
        self.unlink(2 * call + 1);
        if call < self.work.first_open {
            self.unlink(2 * call + 2);
            self.left -= 1;
        }
    }

    /// Undoes calls up to the last one that was chosen; returns the position after it. `None`:
    /// there is none.
    fn back(&mut self) -> Option<ListPosition> {
        while let Some(TakenCall { call, held, chosen }) = self.taken.pop() {
            let (word, bit) = self.bit(call);
            self.done[word] &= !bit;
            self.holds = held;
            if call < self.work.first_open {
                self.link(2 * call + 2);
                self.left += 1;
            }
            self.link(2 * call + 1);
            if chosen {
                return Some(self.next[2 * call + 1]);
            }
        }
        None
    }

    fn unlink(&mut self, place: ListPosition) {
        let (before, next) = (self.before[place], self.next[place]);
        self.next[before] = next;
        self.before[next] = before;
    }

    fn link(&mut self, place: ListPosition) {
        let (before, next) = (self.before[place], self.next[place]);
        self.next[before] = place;
        self.before[next] = place;
    }

    /// Returns the state that the rest of the search depends on: the ordered calls, and the key's
    /// value. Of the calls that must be ordered only the words between "all done" and "none done"
    /// are included.
    fn configuration(&self) -> Box<[u64]> {
        let (ordered, open) = self.done.split_at(self.work.first_open.div_ceil(64));
        let first = ordered.iter().position(|word| *word != u64::MAX).unwrap_or(ordered.len());
        let last = ordered.iter().rposition(|word| *word != 0).map_or(first, |at| at + 1);
        let window = &ordered[first..last.max(first)];
        let mut all = Vec::with_capacity(2 + window.len() + open.len());
        all.push((first as u64) << 32 | u64::from(self.holds));
        all.push(window.len() as u64);
        all.extend_from_slice(window);
        all.extend_from_slice(open);
        all.into()
    }

    fn remember_the_longest(&mut self) {
        let ordered = self.work.first_open - self.left;
        if self.longest.as_ref().is_some_and(|(longest, ..)| *longest >= ordered) {
            return;
        }
        let mut next = Vec::new();
        let mut place = self.next[0];
        while !place.is_multiple_of(2) {
            next.push((place - 1) / 2);
            place = self.next[place];
        }
        self.longest = Some((ordered, self.holds, next));
    }
}
