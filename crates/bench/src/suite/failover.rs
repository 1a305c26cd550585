//! Failover: the longest time without an acknowledgement while the leader is killed.
//!
//! The clients are connected to the two processes that survive. Time is cut into pieces of
//! `report_interval`; the gap is the longest run of pieces without an acknowledgement, from the
//! kill on, so it is known to one piece.

use super::file::Server;
use super::point::run_from;
use super::results::Run;
use super::server::StartedServer;
use super::work::{Failover, failover_config};
use load_generator::drivers;
use load_generator::load::{self, ReportRow, RunObserver};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Name of the figure: the longest time without an acknowledgement, milliseconds.
pub const GAP: &str = "gap ms";

/// Observer of acknowledgements.
struct GapObserver {
    /// End of the part before the kill, seconds.
    kill_s: f64,
    /// End of the last piece with an acknowledgement, seconds.
    last_s: f64,
    longest_s: f64,
    /// True once a piece after the longest gap so far had an acknowledgement.
    is_over: bool,
}

impl GapObserver {
    fn new(kill_s: f64) -> GapObserver {
        GapObserver { kill_s, last_s: 0.0, longest_s: 0.0, is_over: false }
    }

    fn count(&mut self, elapsed_s: f64, window_s: f64, ok: u64) {
        let silent_until_s = if ok > 0 { elapsed_s - window_s } else { elapsed_s };
        let gap_s = silent_until_s - self.last_s;
        if silent_until_s > self.kill_s && gap_s > self.longest_s {
            self.longest_s = gap_s;
            self.is_over = false;
        }
        if ok > 0 {
            self.last_s = elapsed_s;
            self.is_over = true;
        }
    }
}

impl RunObserver for GapObserver {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        self.count(row.elapsed_s, row.window_s, row.ok());
        Ok(())
    }
}

/// Runs the load, kills the leader meanwhile, and returns the gap as a figure.
pub fn run(
    work: &Failover,
    server: &Server,
    started: &mut StartedServer,
    (clients, core): (usize, Option<usize>),
) -> Result<Run, String> {
    let metric = server.leader_metric.as_deref().unwrap_or_default();
    let leader = started.find_leader(metric)?;
    let config = failover_config(work, server, clients, &started.placeholders, core)?;
    let target = drivers::prepare(&config.driver).map_err(|error| error.text)?;
    let after = config.warm_up + work.after;
    let mut observer = GapObserver::new(work.after.as_secs_f64());
    let stop = AtomicBool::new(false);
    let collected = std::thread::scope(|threads| {
        let load = threads.spawn(|| load::run(&config, &*target, &stop, &mut observer));
        std::thread::sleep(after.max(Duration::from_millis(1)));
        started.kill(leader);
        load.join()
    });
    let collected = collected.map_err(|_| "the load's thread panicked".to_string())?;
    let collected = collected.map_err(|error| error.text)?;
    if !observer.is_over {
        return Err("nothing was acknowledged after the kill: give the load more time".into());
    }
    let mut run = run_from(&collected);
    run.figures.insert(GAP.into(), observer.longest_s * 1000.0);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the longest gap of pieces of 10 ms, given as numbers of acknowledgements, and
    /// whether it is over.
    fn gap_ms(kill_s: f64, pieces: &[u64]) -> (f64, bool) {
        let mut observer = GapObserver::new(kill_s);
        for (index, ok) in pieces.iter().enumerate() {
            observer.count((index + 1) as f64 * 0.01, 0.01, *ok);
        }
        ((observer.longest_s * 1000.0).round(), observer.is_over)
    }

    #[test]
    fn gap_is_the_longest_silence_after_the_kill() {
        assert_eq!(gap_ms(0.02, &[1, 1, 0, 0, 0, 1, 0, 1]), (30.0, true));
        // A silence before the kill does not count, one that spans it does.
        assert_eq!(gap_ms(0.05, &[1, 0, 0, 1, 1, 0, 1]), (10.0, true));
        assert_eq!(gap_ms(0.03, &[1, 1, 0, 0, 1]), (20.0, true));
        assert_eq!(gap_ms(0.01, &[1, 1, 1]), (0.0, true));
    }

    #[test]
    fn gap_without_a_later_acknowledgement_is_not_over() {
        assert_eq!(gap_ms(0.01, &[1, 0, 0]), (20.0, false));
    }
}
