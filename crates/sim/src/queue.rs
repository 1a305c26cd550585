//! Queue of events in simulated time. Events of one moment come in the order in which they were
//! planned.

use std::collections::BTreeMap;

/// When an event comes, and which of that moment it is: the name by which it can be taken back.
pub type EventKey = (u64, u64);

/// What is going to happen, and what time it is. The unit of time is the user's.
pub struct EventQueue<E> {
    now: u64,
    planned: u64,
    events: BTreeMap<EventKey, E>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue { now: 0, planned: 0, events: BTreeMap::new() }
    }
}

impl<E> EventQueue<E> {
    /// Returns the time since the beginning of the history.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Plans an event for a time.
    pub fn at(&mut self, time: u64, event: E) -> EventKey {
        self.planned += 1;
        let key = (time, self.planned);
        self.events.insert(key, event);
        key
    }

    /// Plans an event that comes after so long.
    pub fn after(&mut self, delay: u64, event: E) -> EventKey {
        self.at(self.now + delay, event)
    }

    /// Has the next event come behind all others of its moment.
    pub fn postpone_first(&mut self) {
        if let Some(((time, _), event)) = self.events.pop_first() {
            self.at(time, event);
        }
    }

    /// Takes an event back.
    pub fn cancel(&mut self, key: EventKey) {
        self.events.remove(&key);
    }

    /// Keeps only such events.
    pub fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.events.retain(|_, event| keep(event));
    }

    /// Returns how many events are planned.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes the next event that comes by this time, and lets time pass until then; none: it is
    /// that time now.
    pub fn next_until(&mut self, end: u64) -> Option<E> {
        match self.events.first_entry().filter(|first| first.key().0 <= end) {
            Some(first) => {
                let ((time, _), event) = first.remove_entry();
                self.now = self.now.max(time);
                Some(event)
            }
            None => {
                self.now = end;
                None
            }
        }
    }

    /// Takes the next event that is due now.
    pub fn next_due(&mut self) -> Option<E> {
        let first = self.events.first_entry().filter(|first| first.key().0 <= self.now)?;
        Some(first.remove())
    }
}
