//! Time line of a soak: the faults with their times, what each cost clients, and the longest pauses
//! of all with the active faults.

use super::faults::{ALL, Fault};
use super::hostile;
use super::{PAUSE_MAX_S, PAUSE_OF_TWO_MAX_S, SPAN_SECONDS, mib};
use std::time::Duration;
use systest::probes::{Pause, ProbeResults};
use systest::report::{BoundChecks, Figures, print_line};

/// Number of the longest pauses that are printed.
const PRINTED_PAUSES: usize = 5;

/// Faults that were active together.
struct SoakRound {
    faults: Vec<Fault>,
    from: Duration,
    /// Time at which the faults were undone.
    ended: Duration,
    /// Time at which every node served again.
    to: Duration,
    /// Nodes that could not serve because of the faults' nature, from 1.
    victims: Vec<usize>,
    /// True if a majority was healthy all the time.
    has_majority: bool,
}

/// All rounds of a soak, in order.
#[derive(Default)]
pub struct Timeline {
    rounds: Vec<SoakRound>,
    /// Memory of the largest node over time, bytes.
    pub memory: Vec<(Duration, u64)>,
}

impl Timeline {
    /// Adds a round: its beginning, its end, and the time at which all nodes served again.
    pub fn add(
        &mut self,
        faults: &[Fault],
        (from, ended, to): (Duration, Duration, Duration),
        victims: Vec<usize>,
        has_majority: bool,
    ) {
        let faults = faults.to_vec();
        let round = SoakRound { faults, from, ended, to, victims, has_majority };
        print_line(&format!("  {}", round.describe()));
        self.rounds.push(round);
    }

    /// Returns the number of rounds with this fault.
    pub fn count(&self, fault: Fault) -> usize {
        self.rounds.iter().flat_map(|round| &round.faults).filter(|one| **one == fault).count()
    }

    /// Returns true if no fault was active in this second of the probes' clock.
    pub fn is_fault_free(&self, second: u64) -> bool {
        let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
        !self.rounds.iter().any(|round| round.from < to && from < round.to)
    }

    /// Prints the longest pause of each round, and the longest of all.
    pub fn print(&self, probes: &ProbeResults, nodes: usize) {
        let mut pauses: Vec<_> =
            self.rounds.iter().map(|round| (round.pause(probes, nodes), round)).collect();
        for (pause, round) in &pauses {
            let note = if round.has_majority { "" } else { " (no majority)" };
            print_line(&format!("  {} pause {:.2} s{note}", round.describe(), seconds(pause)));
        }
        pauses.retain(|(_, round)| round.has_majority);
        pauses.sort_by_key(|(pause, _)| std::cmp::Reverse(pause.length));
        for (pause, round) in pauses.iter().take(PRINTED_PAUSES) {
            let (length, from) = (seconds(pause), pause.from.as_secs_f64());
            print_line(&format!(
                "  longest: {length:.2} s at node {} from {from:.1} s: {}; refusals {:?}",
                pause.node,
                round.describe(),
                probes.refusals(pause)
            ));
        }
    }

    /// Adds the number of rounds of each fault to the figures.
    pub fn figures(&self, figures: &mut Figures) {
        for fault in ALL {
            if self.count(fault) > 0 {
                figures.add(&fault.name().replace(' ', "_"), self.count(fault));
            }
        }
    }

    /// Checks pauses against their bounds.
    pub fn bounds(
        &self,
        checks: &mut BoundChecks,
        name: &str,
        probes: &ProbeResults,
        nodes: usize,
    ) {
        for round in self.rounds.iter().filter(|round| round.has_majority) {
            let is_single = round.faults.len() == 1 && !round.faults[0].is_repeated();
            let limit = if is_single { PAUSE_MAX_S } else { PAUSE_OF_TWO_MAX_S };
            let bound_name = format!("{name}: pause, s: {}", round.describe());
            checks.check(&bound_name, seconds(&round.pause(probes, nodes)), limit);
            if round.faults == [Fault::Hostile] {
                let all_nodes: Vec<_> = (1..=nodes).collect();
                hostile::print_latency_of_others(
                    name,
                    probes.latency(&all_nodes, (round.from, round.ended), 990),
                );
            }
        }
    }

    /// Checks that memory does not accumulate: by medians, for the largest value only says which
    /// hostile request was sent last.
    pub fn check_memory_growth(&self, checks: &mut BoundChecks, name: &str) {
        let spans = self.memory.chunk_by(|(a, _), (b, _)| span_of(*a) == span_of(*b));
        let spans: Vec<_> = spans.map(|span| format!("{:.0}", mib(median(span)))).collect();
        let spans = spans.join(" ");
        print_line(&format!("{name}: median memory, MiB, by {SPAN_SECONDS} s: {spans}"));
        let (first, last) = self.memory.split_at(self.memory.len() / 2);
        let growth = median(last) / median(first);
        checks.check(&format!("{name}: median memory, second half to first"), growth, 1.2);
    }
}

/// Returns the number of the span in which a time lies.
fn span_of(time: Duration) -> usize {
    time.as_secs() as usize / SPAN_SECONDS
}

/// Returns the median number of bytes. 1: there is none.
fn median(values: &[(Duration, u64)]) -> f64 {
    let mut sorted: Vec<_> = values.iter().map(|(_, bytes)| *bytes).collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(1.0, |bytes| *bytes as f64)
}

impl SoakRound {
    fn describe(&self) -> String {
        let names: Vec<_> = self.faults.iter().map(|fault| fault.name()).collect();
        let victims =
            if self.victims.is_empty() { String::new() } else { format!(" {:?}", self.victims) };
        format!(
            "{:7.1}-{:.1}-{:.1} s {}{victims}",
            self.from.as_secs_f64(),
            self.ended.as_secs_f64(),
            self.to.as_secs_f64(),
            names.join(" + ")
        )
    }

    /// Returns the longest time without an acknowledged write at a node that the faults left
    /// healthy. After the faults were undone every node counts, except one that was started and
    /// does not serve yet.
    fn pause(&self, probes: &ProbeResults, nodes: usize) -> Pause {
        let healthy: Vec<_> = (1..=nodes).filter(|node| !self.victims.contains(node)).collect();
        probes.longest(&healthy, (self.from, self.to))
    }
}

fn seconds(pause: &Pause) -> f64 {
    pause.length.as_secs_f64()
}
