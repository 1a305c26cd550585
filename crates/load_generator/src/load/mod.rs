//! The load itself: clients on threads, their schedule, and the measurements.
//!
//! Promises: under an open load an operation's time counts from its intended start, so a slow
//! server can't hide the operations it kept from starting; operations of the warm-up are counted
//! nowhere.
//! Never: knows a protocol; writes a file.
//! Read next: `worker.rs`, then `record.rs` and `collect.rs`.

mod answers;
mod causality;
mod clients;
mod collect;
mod record;
mod schedule;
#[cfg(test)]
mod tests;
mod thread_state;

mod worker;

pub use causality::Causality;
pub use collect::{Collected, NullObserver, OperationTotals, ReportRow, RunObserver};
pub use record::{OperationWindow, RunPart, new_histogram};

use crate::config::Config;
use crate::drivers::Target;
use crate::error::BenchError;
use crate::generators::Blob;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Most windows of one thread that wait for the collector.
const WINDOWS_MAX: usize = 64;

/// Returns the blob that values are cut from: a file or random bytes. Fails if the file can't be
/// read or is shorter than the longest value.
fn value_blob(config: &Config) -> Result<Blob, String> {
    let Some(file) = &config.value_source_file else {
        return Ok(Blob::for_generator(
            &config.value_generator,
            config.rng_seed,
            config.value_source_bytes,
        ));
    };
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let blob = Blob::from_bytes(bytes);
    if blob.bytes() < config.value_generator.bytes_max() {
        return Err(format!("{}: values may be longer than this file", file.display()));
    }
    Ok(blob)
}

/// Runs the load to its end and returns the measurements. `stop` ends it early; `observer` receives
/// every row.
pub fn run(
    config: &Config,
    target: &dyn Target,
    stop: &AtomicBool,
    observer: &mut dyn RunObserver,
) -> Result<Collected, BenchError> {
    for weighted in &config.operations {
        target.supports(weighted.operation)?;
    }
    let blob = value_blob(config)?;
    let (sender, receiver) = sync_channel(WINDOWS_MAX * config.threads);
    // All clients are connected before the first request is sent.
    let connected = Barrier::new(config.threads + 1);
    let start = std::sync::OnceLock::new();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..config.threads {
            let (sender, blob) = (sender.clone(), blob.clone());
            let (connected, start) = (&connected, &start);
            let run_worker = move || {
                let worker = worker::Worker::new(config, target, thread, blob, sender, stop);
                if worker.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                connected.wait();
                connected.wait();
                let start = *start.get().expect("set between the two waits");
                worker.map(|worker| worker.run(start))
            };
            threads.push(scope.spawn(run_worker));
        }
        drop(sender);
        connected.wait();
        // The start lies 5 ms ahead, so that no thread begins behind the schedule.
        start.get_or_init(|| Instant::now() + Duration::from_millis(5));
        connected.wait();
        let collected = collect::collect(config, &receiver, stop, observer);
        for thread in threads {
            thread.join().map_err(|_| "a load thread panicked".to_string())??;
        }
        Ok(collected?)
    })
}
