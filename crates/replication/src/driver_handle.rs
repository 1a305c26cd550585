//! Handle of a group's driver for other threads: its queues, its wake-up, and whether it runs.

use super::inbox::Inbox;
use base::NodeId;
use runtime::log_writer::AppendCompletion;
use runtime::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};

/// See the head of this file.
pub struct DriverHandle {
    /// Written records that the driver has not processed yet.
    mailbox: Mutex<Vec<AppendCompletion>>,
    /// Messages of other members for the driver.
    inbox: Mutex<Inbox>,
    /// Wake-up signal of the driver.
    wake: Notify,
    /// True once the directory has dropped the group.
    dropped: AtomicBool,
    /// True while the driver runs.
    is_running: watch::Sender<bool>,
}

impl DriverHandle {
    /// Creates the handle of a driver that has not started. `undecided_bytes_max` bounds the inbox,
    /// too.
    pub(super) fn new(undecided_bytes_max: usize) -> DriverHandle {
        DriverHandle {
            mailbox: Mutex::new(Vec::new()),
            inbox: Mutex::new(Inbox::new(undecided_bytes_max)),
            wake: Notify::new(),
            dropped: AtomicBool::new(false),
            is_running: watch::Sender::new(true),
        }
    }

    /// Reports written records to the driver.
    pub fn report(&self, written: &[AppendCompletion]) {
        self.mailbox.lock().expect("no one panics while holding it").extend_from_slice(written);
        self.wake();
    }

    /// Removes and returns the written records that are not processed yet.
    pub(super) fn take_written(&self) -> Vec<AppendCompletion> {
        std::mem::take(&mut *self.mailbox.lock().expect("no one panics while holding it"))
    }

    /// Locks the messages of other members that are not processed yet.
    pub fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().expect("no one panics while holding it")
    }

    /// Returns a member whose messages broke the protocol within the last minute.
    pub fn unsound_member(&self) -> Option<NodeId> {
        self.inbox().unsound_member()
    }

    /// Wakes the driver.
    #[inline]
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Resolves when the driver is woken.
    pub(super) async fn wait_for_wake(&self) {
        self.wake.notified().await;
    }

    /// Ends the group on this node for good. Returns false if it has ended already.
    pub fn drop_group(&self) -> bool {
        let first = !self.dropped.swap(true, Ordering::AcqRel);
        self.wake();
        first
    }

    /// Returns true if the group has ended for good.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Notes that the driver has stopped.
    pub(super) fn stop(&self) {
        self.is_running.send_replace(false);
    }

    /// Resolves when the driver of this group has ended on this node.
    pub async fn wait_for_end(&self) {
        // The sender exists as long as the group, so the wait ends with the driver.
        let _ = self.is_running.subscribe().wait_for(|is_running| !is_running).await;
    }
}
