//! Time line of a soak: the faults with their times, what each cost clients, and the longest pauses
//! of all with the active faults.

use super::faults::{ALL, Fault};
use super::hostile;
use super::{PAUSE_MAX_S, PAUSE_OF_TWO_MAX_S};
use std::time::Duration;
use systest::probes::{Acknowledged, Pause};
use systest::report::{BoundChecks, Figures, say};

/// Number of the longest pauses that are printed.
const WORST: usize = 5;

/// Faults that were active together.
struct Turn {
    faults: Vec<Fault>,
    from: Duration,
    /// Time at which the faults were undone.
    mended: Duration,
    /// Time at which every node served again.
    to: Duration,
    /// Nodes that could not serve because of the faults' nature, from 1.
    hurt: Vec<usize>,
    /// True if a majority was healthy all the time.
    majority: bool,
}

/// All turns of a soak, in order.
#[derive(Default)]
pub struct Timeline {
    turns: Vec<Turn>,
    /// Memory of the largest node over time, bytes.
    pub memory: Vec<(Duration, u64)>,
}

impl Timeline {
    /// Adds a turn: its beginning, its end, and the time at which all nodes served again.
    pub fn add(
        &mut self,
        faults: &[Fault],
        (from, mended, to): (Duration, Duration, Duration),
        hurt: Vec<usize>,
        majority: bool,
    ) {
        let faults = faults.to_vec();
        let turn = Turn { faults, from, mended, to, hurt, majority };
        say(&format!("  {}", turn.line()));
        self.turns.push(turn);
    }

    /// Returns the number of turns with this fault.
    pub fn count(&self, fault: Fault) -> usize {
        self.turns.iter().flat_map(|turn| &turn.faults).filter(|one| **one == fault).count()
    }

    /// Returns true if no fault was active in this second of the probes' clock.
    pub fn is_calm(&self, second: u64) -> bool {
        let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
        !self.turns.iter().any(|turn| turn.from < to && from < turn.to)
    }

    /// Prints what each turn cost, and the longest pauses.
    pub fn print(&self, probes: &Acknowledged, nodes: usize) {
        let mut all: Vec<_> =
            self.turns.iter().map(|turn| (turn.pause(probes, nodes), turn)).collect();
        for (pause, turn) in &all {
            let word = if turn.majority { "" } else { " (no majority)" };
            say(&format!("  {} pause {:.2} s{word}", turn.line(), seconds(pause)));
        }
        all.retain(|(_, turn)| turn.majority);
        all.sort_by_key(|(pause, _)| std::cmp::Reverse(pause.length));
        for (pause, turn) in all.iter().take(WORST) {
            let (length, from) = (seconds(pause), pause.from.as_secs_f64());
            say(&format!(
                "  longest: {length:.2} s at node {} from {from:.1} s: {}; refusals {:?}",
                pause.node,
                turn.line(),
                probes.refusals(pause)
            ));
        }
    }

    /// Adds the number of turns of each fault to the figures.
    pub fn figures(&self, figures: &mut Figures) {
        for fault in ALL {
            if self.count(fault) > 0 {
                figures.also(&fault.name().replace(' ', "_"), self.count(fault));
            }
        }
    }

    /// Checks pauses against their bounds.
    pub fn bounds(
        &self,
        checks: &mut BoundChecks,
        name: &str,
        probes: &Acknowledged,
        nodes: usize,
    ) {
        for turn in self.turns.iter().filter(|turn| turn.majority) {
            let one = turn.faults.len() == 1 && !turn.faults[0].is_several();
            let limit = if one { PAUSE_MAX_S } else { PAUSE_OF_TWO_MAX_S };
            let what = format!("{name}: pause, s: {}", turn.line());
            checks.hold(&what, seconds(&turn.pause(probes, nodes)), limit);
            if turn.faults == [Fault::Hostile] {
                let all: Vec<_> = (1..=nodes).collect();
                hostile::felt(name, probes.latency(&all, (turn.from, turn.mended), 990));
            }
        }
    }
}

impl Turn {
    fn line(&self) -> String {
        let names: Vec<_> = self.faults.iter().map(|fault| fault.name()).collect();
        let hurt = if self.hurt.is_empty() { String::new() } else { format!(" {:?}", self.hurt) };
        format!(
            "{:7.1}-{:.1}-{:.1} s {}{hurt}",
            self.from.as_secs_f64(),
            self.mended.as_secs_f64(),
            self.to.as_secs_f64(),
            names.join(" + ")
        )
    }

    /// Returns the longest time without an acknowledged write at a node that the faults left
    /// healthy. After the faults were undone every node counts, except one that was started and
    /// does not serve yet.
    fn pause(&self, probes: &Acknowledged, nodes: usize) -> Pause {
        let whole: Vec<_> = (1..=nodes).filter(|node| !self.hurt.contains(node)).collect();
        probes.longest(&whole, (self.from, self.to))
    }
}

fn seconds(pause: &Pause) -> f64 {
    pause.length.as_secs_f64()
}
