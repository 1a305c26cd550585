//! Diagnostics of a node: what it keeps to tell operators how it is, and no request needs.

use crate::alarm_register::AlarmRegister;
use crate::clock_monitor::ClockMonitor;
use crate::listener_reports::ListenerReports;
use runtime::Watchdog;
use std::sync::Arc;

/// See the head of this file.
pub(crate) struct Diagnostics {
    pub alarms: AlarmRegister,
    pub clock: ClockMonitor,
    pub listeners: ListenerReports,
    pub watchdog: Arc<Watchdog>,
}

impl Diagnostics {
    pub(crate) fn new(watchdog: Watchdog) -> Diagnostics {
        Diagnostics {
            alarms: AlarmRegister::default(),
            clock: ClockMonitor::default(),
            listeners: ListenerReports::default(),
            watchdog: Arc::new(watchdog),
        }
    }
}
