//! Wake-up signal of the maintenance thread.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Signal that ends the maintenance thread's pause.
#[derive(Default)]
pub struct MaintenanceSignal {
    raised: Mutex<bool>,
    wake: Condvar,
}

impl MaintenanceSignal {
    /// Raises the signal: the thread begins its next round now.
    pub fn raise(&self) {
        *self.raised.lock().expect("no one panics while holding it") = true;
        self.wake.notify_all();
    }

    /// Waits until the signal is raised, or for at most `pause`.
    pub fn wait(&self, pause: Duration) {
        let raised = self.raised.lock().expect("no one panics while holding it");
        let waited = self.wake.wait_timeout_while(raised, pause, |raised| !*raised);
        *waited.expect("no one panics while holding it").0 = false;
    }
}
