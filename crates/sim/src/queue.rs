//! Queue of events in simulated time. Events of one instant come in the order in which they were
//! scheduled.

use std::collections::BTreeMap;

/// Key of a scheduled event, by which it can be cancelled: its time, and its number among all
/// events.
pub type EventKey = (u64, u64);

/// Queue of future events, with the current time. The user chooses the unit of time.
pub struct EventQueue<E> {
    now: u64,
    scheduled: u64,
    events: BTreeMap<EventKey, E>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue { now: 0, scheduled: 0, events: BTreeMap::new() }
    }
}

impl<E> EventQueue<E> {
    /// Returns the time since the start of the history.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Schedules an event at a time.
    pub fn schedule_at(&mut self, time: u64, event: E) -> EventKey {
        self.scheduled += 1;
        let key = (time, self.scheduled);
        self.events.insert(key, event);
        key
    }

    /// Schedules an event after a delay.
    pub fn schedule_after(&mut self, delay: u64, event: E) -> EventKey {
        self.schedule_at(self.now + delay, event)
    }

    /// Moves the next event behind all others of its instant.
    pub fn postpone_first(&mut self) {
        if let Some(((time, _), event)) = self.events.pop_first() {
            self.schedule_at(time, event);
        }
    }

    /// Cancels an event.
    pub(crate) fn cancel(&mut self, key: EventKey) {
        self.events.remove(&key);
    }

    /// Removes all events for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.events.retain(|_, event| keep(event));
    }

    /// Returns the number of scheduled events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes the next event that is due by `end`, and advances the time to it. `None`: no event is
    /// due; the time is `end` now.
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
    pub(crate) fn next_due(&mut self) -> Option<E> {
        let first = self.events.first_entry().filter(|first| first.key().0 <= self.now)?;
        Some(first.remove())
    }
}
