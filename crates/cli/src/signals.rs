//! Signals that end a command which goes on until it is told to end.

use base::Kind;
use program::{Failure, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Begins to listen to a signal, which then no longer ends the process.
pub fn listen_for_signal(kind: SignalKind) -> Outcome<Signal> {
    signal(kind).map_err(|error| {
        Failure::new(Kind::Unavailable, format!("can't listen to signals: {error}"))
    })
}

/// Waits until the user or the system asks the command to end.
pub async fn wait_for_interruption() -> Outcome {
    let mut interrupt = listen_for_signal(SignalKind::interrupt())?;
    let mut termination = listen_for_signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = interrupt.recv() => Ok(()),
        _ = termination.recv() => Ok(()),
    }
}
