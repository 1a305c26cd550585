//! Small cases of log writer, maintenance, driver and clients as threads, in many interleavings: the
//! product's own loops, of which one runs at a time (`sync/turns.rs`).

use super::truncation::Sole;
use crate::flaws::{BROKEN, Flaw};
use crate::flush::Step;
use crate::sync::{Turns, point};
use crate::world::SIMULATED;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Interleavings in every run.
const SEEDS: u64 = 300;
/// Values of a case: more than a segment holds.
const VALUES: usize = 6;
/// Rounds of maintenance.
const ROUNDS: usize = 2;
/// Time stands still: one seed is one interleaving.
const NOW_NS: u64 = 1_000_000_000_000;

/// Values are written, decided and acknowledged while the log is truncated; then the process is
/// killed. Whether the next start finds all of them.
fn acknowledged_while_truncated(seed: u64, flaw: Option<Flaw>) {
    let here = || {
        SIMULATED.set(Some(NOW_NS));
        BROKEN.set(flaw);
    };
    here();
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let (sole, writer) = (&sole, &mut writer);
    let (acknowledged, rounds) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let log_writer = move || {
        here();
        let keeper = sole.inner.keeper.clone();
        keeper.run(writer, &sole.post).expect("a disk without faults");
        keeper.has_stopped();
    };
    let driver = move || {
        here();
        let done = |counter: &AtomicUsize, all| counter.load(Ordering::Acquire) == all;
        while !done(acknowledged, VALUES) || !done(rounds, ROUNDS) {
            sole.turn();
            point();
        }
        sole.inner.keeper.stop();
    };
    let maintenance = move || {
        here();
        for _ in 0..ROUNDS {
            let mut flush = sole.flush();
            while flush.step().expect("memory") != Step::Ended {
                point();
            }
            rounds.fetch_add(1, Ordering::AcqRel);
        }
    };
    let client = move || {
        here();
        for n in 0..VALUES {
            let ticket = sole.submit(n);
            // Pairs of values are under way together.
            while n % 2 == 1 && !sole.has(ticket) {
                point();
            }
            acknowledged.fetch_add(1, Ordering::AcqRel);
        }
    };
    Turns::play(
        seed,
        vec![Box::new(log_writer), Box::new(driver), Box::new(maintenance), Box::new(client)],
    );
    let found = sole.starts_again().expect("acknowledged writes are lost");
    let last = sole.group.applied.index();
    assert_eq!(found, last, "what was applied is found again");
}

fn clean_up() {
    SIMULATED.set(None);
    BROKEN.set(None);
}

#[test]
fn acknowledged_values_survive_truncation_in_every_interleaving() {
    (0..SEEDS).for_each(|seed| acknowledged_while_truncated(seed, None));
    clean_up();
}

#[test]
fn truncation_past_unprocessed_records_shows_in_some_interleaving() {
    let flaw = Some(Flaw::TruncatesUnprocessed);
    let fails = |seed: &u64| {
        catch_unwind(AssertUnwindSafe(|| acknowledged_while_truncated(*seed, flaw))).is_err()
    };
    let seed = (0..SEEDS).find(fails);
    clean_up();
    println!("TruncatesUnprocessed: interleaving {seed:?}");
    assert!(seed.is_some(), "a broken rule is not noticed");
}
