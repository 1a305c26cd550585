//! Fault injection of simulated groups.

use super::node::{GroupsProcess, SimNode};
use super::world::{Era, Event, World};
use base::{ConfigurationId, LogIndex, Part};
use logic::consensus::{Configuration, Member};
use sim::directions_between;

impl World {
    pub(super) fn fault(&mut self) {
        if !self.has_faults {
            return;
        }
        let pause = self.chance.between(50_000, 1_500_000);
        self.at(pause, Event::Fault);
        self.draw_link_ends();
        let nth = self.victim();
        let time = self.chance.between(20_000, 3_000_000);
        let own = self.flavour_fault(nth, time);
        if let Some(name) = own {
            self.journal.count(name);
            return;
        }
        let kind = self.chance.below(match self.era {
            Era::Reliable => 11,
            Era::Whole => 15,
            Era::Stepped => 17,
        });
        let name = match kind {
            0 | 1 => self.crash(nth, time),
            2 => {
                self.nodes[nth].clock.paused_until = self.queue.now() + time;
                "pause"
            }
            3 => self.isolate(nth, time),
            4 => self.cut_direction(nth, time),
            5 => {
                let half = self.chance.next_u64();
                self.split(half, time)
            }
            6 => {
                self.nodes[nth].slow_disk = !self.nodes[nth].slow_disk;
                "slow disk"
            }
            7 => {
                self.hand_over(nth);
                "hand over"
            }
            8 => {
                self.reconfigure();
                "members"
            }
            9 if self.chance.draw_bool(200) => {
                (0..self.nodes.len()).for_each(|nth| {
                    self.lose_power(nth, time);
                });
                "all crash"
            }
            10 if !self.older => {
                self.kill(nth);
                self.at(time, Event::Starts(nth));
                "kill"
            }
            11..=13 => self.inject_disk_error(nth),
            15.. => self.hangs(nth),
            _ => {
                self.flush(nth);
                "flush"
            }
        };
        self.tell(|| format!("fault: {name} {} for {time} us", nth + 1));
        self.journal.count(name);
    }

    /// Draws the node that a fault hits: half of the time a master, where it hurts most.
    fn victim(&mut self) -> usize {
        let group = self.any_group();
        match self.master(group) {
            Some(master) if self.chance.draw_bool(500) => master,
            _ => self.chance.below(self.nodes.len() as u64) as usize,
        }
    }

    pub(super) fn lose_power(&mut self, nth: usize, time: u64) {
        match self.nodes[nth].process.is_some() || self.older {
            true => self.nodes[nth].crash(&mut self.chance),
            false => self.nodes[nth].lose_unsynced(&mut self.chance),
        }
        self.at(time, Event::Starts(nth));
    }

    fn crash(&mut self, nth: usize, time: u64) -> &'static str {
        self.lose_power(nth, time);
        // Damage at one node at a time: others must have what it loses.
        if self.nodes.iter().any(|node| node.rot.is_some()) || !self.chance.draw_bool(200) {
            return "crash";
        }
        let whole = |node: &SimNode| node.process.as_ref().is_some_and(GroupsProcess::is_whole);
        let mut others = self.nodes.iter().enumerate().filter(|(other, _)| *other != nth);
        let sole = !self.older && others.all(|(_, node)| whole(node)) && self.others_vote();
        self.nodes[nth].rots(&mut self.chance, sole).unwrap_or("crash")
    }

    /// Returns true if more than one voter saves each value in every group. A value saved at a
    /// single voter would be lost with its disk. False also where members have changed: a sole
    /// voter that loses the stop-sign would continue in the previous configuration.
    fn others_vote(&self) -> bool {
        let mut living = self.nodes.iter().filter_map(|node| node.process.as_ref()).peekable();
        living.peek().is_some()
            && living
                .flat_map(|process| &process.replicas)
                .map(|replica| replica.group.configuration())
                .all(|it| it.quorums().save > 1 && it.id() == ConfigurationId::default())
    }

    pub(super) fn cut(&mut self, from: usize, to: usize, time: u64) {
        self.cuts.cut(from, to);
        self.at(time, Event::Heals { from, to });
    }

    /// Isolates a node: nobody hears it, or it hears nobody, or both.
    fn isolate(&mut self, nth: usize, time: u64) -> &'static str {
        let way = if self.older { 2 } else { self.chance.below(4) };
        for other in 0..self.nodes.len() {
            if way != 0 {
                self.cut(nth, other, time);
            }
            if way != 1 {
                self.cut(other, nth, time);
            }
        }
        ["deaf", "mute", "isolated", "isolated"][way as usize]
    }

    /// Cuts one direction, or both, between two nodes that others still hear.
    fn cut_direction(&mut self, nth: usize, time: u64) -> &'static str {
        let other = self.chance.below(self.nodes.len() as u64) as usize;
        self.cut(nth, other, time);
        if self.older || self.chance.draw_bool(500) {
            return "one way cut";
        }
        self.cut(other, nth, time);
        "cut"
    }

    fn split(&mut self, half: u64, time: u64) -> &'static str {
        let one_way = !self.older && self.chance.draw_bool(250);
        let count = self.nodes.len();
        for (from, to) in directions_between(half, count) {
            if !one_way || half >> from & 1 == 1 {
                self.cut(from, to, time);
            }
        }
        if one_way { "one way split" } else { "split" }
    }

    fn hand_over(&mut self, to: usize) {
        let (successor, group) = (self.nodes[to].id, self.any_group());
        let Some(master) = self.master(group) else { return };
        self.nodes[master].clock.enter(self.queue.now());
        if let Some(process) = &self.nodes[master].process {
            // Fails if the target is no voter, or catches up too late.
            let _ = process.group(group).hand_over(successor);
        }
    }

    /// Adds a member, changes its part, or removes it; a majority always remains.
    fn reconfigure(&mut self) {
        let nth = self.chance.below(self.nodes.len() as u64) as usize;
        let group = self.any_group();
        let Some(master) = self.master(group) else { return };
        self.nodes[master].clock.enter(self.queue.now());
        let Some(process) = &self.nodes[master].process else { return };
        let group = process.group(group);
        let configuration = group.configuration();
        let waits = |node: &SimNode| node.witness && !configuration.is_voter(node.id);
        let nth = self.nodes.iter().position(waits).unwrap_or(nth);
        let node = self.nodes[nth].id;
        let mut members = configuration.members().to_vec();
        let voters = members.iter().filter(|member| member.part == Part::Voter).count();
        match members.iter().position(|member| member.node == node) {
            None => members.push(Member { node, part: Part::Learner }),
            Some(place) if members[place].part == Part::Learner => {
                let witness = self.nodes[nth].witness;
                members[place].part = if witness { Part::Witness } else { Part::Voter };
            }
            Some(_) if voters <= 3 => return,
            Some(place) => {
                members.remove(place);
            }
        }
        let number = configuration.id().0;
        let voters = members.iter().filter(|member| member.part.can_vote()).count();
        let quorum = [None, Some(2), Some(voters as u8 - 1)][number as usize % 3];
        let next = Configuration::new(ConfigurationId(number + 1), members.clone());
        let fits = next.and_then(|next| next.with_quorum(quorum)).is_ok();
        // Fails if another change is in progress.
        let _ = group.reconfigure(members, quorum.filter(|_| fits));
    }

    /// Makes a node's trees durable, and drops all log entries that the node itself does not need.
    pub(super) fn drop_entries(&mut self, nth: usize) {
        self.judge_applied(nth);
        if let Some(process) = &self.nodes[nth].process {
            for replica in &process.replicas {
                replica.group.state().entries.release_applied(replica.group.applied.index(), true);
            }
        }
        self.nodes[nth].clock.enter(self.queue.now());
        self.begin_flush(nth, None);
    }

    /// Makes a node's trees durable and truncates its log: as far as no member will ask for it, or
    /// as far as the node itself needs it; the others then need a snapshot.
    fn flush(&mut self, nth: usize) {
        let held = |node: &SimNode, group: usize| {
            node.process.as_ref().map_or(LogIndex(0), |process| process.applied(group))
        };
        let keeps = self.chance.draw_bool(500);
        let keep = (0..self.judges.len()).map(|group| match keeps {
            true => self.nodes.iter().map(|node| held(node, group)).min().unwrap_or_default(),
            false => held(&self.nodes[nth], group),
        });
        let keep: Vec<_> = keep.collect();
        self.judge_applied(nth);
        if let (false, Some(process)) = (keeps, &self.nodes[nth].process) {
            for (replica, keep) in process.replicas.iter().zip(&keep) {
                replica.group.state().entries.release_applied(*keep, true);
            }
        }
        self.nodes[nth].clock.enter(self.queue.now());
        if self.queue.now() < self.nodes[nth].clock.paused_until {
            return;
        }
        if self.era == Era::Stepped {
            return self.begin_flush(nth, Some(&keep));
        }
        match self.nodes[nth].flush(&keep) {
            Ok(true) => {
                if let Err(error) = self.nodes[nth].finish_writes() {
                    self.on_write_result(nth, Err(error));
                }
            }
            Ok(false) => {}
            Err(error) => self.fail_node(nth, &error),
        }
    }

    /// Ends the trouble: all nodes run, are linked, and have fast disks.
    pub(super) fn heal(&mut self) {
        self.has_faults = false;
        self.cuts.heal();
        for nth in 0..self.nodes.len() {
            self.nodes[nth].slow_disk = false;
            self.nodes[nth].hangs_until = self.queue.now();
            self.nodes[nth].disk.clear_faults();
            self.nodes[nth].clock.paused_until = self.queue.now();
            // Disk calls that hung return now.
            if let Some(process) = self.nodes[nth].process.as_ref().map(|process| process.number) {
                self.at(0, Event::Written { node: nth, process });
                self.at(0, Event::Maintains { node: nth, process });
            }
            self.at(1_000, Event::Starts(nth));
            self.at(2_000, Event::Turn(nth));
            self.nodes[nth].next_turn = self.queue.now() + 2_000;
        }
    }
}
