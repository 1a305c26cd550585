//! Threads of a node, step by step: the log writer and the round of maintenance, with other events
//! between any two of their steps; and disks that hang.
//!
//! The steps are the product's own. Their times are drawn from a random sequence of its own, so
//! that no other draw depends on them.

use super::node::SimNode;
use super::world::{Era, Event, World};
use base::LogIndex;
use replica_host::flush::FlushStep;
use runtime::log_writer::{self, store_error};

/// Interval between rounds of maintenance in the whole cluster, in microseconds.
const ROUNDS_US: (u64, u64) = (20_000, 400_000);
/// Interval at which maintenance checks a driver that it waits for, in microseconds.
const LOOK_US: u64 = 500;
/// Time until a process that was killed after a round of maintenance restarts, in microseconds.
const AGAIN_US: u64 = 100_000;
/// Time for which a disk hangs, in microseconds.
const HANGS_US: (u64, u64) = (200_000, 6_000_000);
/// Time for which a disk hangs at the end of a history, in microseconds. [`GAP_US_MAX`] bounds the
/// time without a write meanwhile: two leases until the hang is noticed, an election, and twice the
/// two seconds of a client's timeout. There are few clients: all of them may wait at the hanging
/// node, go to another one that does not know the new master yet, and wait again. The rest is for
/// messages.
const LAST_HANG_US: u64 = 8_000_000;
const GAP_US_MAX: u64 = 6_500_000;
/// Interval between checks during that time, in microseconds.
const LOOKS_US: u64 = 20_000;

impl SimNode {
    /// Returns the earliest time of a step that is due now. A call of a hanging disk returns later.
    pub(super) fn can_step_at(&self, now: u64, needs_disk: bool) -> u64 {
        let hangs_until = if needs_disk { self.hangs_until } else { 0 };
        self.clock.paused_until.max(hangs_until).max(now)
    }
}

impl World {
    /// Draws the time until a thread's next step: often 0; sometimes the thread gets no processor
    /// for a while.
    fn gap(&mut self) -> u64 {
        match self.steps.below(8) {
            0 | 1 => self.steps.below(30_000),
            2 | 3 => self.steps.below(2_000),
            _ => 0,
        }
    }

    /// Takes the next step of a log writer, if the disk is done and the thread runs.
    pub(super) fn writer_steps(&mut self, nth: usize, number: u64) {
        let now = self.queue.now();
        let node = &mut self.nodes[nth];
        let returns = match &node.process {
            Some(process) if process.number == number && !process.writer.is_between_rounds() => {
                node.can_step_at(now, process.writer.needs_disk())
            }
            _ => return,
        };
        if returns > now {
            return self.at(returns - now, Event::Written { node: nth, process: number });
        }
        node.clock.enter(now);
        let process = node.process.as_mut().expect("looked at");
        let step = process.write();
        let (rests, needs_disk) = (process.writer.is_between_rounds(), process.writer.needs_disk());
        match step {
            Ok(log_writer::WriterStep::Full) => {
                return self.on_write_result(nth, Err(store::StoreError::Full));
            }
            Ok(_) => {}
            Err(error) => return self.fail_node(nth, &store_error(error)),
        }
        if rests {
            return self.wake(nth, 0);
        }
        // A group that was notified goes on; the next disk call takes its time.
        self.wake(nth, 0);
        let gap = self.gap() + if needs_disk { self.steps.between(100, 3_000) } else { 0 };
        self.at(gap, Event::Written { node: nth, process: number });
    }

    /// Starts a round of maintenance at a random node, and schedules the next one.
    pub(super) fn housekeeping(&mut self) {
        let pause = self.steps.between(ROUNDS_US.0, ROUNDS_US.1);
        self.at(pause, Event::Housekeeping);
        let nth = self.steps.below(self.nodes.len() as u64) as usize;
        // The log is seldom kept for others, so that a lagging member needs a snapshot.
        let keep = (0..self.judges.len()).map(|group| {
            let applied = |node: &SimNode| Some(node.process.as_ref()?.applied(group));
            self.nodes.iter().filter_map(applied).min().unwrap_or_default()
        });
        let keep: Vec<_> = keep.collect();
        let keeps = self.steps.draw_bool(300);
        self.begin_flush(nth, keeps.then_some(&keep[..]));
    }

    /// Starts a round of maintenance, unless one is in progress.
    pub(super) fn begin_flush(&mut self, nth: usize, keep: Option<&[LogIndex]>) {
        let node = &mut self.nodes[nth];
        let trees = node.trees.clone();
        let Some(process) = node.process.as_mut().filter(|process| process.flush.is_none()) else {
            return;
        };
        process.begin_flush(trees, keep);
        let number = process.number;
        self.journal.count("maintenance");
        self.at(0, Event::Maintains { node: nth, process: number });
    }

    /// Takes the next step of a round of maintenance.
    pub(super) fn maintains(&mut self, nth: usize, number: u64) {
        let now = self.queue.now();
        let node = &mut self.nodes[nth];
        let returns = node.can_step_at(now, true);
        let Some(process) = node.process.as_mut().filter(|process| process.number == number) else {
            return;
        };
        if returns > now {
            return self.at(returns - now, Event::Maintains { node: nth, process: number });
        }
        let Some(flush) = &mut process.flush else { return };
        let step = flush.step();
        match step {
            Ok(FlushStep::Finished) => {
                process.flush = None;
                // Rows that are applied but not durable are in the log alone, which was truncated.
                if self.has_faults && self.steps.draw_bool(50) {
                    let soon = self.steps.below(30_000);
                    self.at(soon, Event::Falls { node: nth, process: number });
                }
                self.wake(nth, 0)
            }
            Ok(FlushStep::Blocked) => {
                self.wake(nth, 0);
                self.at(LOOK_US, Event::Maintains { node: nth, process: number });
            }
            Ok(FlushStep::Progressed) => {
                let gap = self.gap();
                self.at(gap, Event::Maintains { node: nth, process: number });
            }
            Err(error) => self.fail_node(nth, &error),
        }
    }

    /// Kills a process after a round of maintenance.
    pub(super) fn falls(&mut self, nth: usize, number: u64) {
        let is_alive =
            |node: &SimNode| node.process.as_ref().is_some_and(|process| process.number == number);
        if self.has_faults && is_alive(&self.nodes[nth]) {
            self.kill(nth);
            self.at(AGAIN_US, Event::Starts(nth));
            self.journal.count("fall");
        }
    }

    /// Lets a disk hang for a while.
    pub(super) fn hangs(&mut self, nth: usize) -> &'static str {
        let time = self.steps.between(HANGS_US.0, HANGS_US.1);
        self.nodes[nth].hangs_until = self.queue.now() + time;
        "hang"
    }

    /// Returns true if a group can do without a node: enough other voters to elect a master and to
    /// save an entry, and one of them may lead.
    fn can_spare(&self, group: usize, nth: usize) -> bool {
        let Some(master) = self.master(group).and_then(|master| self.process(master)) else {
            return false;
        };
        let configuration = master.group(group).configuration();
        let node = self.nodes[nth].id;
        let others: Vec<_> = configuration.voters().filter(|voter| *voter != node).collect();
        let needed = configuration.quorums().required_connected();
        let leads = others.iter().any(|voter| configuration.may_lead(*voter));
        leads && others.len() >= needed
    }

    /// Lets one disk hang after the trouble, mostly a master's. Asserts that writes go on in every
    /// group that can do without its node, which leads none of them at the end.
    pub(super) fn lives_through_a_hang(&mut self) {
        if self.era < Era::Stepped {
            return;
        }
        self.wait_until_level();
        let group = self.steps.below(self.judges.len() as u64) as usize;
        let nth = match self.master(group).filter(|_| self.steps.draw_bool(700)) {
            Some(master) => master,
            None => self.steps.below(self.nodes.len() as u64) as usize,
        };
        let groups = (0..self.judges.len()).filter(|group| self.can_spare(*group, nth));
        let groups: Vec<_> = groups.collect();
        let begin = self.queue.now();
        self.nodes[nth].hangs_until = begin + LAST_HANG_US;
        self.tell(|| format!("the disk of {} hangs", nth + 1));
        self.wrote_at.iter_mut().for_each(|at| *at = begin);
        while self.queue.now() + LOOKS_US < begin + LAST_HANG_US {
            self.run(LOOKS_US);
            for group in &groups {
                let gap = self.queue.now() - self.wrote_at[*group];
                assert!(gap < GAP_US_MAX, "no write of group {group} for {gap} us: a disk hangs");
            }
        }
        let leads = |group: &usize| self.process(nth).is_some_and(|process| process.leads(*group));
        assert!(!groups.iter().any(leads), "it leads, and its disk hangs");
        self.nodes[nth].clock.enter(self.queue.now());
        let hangs = self
            .process(nth)
            .is_some_and(|process| process.log_writer.is_hung(super::node::LEASE_MS));
        let name = if hangs { "hung at the end" } else { "nothing to write at the end" };
        self.journal.count(name);
        self.journal.add("spared", groups.len() as u64);
    }
}
