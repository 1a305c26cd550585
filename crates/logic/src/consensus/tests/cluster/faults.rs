//! Fault injection: draws faults and repairs, and schedules them.

use super::world::{FaultRates, SimEvent, World};
use crate::consensus::{Configuration, Effect, Event, Member, Role};
use base::{NodeId, Part};
use sim::{FaultProfile, directions_between, directions_from, directions_to};

impl World {
    /// Injects or repairs one fault, and schedules the next.
    pub fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let count = self.nodes.len() as u64;
        let node = self.chance.below(count) as usize;
        match self.chance.below(21) {
            0 | 1 => self.crash_for_a_while(node),
            2 => {
                let masters = self.masters();
                self.crash_for_a_while(masters.first().copied().unwrap_or(node));
            }
            3 => {
                let time = self.chance.between(10, 2_500);
                self.pause(node, time);
            }
            4 => self.partition(),
            5 => self.isolate_one_way(node),
            6 => self.cut_one_link(node),
            7 | 8 => self.mend(),
            9 => self.change_rates(),
            10 => {
                if self.nodes[node].up {
                    self.run_maintenance(node);
                }
            }
            11 => self.hand_over(node),
            12 if self.chance.draw_bool(100) && !self.changes_members => self.wipe(node),
            12 => self.crash_all(),
            13..=16 => self.isolate_master(node),
            17 | 18 => self.propose_members(),
            19 => self.end_links(node),
            _ => self.retire(node),
        }
        let delay = self.chance.between(20, 700);
        self.after(delay, SimEvent::Fault);
    }

    pub fn crash_for_a_while(&mut self, node: usize) {
        let longest = if self.chance.draw_bool(500) { 40 } else { 3_000 };
        self.crash(node);
        let (incarnation, delay) = (self.nodes[node].incarnation, self.chance.between(1, longest));
        self.after(delay, SimEvent::Restart { node, incarnation });
    }

    /// May crash a node that has just adopted a log or become master.
    pub fn crash_if_promoted(&mut self, node: usize) {
        let is_promoted = self.nodes[node].machine.effects.iter().any(|effect| {
            matches!(effect, Effect::Adopt { .. } | Effect::Role { role: Role::Master, .. })
        });
        if is_promoted && !self.is_calm && self.chance.draw_bool(self.rates.crash_promoted) {
            let (incarnation, delay) = (self.nodes[node].incarnation, self.chance.between(0, 40));
            self.after(delay, SimEvent::Crash { node, incarnation });
        }
    }

    /// Ends the connections of a node, which lives on, with all others: both sides learn it.
    fn end_links(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            self.report_link_end(node, other);
            self.report_link_end(other, node);
        }
    }

    /// Lets a node learn that its connection with another one ended.
    pub fn report_link_end(&mut self, node: usize, other: usize) {
        let (low, high) = self.rates.network.delay;
        let delay = self.chance.between(low, high);
        self.after(delay, SimEvent::LinkEnd { node, other });
    }

    /// Passes the end of a connection to its node.
    pub fn link_ends(&mut self, node: usize, other: usize) {
        if !self.nodes[node].up {
            return;
        }
        if self.is_paused(node) {
            let delay = self.nodes[node].clock.paused_until - self.now();
            return self.after(delay, SimEvent::LinkEnd { node, other });
        }
        self.journal.count("links ended");
        let (other, now) = (self.nodes[other].identity.node, self.clock(node));
        self.step(node, Event::LinkEnded { node: other, now });
    }

    /// Isolates or pauses the master while clients still reach it. It returns at about the time
    /// when others have elected a new one; some of those may have been restarted.
    fn isolate_master(&mut self, other: usize) {
        let master = self.masters().first().copied().unwrap_or(other);
        let length = self.nodes[master].identity.lease.length.0;
        let until = self.chance.between(length / 2, length * 4);
        if self.chance.draw_bool(200) {
            self.pause(master, until);
        } else {
            let count = self.nodes.len();
            self.cut(directions_from(master, count).chain(directions_to(master, count)));
            self.after(until, SimEvent::Mend);
        }
        // Something between the nodes ends their connections, and the master lives.
        if self.chance.draw_bool(500) {
            self.end_links(master);
        }
        if self.chance.draw_bool(400) {
            for node in (0..self.nodes.len()).filter(|node| *node != master) {
                self.crash_for_a_while(node);
            }
        }
    }

    /// Crashes all nodes, as a power failure of the whole site does.
    fn crash_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.crash_for_a_while(node);
        }
    }

    /// Partitions the nodes into two sides, and removes all other cuts.
    fn partition(&mut self) {
        let count = self.nodes.len();
        let half = (0..count).map(|node| u64::from(self.chance.draw_bool(400)) << node).sum();
        self.mend();
        self.cut(directions_between(half, count));
    }

    /// Cuts a node off in one direction: it can only receive, or only send.
    fn isolate_one_way(&mut self, node: usize) {
        let count = self.nodes.len();
        match self.chance.draw_bool(500) {
            true => self.cut(directions_to(node, count)),
            false => self.cut(directions_from(node, count)),
        }
    }

    /// Cuts both directions between two nodes, which produces chains and hubs.
    fn cut_one_link(&mut self, node: usize) {
        let other = self.chance.below(self.nodes.len() as u64) as usize;
        self.cut([(node, other), (other, node)].into_iter());
    }

    fn pause(&mut self, node: usize, time: u64) {
        self.nodes[node].clock.paused_until = self.now() + time;
    }

    /// Cuts directions, but never that from a node to itself.
    fn cut(&mut self, directions: impl Iterator<Item = (usize, usize)>) {
        directions.filter(|(from, to)| from != to).for_each(|(from, to)| self.cuts.cut(from, to));
    }

    pub fn mend(&mut self) {
        self.cuts.heal();
    }

    fn change_rates(&mut self) {
        let slow = self.chance.between(1, 60);
        let mut one_of = |choices: &[u64]| choices[self.chance.index(choices.len())];
        let (loss, duplicates) = (one_of(&[0, 0, 20, 150]), one_of(&[0, 50, 150]));
        let full = one_of(&[0, 0, 100]);
        let crash_promoted = one_of(&[0, 0, 100, 400]);
        let network = FaultProfile {
            loss,
            duplicates,
            delay: (1, slow),
            stragglers: one_of(&[0, 0, 10, 100]),
            straggler_delay: (100, 4_000),
            ..FaultProfile::default()
        };
        self.rates =
            FaultRates { network, full, crash_promoted, sync: (0, one_of(&[1, 5, 40, 300])) };
    }

    /// Proposes a random set of members in which at least one may lead and a majority is reachable
    /// in the end.
    fn propose_members(&mut self) {
        let Some(master) = self.masters().first().copied() else { return };
        if !self.changes_members {
            return;
        }
        let mut members = Vec::new();
        for place in 0..self.nodes.len() as u64 {
            let part = match self.chance.below(8) {
                0..=3 => Part::Voter,
                4 => Part::Witness,
                5 => Part::Learner,
                _ => continue,
            };
            members.push(Member { node: NodeId(place + 1), part });
        }
        if members.iter().any(|member| member.part.can_lead()) {
            self.reconfigure(master, members);
        }
    }

    fn hand_over(&mut self, to: usize) {
        if let Some(master) = self.masters().first().copied() {
            let now = self.clock(master);
            self.step(master, Event::HandOver { to: NodeId(to as u64 + 1), now });
        }
    }

    /// Stops a node gracefully: the process ends once nothing is in flight.
    fn retire(&mut self, node: usize) {
        if self.nodes[node].up {
            self.step(node, Event::Retire);
            if self.nodes[node].machine.replica.role() != Role::Master {
                self.crash_for_a_while(node);
            } else {
                // The node is killed if it does not end in time.
                self.pause(node, 0);
                let incarnation = self.nodes[node].incarnation;
                self.after(3_000, SimEvent::Restart { node, incarnation });
            }
        }
    }

    /// Ends all faults, and restarts every node.
    pub fn end_faults(&mut self) {
        self.is_calm = true;
        self.mend();
        self.rates = FaultRates::calm();
        for node in 0..self.nodes.len() {
            self.pause(node, 0);
            // A node that retired starts again.
            self.crash(node);
            self.start(node);
        }
    }
}

/// Returns the configuration with one of its permitted quorums, selected by `number`. `None`: with
/// a majority.
pub fn with_permitted_quorum(configuration: Configuration, number: Option<u64>) -> Configuration {
    let Some(number) = number else { return configuration };
    let with = |save| configuration.clone().with_quorum(Some(save)).ok();
    let permitted: Vec<_> = (1..=7).filter_map(with).collect();
    permitted
        .get((number % permitted.len().max(1) as u64) as usize)
        .cloned()
        .unwrap_or(configuration)
}
