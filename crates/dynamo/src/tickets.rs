//! Waiters for batches to be applied: each is called once, when its own batch is applied or has
//! failed, and is not woken by others.
//!
//! Promises: each waiter receives the outcome, in the order of the batches and, within one, in the
//! order of registration.
//! Never: calls a waiter while it holds its lock.

use base::Result;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

type TicketCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Tickets {
    waiting: Mutex<BTreeMap<u64, Vec<TicketCallback>>>,
}

impl Tickets {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<TicketCallback>>> {
        self.waiting.lock().expect("no one panics while holding it")
    }

    /// Calls `then` once the batch of this ticket is applied or has failed. `outcome` returns the
    /// outcome if it is known already. Otherwise [`Tickets::notify`] reports it later.
    pub(super) fn wait(
        &self,
        ticket: u64,
        outcome: impl FnOnce() -> Option<Result<()>>,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        if let Some((outcome, then)) = self.register(ticket, outcome, then) {
            then(outcome);
        }
    }

    /// Registers a waiter like [`Tickets::wait`]. Returns it with the outcome if that is known
    /// already: the caller may hold a lock that the waiter needs.
    pub(super) fn register<F: FnOnce(Result<()>) + Send + 'static>(
        &self,
        ticket: u64,
        outcome: impl FnOnce() -> Option<Result<()>>,
        then: F,
    ) -> Option<(Result<()>, F)> {
        let mut waiting = self.waiting();
        // Under the lock: a later outcome is reported to all waiters registered by then.
        match outcome() {
            None => {
                waiting.entry(ticket).or_default().push(Box::new(then));
                None
            }
            Some(outcome) => Some((outcome, then)),
        }
    }

    /// Reports the outcome of all batches through this one: applied, or an error.
    pub(super) fn notify(&self, through: u64, result: &Result<()>) {
        let due = {
            let mut waiting = self.waiting();
            let later = through.checked_add(1).map(|next| waiting.split_off(&next));
            std::mem::replace(&mut *waiting, later.unwrap_or_default())
        };
        due.into_values().flatten().for_each(|then| then(result.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Error, Reason};
    use std::sync::Arc;

    #[test]
    fn waiters_are_called_once_in_batch_order() {
        let (tickets, calls) = (Tickets::default(), Arc::new(Mutex::new(Vec::new())));
        let wait = |ticket, name: &'static str, known: Option<Result<()>>| {
            let calls = calls.clone();
            tickets.wait(
                ticket,
                || known,
                move |result| calls.lock().expect("nobody panics").push((name, result.is_ok())),
            );
        };
        let take_calls = || std::mem::take(&mut *calls.lock().expect("nobody panics"));
        wait(4, "first of four", None);
        wait(3, "three", None);
        wait(4, "second of four", None);
        wait(2, "there already", Some(Ok(())));
        assert_eq!(take_calls(), [("there already", true)]);
        tickets.notify(2, &Ok(()));
        assert_eq!(take_calls(), []);
        tickets.notify(4, &Ok(()));
        assert_eq!(
            take_calls(),
            [("three", true), ("first of four", true), ("second of four", true)]
        );
        wait(9, "nine", None);
        tickets.notify(u64::MAX, &Err(Error::new(Reason::ShuttingDown, "over")));
        assert_eq!(take_calls(), [("nine", false)]);
        tickets.notify(u64::MAX, &Ok(()));
        assert_eq!(take_calls(), []);
    }

    #[test]
    fn called_waiter_can_wait_again() {
        let tickets = Arc::new(Tickets::default());
        let (again, calls) = (tickets.clone(), Arc::new(Mutex::new(0)));
        let second = calls.clone();
        let next =
            move |_| again.wait(2, || None, move |_| *second.lock().expect("nobody panics") += 1);
        tickets.wait(1, || None, next);
        tickets.notify(1, &Ok(()));
        assert_eq!(*calls.lock().expect("nobody panics"), 0);
        tickets.notify(2, &Ok(()));
        assert_eq!(*calls.lock().expect("nobody panics"), 1);
    }
}
