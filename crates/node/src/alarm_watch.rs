//! Periodic evaluation of the alarms, so that each knows its beginning although nobody asks.

use crate::status_reader::StatusReader;
use runtime::{CancellationToken, world};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two evaluations: the error of an alarm's beginning.
const PAUSE: Duration = Duration::from_secs(10);

/// Evaluates the alarms until the node stops.
pub(crate) async fn watch(status: Arc<StatusReader>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        status.diagnostics.clock.observe(world::milliseconds(), world::unix_ms());
        status.read();
        world::sleep_or_cancelled(&stop, world::until_next(PAUSE)).await;
    }
}
