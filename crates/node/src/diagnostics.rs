//! Diagnostics of a node: what it keeps to tell operators how it is, and no request needs.

use crate::alarm_register::AlarmRegister;
use crate::clock_monitor::ClockMonitor;
use crate::listener_reports::ListenerReports;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Diagnostics {
    pub alarms: AlarmRegister,
    pub clock: ClockMonitor,
    pub listeners: ListenerReports,
}
