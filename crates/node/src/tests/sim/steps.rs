//! The threads of a node, step by step: the log writer and the round of maintenance, with whatever
//! else happens between any two steps of theirs; and disks that hang.
//!
//! The steps are the product's own. When each is taken is drawn from a sequence of its own, so
//! that what else is drawn does not depend on them.

use super::node::SimNode;
use super::world::{Era, Event, World};
use crate::flush::FlushStep;
use base::LogIndex;
use runtime::log_writer::{self, store_error};

/// From one round of maintenance anywhere to the next, microseconds.
const ROUNDS_US: (u64, u64) = (20_000, 400_000);
/// A driver that is waited for is looked at so often, microseconds.
const LOOK_US: u64 = 500;
/// A process that was killed behind a round of maintenance begins again after this, microseconds.
const AGAIN_US: u64 = 100_000;
/// For so long a disk hangs, microseconds.
const HANGS_US: (u64, u64) = (200_000, 6_000_000);
/// For so long it hangs at the end of a history, and so long nobody's writes may stop,
/// microseconds: two leases until it is noticed, an election, and twice the two seconds that a
/// client waits for an answer of a node that gives none. There are few clients: all of them may
/// wait there, go to another node that does not know of the new master yet, and wait again. What is
/// left is for the way.
const LAST_HANG_US: u64 = 8_000_000;
const GAP_US_MAX: u64 = 6_500_000;
/// So often it is looked at that time, microseconds.
const LOOKS_US: u64 = 20_000;

impl SimNode {
    /// When a step can be taken that is due now; a call of a disk that hangs returns later.
    fn can_step_at(&self, now: u64, asks_disk: bool) -> u64 {
        let hangs_until = if asks_disk { self.hangs_until } else { 0 };
        self.clock.paused_until.max(hangs_until).max(now)
    }
}

impl World {
    /// Mostly the next step follows at once; sometimes the thread is not given a processor for a
    /// while.
    fn gap(&mut self) -> u64 {
        match self.steps.below(8) {
            0 | 1 => self.steps.below(30_000),
            2 | 3 => self.steps.below(2_000),
            _ => 0,
        }
    }

    /// The disk is done, or the log writer's thread goes on.
    pub(super) fn writer_steps(&mut self, which: usize, number: u64) {
        let now = self.queue.now();
        let node = &mut self.nodes[which];
        let returns = match &node.process {
            Some(process) if process.number == number && !process.writer.rests() => {
                node.can_step_at(now, process.writer.asks_disk())
            }
            _ => return,
        };
        if returns > now {
            return self.at(returns - now, Event::Written { node: which, process: number });
        }
        node.clock.enter(now);
        let process = node.process.as_mut().expect("looked at");
        let step = process.write();
        let (rests, asks_disk) = (process.writer.rests(), process.writer.asks_disk());
        match step {
            Ok(log_writer::WriterStep::Full) => {
                return self.keeps(which, Err(store::StoreError::Full));
            }
            Ok(_) => {}
            Err(error) => return self.fails(which, &store_error(error)),
        }
        if rests {
            return self.wake(which, 0);
        }
        // A group that was told goes on; what the disk is asked next takes its time.
        self.wake(which, 0);
        let gap = self.gap() + if asks_disk { self.steps.between(100, 3_000) } else { 0 };
        self.at(gap, Event::Written { node: which, process: number });
    }

    /// A round of maintenance begins somewhere, now and then.
    pub(super) fn housekeeping(&mut self) {
        let pause = self.steps.between(ROUNDS_US.0, ROUNDS_US.1);
        self.at(pause, Event::Housekeeping);
        let which = self.steps.below(self.nodes.len() as u64) as usize;
        // Seldom is the log kept for others: who lags needs a snapshot then.
        let keep = (0..self.judges.len()).map(|group| {
            let applied = |node: &SimNode| Some(node.process.as_ref()?.applied(group));
            self.nodes.iter().filter_map(applied).min().unwrap_or_default()
        });
        let keep: Vec<_> = keep.collect();
        let keeps = self.steps.often(300);
        self.begin_flush(which, keeps.then_some(&keep[..]));
    }

    /// A round of maintenance begins, unless one is under way.
    pub(super) fn begin_flush(&mut self, which: usize, keep: Option<&[LogIndex]>) {
        let node = &mut self.nodes[which];
        let trees = node.trees.clone();
        let Some(process) = node.process.as_mut().filter(|process| process.flush.is_none()) else {
            return;
        };
        process.begin_flush(trees, keep);
        let number = process.number;
        self.journal.count("maintenance");
        self.at(0, Event::Maintains { node: which, process: number });
    }

    /// The housekeeper's thread goes on.
    pub(super) fn maintains(&mut self, which: usize, number: u64) {
        let now = self.queue.now();
        let node = &mut self.nodes[which];
        let returns = node.can_step_at(now, true);
        let Some(process) = node.process.as_mut().filter(|process| process.number == number) else {
            return;
        };
        if returns > now {
            return self.at(returns - now, Event::Maintains { node: which, process: number });
        }
        let Some(flush) = &mut process.flush else { return };
        let step = flush.step();
        match step {
            Ok(FlushStep::Ended) => {
                process.flush = None;
                // What is applied by now, and not durable, is in the log alone, which is truncated.
                if self.troubled && self.steps.often(50) {
                    let soon = self.steps.below(30_000);
                    self.at(soon, Event::Falls { node: which, process: number });
                }
                self.wake(which, 0)
            }
            Ok(FlushStep::Waits) => {
                self.wake(which, 0);
                self.at(LOOK_US, Event::Maintains { node: which, process: number });
            }
            Ok(FlushStep::Went) => {
                let gap = self.gap();
                self.at(gap, Event::Maintains { node: which, process: number });
            }
            Err(error) => self.fails(which, &error),
        }
    }

    /// A process is killed behind a round of maintenance.
    pub(super) fn falls(&mut self, which: usize, number: u64) {
        let lives =
            |node: &SimNode| node.process.as_ref().is_some_and(|process| process.number == number);
        if self.troubled && lives(&self.nodes[which]) {
            self.nodes[which].is_killed(&mut self.chance);
            self.at(AGAIN_US, Event::Starts(which));
            self.journal.count("fall");
        }
    }

    /// A disk answers nothing for a while.
    pub(super) fn hangs(&mut self, which: usize) -> &'static str {
        let time = self.steps.between(HANGS_US.0, HANGS_US.1);
        self.nodes[which].hangs_until = self.queue.now() + time;
        "hang"
    }

    /// Whether a group can do without a node: enough others vote to elect one, and to save a value,
    /// and one of them may lead.
    fn can_spare(&self, group: usize, which: usize) -> bool {
        let Some(master) = self.master(group).and_then(|master| self.process(master)) else {
            return false;
        };
        let configuration = master.group(group).configuration();
        let node = self.nodes[which].id;
        let others: Vec<_> = configuration.voters().filter(|voter| *voter != node).collect();
        let needed = configuration.quorums().most();
        let leads = others.iter().any(|voter| configuration.leads(*voter));
        leads && others.len() >= needed
    }

    /// After all trouble one disk hangs, mostly a master's: writes go on in every group that can do
    /// without it, and who has it leads none of those by then.
    pub(super) fn lives_through_a_hang(&mut self) {
        if self.era < Era::Stepped {
            return;
        }
        self.becomes_level();
        let group = self.steps.below(self.judges.len() as u64) as usize;
        let which = match self.master(group).filter(|_| self.steps.often(700)) {
            Some(master) => master,
            None => self.steps.below(self.nodes.len() as u64) as usize,
        };
        let groups = (0..self.judges.len()).filter(|group| self.can_spare(*group, which));
        let groups: Vec<_> = groups.collect();
        let begin = self.queue.now();
        self.nodes[which].hangs_until = begin + LAST_HANG_US;
        self.tell(|| format!("the disk of {} hangs", which + 1));
        self.wrote_at.iter_mut().for_each(|at| *at = begin);
        while self.queue.now() + LOOKS_US < begin + LAST_HANG_US {
            self.run(LOOKS_US);
            for group in &groups {
                let gap = self.queue.now() - self.wrote_at[*group];
                assert!(gap < GAP_US_MAX, "no write of group {group} for {gap} us: a disk hangs");
            }
        }
        let leads =
            |group: &usize| self.process(which).is_some_and(|process| process.leads(*group));
        assert!(!groups.iter().any(leads), "it leads, and its disk hangs");
        self.nodes[which].clock.enter(self.queue.now());
        let hangs = self
            .process(which)
            .is_some_and(|process| process.log_writer.hangs(super::node::LEASE_MS));
        let name = if hangs { "hung at the end" } else { "nothing to write at the end" };
        self.journal.count(name);
        self.journal.add("spared", groups.len() as u64);
    }
}
