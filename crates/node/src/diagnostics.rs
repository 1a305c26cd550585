//! Diagnostics of a node: what it keeps to tell operators how it is, and no request needs; and what
//! front-ends report to it.

use crate::Node;
use crate::alarm_register::AlarmRegister;
use crate::clock_monitor::ClockMonitor;
use crate::listener_reports::ListenerReports;
use crate::settings::NodeSettings;
use base::access::Verb;
use base::rights::{KeySet, Need};
use base::{BucketName, Principal};
use bytes::Bytes;
use replica_host::NodeTasks;
use replication::entry_times::EntryStages;
use runtime::log_writer::LogWriterHandle;
use runtime::submit::Ticket;
use runtime::{BeatStatus, Watch, Watchdog};
use std::sync::Arc;
use std::time::Duration;
use usage::{HotKey, HotKeys, KeyAccess, SlowEntry, SlowLog, SlowRequest};

/// See the head of this file.
pub(crate) struct Diagnostics {
    pub alarms: AlarmRegister,
    pub clock: ClockMonitor,
    pub listeners: ListenerReports,
    pub watchdog: Arc<Watchdog>,
    pub slow_log: SlowLog,
    pub hot_keys: HotKeys,
}

impl Diagnostics {
    /// Returns the diagnostics of a node with these tasks, and with this log writer.
    pub(crate) fn new(
        settings: &NodeSettings,
        tasks: &NodeTasks,
        log_writer: &LogWriterHandle,
    ) -> Diagnostics {
        let watchdog = Watchdog::new(tasks.watched(), vec![log_writer.beat.clone()]);
        Diagnostics {
            alarms: AlarmRegister::default(),
            clock: ClockMonitor::default(),
            listeners: ListenerReports::default(),
            watchdog: Arc::new(watchdog),
            slow_log: SlowLog::new(settings.slow_ms),
            hot_keys: HotKeys::new(settings.hot_keys),
        }
    }
}

impl Node {
    /// Returns true if a request that took this long belongs into the slow log.
    #[inline]
    pub fn is_slow(&self, took: Duration) -> bool {
        self.status.diagnostics.slow_log.is_slow(took)
    }

    /// Counts requests about these keys that were answered together, for the list of hot keys.
    #[inline]
    pub fn count_accesses<'k>(
        &self,
        bucket: &BucketName,
        access: KeyAccess,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
    ) {
        self.status.diagnostics.hot_keys.count_run(bucket, access, keys);
    }

    /// Returns the hot keys of this node, those with the most accesses first. A key is data: it is
    /// hidden from a principal that may not read it.
    pub fn hot_keys(&self, principal: &Principal) -> Vec<HotKey> {
        let mut keys = self.status.diagnostics.hot_keys.list();
        for HotKey { bucket, key_begin, .. } in &mut keys {
            // A grant on a prefix covers a key if it covers the beginning of the key.
            let is_readable = |begin: &mut Bytes| {
                let need = Need::Keys(Verb::Read, bucket, KeySet::One(begin));
                self.router.access.check(principal, &need).is_ok()
            };
            if !key_begin.as_mut().is_some_and(is_readable) {
                *key_begin = None;
            }
        }
        keys
    }

    /// Returns true if there is a slow log.
    #[inline]
    pub fn has_slow_log(&self) -> bool {
        self.status.diagnostics.slow_log.is_on()
    }

    /// Returns the stages of the entry that a ticket waited for, if it took long and was applied
    /// lately.
    pub fn entry_stages(&self, ticket: Ticket) -> Option<EntryStages> {
        self.router.locator.groups.get(ticket.group)?.entry_stages(ticket.index)
    }

    /// Records a slow request.
    pub fn record_slow(&self, request: SlowRequest) {
        self.status.diagnostics.slow_log.record(request);
    }

    /// Returns the slow log, the slowest request first.
    pub fn slow_requests(&self) -> Vec<SlowEntry> {
        self.status.diagnostics.slow_log.entries()
    }

    /// Returns the number of requests in the slow log.
    pub fn slow_requests_count(&self) -> usize {
        self.status.diagnostics.slow_log.count()
    }

    /// Sets the time from which on requests are in the slow log, and empties it.
    pub fn set_slow_threshold(&self, threshold: Duration) {
        self.status.diagnostics.slow_log.set_threshold(threshold);
    }

    /// Removes all requests from the slow log.
    pub fn clear_slow_requests(&self) {
        self.status.diagnostics.slow_log.clear();
    }

    /// Watches over a loop that a front-end begins: one that does not come round is reported like a
    /// loop of the node.
    pub fn watch_loop<F: Future>(
        &self,
        name: &str,
        watch: Watch,
        task: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        self.lifecycle.tasks.front_ends.track(name, watch, task)
    }

    /// Returns true if no long task of this node stands still, nor the watchdog over them. For
    /// whoever restarts a process that hangs.
    pub fn is_no_task_stalled(&self) -> bool {
        self.status.diagnostics.watchdog.is_all_well()
    }

    /// Returns the beats of the tasks that have stood still for so long that the process is to be
    /// restarted: a minute behind the alarm.
    pub fn tasks_to_restart(&self) -> Vec<BeatStatus> {
        self.status.diagnostics.watchdog.tasks_to_restart()
    }

    /// Returns the beats of the tasks that stand still.
    pub fn stalled_tasks(&self) -> Vec<BeatStatus> {
        self.status.diagnostics.watchdog.late_beats()
    }

    /// Reports the listeners of the front-ends that the network reaches, for the alarm `exposed`.
    pub fn report_exposed(&self, listeners: String) {
        self.status.diagnostics.listeners.set_exposed(listeners);
    }

    /// Reports that a client was refused, for the alarm `clients_refused`.
    pub fn report_refusal(&self, text: String) {
        self.status.diagnostics.listeners.on_refusal(text);
    }
}
