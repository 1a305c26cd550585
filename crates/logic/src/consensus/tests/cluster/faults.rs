//! What goes wrong, and when.

use super::world::{Item, Weather, World};
use crate::consensus::{Configuration, Effect, Event, Member, Role};
use base::{NodeId, Part};

impl World {
    /// One thing goes wrong, or gets well again, and the next is planned.
    pub fn fault(&mut self) {
        if self.peace {
            return;
        }
        let count = self.slots.len() as u64;
        let node = self.chance.below(count) as usize;
        match self.chance.below(20) {
            0 | 1 => self.crash_for_a_while(node),
            2 => {
                let masters = self.masters();
                self.crash_for_a_while(masters.first().copied().unwrap_or(node));
            }
            3 => self.slots[node].paused_until = self.now + self.chance.between(10, 2_500),
            4 => self.part(),
            5 => self.isolate_one_way(node),
            6 => self.cut_one_link(node),
            7 | 8 => self.mend(),
            9 => self.change_weather(),
            10 => {
                if self.slots[node].up {
                    self.keep_house(node);
                }
            }
            11 => self.hand_over(node),
            12 if self.chance.often(100) && !self.changing => self.wipe(node),
            12 => self.crash_all(),
            13..=16 => self.siege(node),
            17 | 18 => self.other_members(),
            _ => self.retire(node),
        }
        let pause = self.chance.between(20, 700);
        self.after(pause, Item::Fault);
    }

    pub fn crash_for_a_while(&mut self, node: usize) {
        let longest = if self.chance.often(500) { 40 } else { 3_000 };
        self.crash(node);
        let (life, pause) = (self.slots[node].life, self.chance.between(1, longest));
        self.after(pause, Item::Restart { node, life });
    }

    /// Whoever just adopted a log, or came into office, may die of it.
    pub fn murder(&mut self, node: usize) {
        let rises = self.slots[node].machine.effects.iter().any(|effect| {
            matches!(effect, Effect::Adopt { .. } | Effect::Role { role: Role::Master, .. })
        });
        if rises && !self.peace && self.chance.often(self.weather.murder) {
            let (life, pause) = (self.slots[node].life, self.chance.between(0, 40));
            self.after(pause, Item::Crash { node, life });
        }
    }

    /// The master is cut off, or sleeps, while clients still reach it; it comes back at about the
    /// time when others have found a new one. Some of those others may have been restarted.
    fn siege(&mut self, other: usize) {
        let master = self.masters().first().copied().unwrap_or(other);
        let length = self.slots[master].identity.lease.length.0;
        let until = self.chance.between(length / 2, length * 4);
        if self.chance.often(200) {
            self.slots[master].paused_until = self.now + until;
        } else {
            for place in 0..self.slots.len() {
                self.cut[place][master] = place != master;
                self.cut[master][place] = place != master;
            }
            self.after(until, Item::Mend);
        }
        if self.chance.often(400) {
            for node in (0..self.slots.len()).filter(|node| *node != master) {
                self.crash_for_a_while(node);
            }
        }
    }

    /// The building loses power.
    fn crash_all(&mut self) {
        for node in 0..self.slots.len() {
            self.crash_for_a_while(node);
        }
    }

    /// Two sides that don't hear each other.
    fn part(&mut self) {
        let sides: Vec<bool> = self.slots.iter().map(|_| self.chance.often(400)).collect();
        for (from, row) in self.cut.iter_mut().enumerate() {
            for (to, cut) in row.iter_mut().enumerate() {
                *cut = sides[from] != sides[to];
            }
        }
    }

    /// What it says, or what it should hear, is lost.
    fn isolate_one_way(&mut self, node: usize) {
        let speaks = self.chance.often(500);
        for other in 0..self.slots.len() {
            if speaks {
                self.cut[other][node] = other != node;
            } else {
                self.cut[node][other] = other != node;
            }
        }
    }

    /// Both ways between two nodes: chains and hubs come from this.
    fn cut_one_link(&mut self, node: usize) {
        let other = self.chance.below(self.slots.len() as u64) as usize;
        if other != node {
            self.cut[node][other] = true;
            self.cut[other][node] = true;
        }
    }

    pub fn mend(&mut self) {
        self.cut.iter_mut().flatten().for_each(|cut| *cut = false);
    }

    fn change_weather(&mut self) {
        let slow = self.chance.between(1, 60);
        self.weather = Weather {
            loss: [0, 0, 20, 150][self.chance.below(4) as usize],
            twice: [0, 50, 150][self.chance.below(3) as usize],
            full: [0, 0, 100][self.chance.below(3) as usize],
            delay: (1, slow),
            murder: [0, 0, 100, 400][self.chance.below(4) as usize],
            late: [0, 0, 10, 100][self.chance.below(4) as usize],
            sync: (0, [1, 5, 40, 300][self.chance.below(4) as usize]),
        };
    }

    /// Any set of members after any other, as long as somebody may lead and a majority can be had
    /// in the end.
    fn other_members(&mut self) {
        let Some(master) = self.masters().first().copied() else { return };
        if !self.changing {
            return;
        }
        let mut members = Vec::new();
        for place in 0..self.slots.len() as u64 {
            let part = match self.chance.below(8) {
                0..=3 => Part::Voter,
                4 => Part::Witness,
                5 => Part::Learner,
                _ => continue,
            };
            members.push(Member { node: NodeId(place + 1), part });
        }
        if members.iter().any(|member| member.part.leads()) {
            self.reconfigure(master, members);
        }
    }

    fn hand_over(&mut self, to: usize) {
        if let Some(master) = self.masters().first().copied() {
            let now = self.clock(master);
            self.step(master, Event::HandOver { to: NodeId(to as u64 + 1), now });
        }
    }

    /// A graceful stop: the process ends once nothing is in flight.
    fn retire(&mut self, node: usize) {
        if self.slots[node].up {
            self.step(node, Event::Retire);
            if self.slots[node].machine.replica.role() != Role::Master {
                self.crash_for_a_while(node);
            } else {
                // It is killed if it does not end in time.
                self.slots[node].paused_until = self.now;
                let life = self.slots[node].life;
                self.after(3_000, Item::Restart { node, life });
            }
        }
    }

    /// Everything works from now on.
    pub fn make_peace(&mut self) {
        self.peace = true;
        self.mend();
        self.weather = Weather { delay: (1, 3), sync: (0, 4), ..Weather::default() };
        for node in 0..self.slots.len() {
            self.slots[node].paused_until = self.now;
            // Whoever retired starts anew.
            self.crash(node);
            self.start(node);
        }
    }
}

/// The configuration with the quorum of this number, of those that it may have; no number: a
/// majority.
pub fn with_some_quorum(configuration: Configuration, number: Option<u64>) -> Configuration {
    let Some(number) = number else { return configuration };
    let with = |save| configuration.clone().with_quorum(Some(save)).ok();
    let sound: Vec<_> = (1..=7).filter_map(with).collect();
    sound.get((number % sound.len().max(1) as u64) as usize).cloned().unwrap_or(configuration)
}
