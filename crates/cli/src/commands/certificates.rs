//! TLS of a serving node: opened at the start, and read again when files change (and on a reload,
//! see `reload.rs`).

use program::{Failure, Outcome};
use settings::Settings;
use std::sync::Arc;
use std::time::Duration;
use tls::Tls;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Interval at which a node looks whether its files have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// Opens the TLS that the settings name, for clients and for other nodes.
pub fn open(settings: &mut Settings) -> Outcome {
    if !settings.tls.is_used() {
        return Ok(());
    }
    let opened = Tls::open(settings.tls.clone());
    let tls = Arc::new(opened.map_err(|error| Failure::invalid(error.text()))?);
    (settings.server.tls, settings.node.tls) = (Some(tls.clone()), Some(tls));
    Ok(())
}

/// Returns the clock by which a node looks at its files.
pub fn look_interval() -> Interval {
    let mut look = interval(LOOK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look
}

/// Reads the files again if they have changed. After a failure the former ones stay in force, which
/// the status warns of.
pub async fn look(settings: &Settings) {
    let Some(tls) = settings.server.tls.clone() else { return };
    match tokio::task::spawn_blocking(move || tls.reload()).await {
        Ok(Ok(true)) => tracing::info!(target: "server", "the changed files of TLS are in force"),
        Ok(Ok(false)) => {}
        Ok(Err(error)) => tracing::error!(
            target: "server", "the files of TLS can't be used, the former ones stay in force: {}",
            error.text()
        ),
        Err(error) => tracing::error!(target: "server", %error, "the files of TLS are not read"),
    }
}
