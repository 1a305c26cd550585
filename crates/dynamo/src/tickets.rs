//! Waiters for a batch to be in the store: each is called once, when its own batch is there, and
//! none is woken by another's.
//!
//! Promises: each waiter learns the outcome, in the order of the batches and, within one, in the
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

    /// Calls `then` once the batch of this ticket is in the store, or never will be. `known`
    /// returns what is known already. Otherwise [`Tickets::tell`] reports it later.
    pub(super) fn wait(
        &self,
        ticket: u64,
        known: impl FnOnce() -> Option<Result<()>>,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        let mut waiting = self.waiting();
        // Under the lock: a later outcome is reported to all waiters registered by then.
        match known() {
            None => waiting.entry(ticket).or_default().push(Box::new(then)),
            Some(known) => {
                drop(waiting);
                then(known);
            }
        }
    }

    /// All batches up to this one are in the store, or (an error) will not be.
    pub(super) fn tell(&self, upto: u64, told: &Result<()>) {
        let due = {
            let mut waiting = self.waiting();
            let later = upto.checked_add(1).map(|next| waiting.split_off(&next));
            std::mem::replace(&mut *waiting, later.unwrap_or_default())
        };
        due.into_values().flatten().for_each(|then| then(told.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Error, Reason};
    use std::sync::Arc;

    #[test]
    fn each_hears_of_its_own_batch_once_and_in_order() {
        let (tickets, heard) = (Tickets::default(), Arc::new(Mutex::new(Vec::new())));
        let wait = |ticket, name: &'static str, known: Option<Result<()>>| {
            let heard = heard.clone();
            tickets.wait(
                ticket,
                || known,
                move |told| heard.lock().expect("nobody panics").push((name, told.is_ok())),
            );
        };
        let took = || std::mem::take(&mut *heard.lock().expect("nobody panics"));
        wait(4, "first of four", None);
        wait(3, "three", None);
        wait(4, "second of four", None);
        wait(2, "there already", Some(Ok(())));
        assert_eq!(took(), [("there already", true)]);
        tickets.tell(2, &Ok(()));
        assert_eq!(took(), []);
        tickets.tell(4, &Ok(()));
        assert_eq!(took(), [("three", true), ("first of four", true), ("second of four", true)]);
        wait(9, "nine", None);
        tickets.tell(u64::MAX, &Err(Error::new(Reason::ShuttingDown, "over")));
        assert_eq!(took(), [("nine", false)]);
        tickets.tell(u64::MAX, &Ok(()));
        assert_eq!(took(), []);
    }

    #[test]
    fn one_who_is_called_may_wait_again() {
        let tickets = Arc::new(Tickets::default());
        let (again, heard) = (tickets.clone(), Arc::new(Mutex::new(0)));
        let second = heard.clone();
        let next =
            move |_| again.wait(2, || None, move |_| *second.lock().expect("nobody panics") += 1);
        tickets.wait(1, || None, next);
        tickets.tell(1, &Ok(()));
        assert_eq!(*heard.lock().expect("nobody panics"), 0);
        tickets.tell(2, &Ok(()));
        assert_eq!(*heard.lock().expect("nobody panics"), 1);
    }
}
