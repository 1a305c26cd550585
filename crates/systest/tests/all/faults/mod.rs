//! Real faults under real processes, each with a ledger of the clients' answers.
//!
//! Promises: an experiment prints one line of figures, or one that says why it was skipped; a
//! durability experiment has a positive control that must lose something.
//! Never: relies on a checker or a fault injector without a test of its own
//! (`../fault_injection.rs`).
//! Read next: `kill.rs`, then `power.rs`.

mod cable;
pub(crate) mod failpoints;
mod flood;
pub(crate) mod hostile;
mod hostile_http;
mod hostile_member;
mod hostile_ports;
mod kill;
mod linear;
mod million;
pub(crate) mod mutants;
mod overload;
mod power;
mod slow;
mod space;
mod stalled;
mod sync_error;
mod torn;

use std::path::Path;
use std::time::Duration;
use systest::report::Figures;
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::Ledger;

/// Returns a setup with small tables and segments, so that flushes, rolls and log truncations
/// happen within seconds.
fn small_setup(data: &Path) -> Setup {
    Setup::new(data).with_args(&[
        "--memory-bytes-max",
        "16MiB",
        "--segment-bytes",
        "4MiB",
        "--log-bytes-max",
        "128MiB",
        "--disk-reserve-bytes",
        "8MiB",
    ])
}

/// Lets clients write for a time that differs from round to round.
fn load_for_a_while(server: &Server, round: usize) -> Load {
    let load = Load::start_mix(server.address, round, 6, 900);
    std::thread::sleep(Duration::from_millis(250 + 130 * (round as u64 % 5)));
    load
}

/// Adds the counts of a ledger to the figures.
fn add_counts(figures: &mut Figures, ledger: &Ledger) {
    figures.ok += ledger.ok;
    figures.fail += ledger.fail;
    figures.info += ledger.info;
}

/// Compares the ledger with the server; adds lost and unexpected rows to the figures, and fails on
/// them.
fn judge(figures: &mut Figures, ledger: &Ledger, server: &Server) {
    let verdict = ledger.judge(server.address).expect("every key can be read");
    figures.lost += verdict.lost.len() as u64;
    if !verdict.lost.is_empty() || !verdict.unexpected.is_empty() {
        figures.print();
    }
    verdict.must_be_clean();
}
