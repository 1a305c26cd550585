//! Fault injection of simulated groups.

use super::node::{GroupsProcess, SimNode};
use super::world::{Era, Event, World};
use base::{ConfigurationId, LogIndex, Part};
use logic::consensus::{Configuration, Member};
use sim::ways_between;

impl World {
    pub(super) fn fault(&mut self) {
        if !self.troubled {
            return;
        }
        let pause = self.chance.between(50_000, 1_500_000);
        self.at(pause, Event::Fault);
        let which = self.victim();
        let time = self.chance.between(20_000, 3_000_000);
        let own = self.own_fault(which, time);
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
            0 | 1 => self.crash(which, time),
            2 => {
                self.nodes[which].clock.paused_until = self.queue.now() + time;
                "pause"
            }
            3 => self.isolate(which, time),
            4 => self.cut_one(which, time),
            5 => {
                let half = self.chance.next_u64();
                self.split(half, time)
            }
            6 => {
                self.nodes[which].slow_disk = !self.nodes[which].slow_disk;
                "slow disk"
            }
            7 => {
                self.hand_over(which);
                "hand over"
            }
            8 => {
                self.reconfigure();
                "members"
            }
            9 if self.chance.often(200) => {
                (0..self.nodes.len()).for_each(|which| {
                    self.loses_power(which, time);
                });
                "all crash"
            }
            10 if !self.older => {
                self.nodes[which].is_killed(&mut self.chance);
                self.at(time, Event::Starts(which));
                "kill"
            }
            11..=13 => self.disk_will_fail(which),
            15.. => self.hangs(which),
            _ => {
                self.flush(which);
                "flush"
            }
        };
        self.tell(|| format!("fault: {name} {} for {time} us", which + 1));
        self.journal.count(name);
    }

    /// Draws the node that a fault hits: half of the time a master, where it hurts most.
    fn victim(&mut self) -> usize {
        let group = self.any_group();
        match self.master(group) {
            Some(master) if self.chance.often(500) => master,
            _ => self.chance.below(self.nodes.len() as u64) as usize,
        }
    }

    pub(super) fn loses_power(&mut self, which: usize, time: u64) {
        match self.nodes[which].process.is_some() || self.older {
            true => self.nodes[which].crash(&mut self.chance),
            false => self.nodes[which].power_fails(&mut self.chance),
        }
        self.at(time, Event::Starts(which));
    }

    fn crash(&mut self, which: usize, time: u64) -> &'static str {
        self.loses_power(which, time);
        // Damage at one node at a time: others must have what it loses.
        if self.nodes.iter().any(|node| node.rot.is_some()) || !self.chance.often(200) {
            return "crash";
        }
        let whole = |node: &SimNode| node.process.as_ref().is_some_and(GroupsProcess::is_whole);
        let mut others = self.nodes.iter().enumerate().filter(|(other, _)| *other != which);
        let alone = !self.older && others.all(|(_, node)| whole(node)) && self.others_vote();
        self.nodes[which].rots(&mut self.chance, alone).unwrap_or("crash")
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
    fn isolate(&mut self, which: usize, time: u64) -> &'static str {
        let way = if self.older { 2 } else { self.chance.below(4) };
        for other in 0..self.nodes.len() {
            if way != 0 {
                self.cut(which, other, time);
            }
            if way != 1 {
                self.cut(other, which, time);
            }
        }
        ["deaf", "mute", "isolated", "isolated"][way as usize]
    }

    /// Cuts one direction, or both, between two nodes that others still hear.
    fn cut_one(&mut self, which: usize, time: u64) -> &'static str {
        let other = self.chance.below(self.nodes.len() as u64) as usize;
        self.cut(which, other, time);
        if self.older || self.chance.often(500) {
            return "one way cut";
        }
        self.cut(other, which, time);
        "cut"
    }

    fn split(&mut self, half: u64, time: u64) -> &'static str {
        let one_way = !self.older && self.chance.often(250);
        let count = self.nodes.len();
        for (from, to) in ways_between(half, count) {
            if !one_way || half >> from & 1 == 1 {
                self.cut(from, to, time);
            }
        }
        if one_way { "one way split" } else { "split" }
    }

    fn hand_over(&mut self, to: usize) {
        let (heir, group) = (self.nodes[to].id, self.any_group());
        let Some(master) = self.master(group) else { return };
        self.nodes[master].clock.enter(self.queue.now());
        if let Some(process) = &self.nodes[master].process {
            // Fails if the target is no voter, or catches up too late.
            let _ = process.group(group).hand_over(heir);
        }
    }

    /// Adds a member, changes its part, or removes it; a majority always remains.
    fn reconfigure(&mut self) {
        let which = self.chance.below(self.nodes.len() as u64) as usize;
        let group = self.any_group();
        let Some(master) = self.master(group) else { return };
        self.nodes[master].clock.enter(self.queue.now());
        let Some(process) = &self.nodes[master].process else { return };
        let group = process.group(group);
        let configuration = group.configuration();
        let waits = |node: &SimNode| node.witness && !configuration.votes(node.id);
        let which = self.nodes.iter().position(waits).unwrap_or(which);
        let node = self.nodes[which].id;
        let mut members = configuration.members().to_vec();
        let voters = members.iter().filter(|member| member.part == Part::Voter).count();
        match members.iter().position(|member| member.node == node) {
            None => members.push(Member { node, part: Part::Learner }),
            Some(place) if members[place].part == Part::Learner => {
                let witness = self.nodes[which].witness;
                members[place].part = if witness { Part::Witness } else { Part::Voter };
            }
            Some(_) if voters <= 3 => return,
            Some(place) => {
                members.remove(place);
            }
        }
        let number = configuration.id().0;
        let voters = members.iter().filter(|member| member.part.votes()).count();
        let quorum = [None, Some(2), Some(voters as u8 - 1)][number as usize % 3];
        let next = Configuration::new(ConfigurationId(number + 1), members.clone());
        let fits = next.and_then(|next| next.with_quorum(quorum)).is_ok();
        // Fails if another change is in progress.
        let _ = group.reconfigure(members, quorum.filter(|_| fits));
    }

    /// Makes a node's trees durable, and drops all log entries that the node itself does not need.
    pub(super) fn lets_go(&mut self, which: usize) {
        self.look_at_applied(which);
        if let Some(process) = &self.nodes[which].process {
            for replica in &process.replicas {
                replica.group.state().entries.land(replica.group.applied.index(), true);
            }
        }
        self.nodes[which].clock.enter(self.queue.now());
        self.begin_flush(which, None);
    }

    /// Makes a node's trees durable and truncates its log: as far as no member will ask for it, or
    /// as far as the node itself needs it; the others then need a snapshot.
    fn flush(&mut self, which: usize) {
        let held = |node: &SimNode, group: usize| {
            node.process.as_ref().map_or(LogIndex(0), |process| process.applied(group))
        };
        let keeps = self.chance.often(500);
        let keep = (0..self.judges.len()).map(|group| match keeps {
            true => self.nodes.iter().map(|node| held(node, group)).min().unwrap_or_default(),
            false => held(&self.nodes[which], group),
        });
        let keep: Vec<_> = keep.collect();
        self.look_at_applied(which);
        if let (false, Some(process)) = (keeps, &self.nodes[which].process) {
            for (replica, keep) in process.replicas.iter().zip(&keep) {
                replica.group.state().entries.land(*keep, true);
            }
        }
        self.nodes[which].clock.enter(self.queue.now());
        if self.queue.now() < self.nodes[which].clock.paused_until {
            return;
        }
        if self.era == Era::Stepped {
            return self.begin_flush(which, Some(&keep));
        }
        match self.nodes[which].flush(&keep) {
            Ok(true) => {
                if let Err(error) = self.nodes[which].written() {
                    self.keeps(which, Err(error));
                }
            }
            Ok(false) => {}
            Err(error) => self.fails(which, &error),
        }
    }

    /// Ends the trouble: all nodes run, are linked, and have fast disks.
    pub(super) fn heal(&mut self) {
        self.troubled = false;
        self.cuts.heal();
        for which in 0..self.nodes.len() {
            self.nodes[which].slow_disk = false;
            self.nodes[which].hangs_until = self.queue.now();
            self.nodes[which].disk.fail_no_more();
            self.nodes[which].clock.paused_until = self.queue.now();
            // Disk calls that hung return now.
            if let Some(process) = self.nodes[which].process.as_ref().map(|process| process.number)
            {
                self.at(0, Event::Written { node: which, process });
                self.at(0, Event::Maintains { node: which, process });
            }
            self.at(1_000, Event::Starts(which));
            self.at(2_000, Event::Turn(which));
            self.nodes[which].next_turn = self.queue.now() + 2_000;
        }
    }
}
