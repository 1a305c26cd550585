//! Diagnostics of a node: what it keeps to tell operators how it is, and no request needs.

use crate::alarm_register::AlarmRegister;
use crate::clock_monitor::ClockMonitor;
use crate::listener_reports::ListenerReports;
use crate::slow_log::SlowLog;
use runtime::Watchdog;
use std::sync::Arc;

/// See the head of this file.
pub(crate) struct Diagnostics {
    pub alarms: AlarmRegister,
    pub clock: ClockMonitor,
    pub listeners: ListenerReports,
    pub watchdog: Arc<Watchdog>,
    pub slow_log: SlowLog,
}

impl Diagnostics {
    pub(crate) fn new(watchdog: Watchdog, slow_ms: u64) -> Diagnostics {
        Diagnostics {
            alarms: AlarmRegister::default(),
            clock: ClockMonitor::default(),
            listeners: ListenerReports::default(),
            watchdog: Arc::new(watchdog),
            slow_log: SlowLog::new(slow_ms),
        }
    }
}
