//! What goes wrong, and when.

use super::mate::{Life, Mate};
use super::world::{Era, Event, World};
use base::{ConfigurationId, LogIndex, Part};
use logic::consensus::{Configuration, Member};

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
            *self.counts.entry(name).or_default() += 1;
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
                self.mates[which].sleeps_until = self.now + time;
                "pause"
            }
            3 => self.isolate(which, time),
            4 => self.cut_one(which, time),
            5 => {
                let half = self.chance.next();
                self.split(half, time)
            }
            6 => {
                self.mates[which].slow_disk = !self.mates[which].slow_disk;
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
                (0..self.mates.len()).for_each(|which| {
                    self.loses_power(which, time);
                });
                "all crash"
            }
            10 if !self.older => {
                self.mates[which].is_killed(&mut self.chance);
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
        *self.counts.entry(name).or_default() += 1;
    }

    /// Mostly a master: there it hurts most.
    fn victim(&mut self) -> usize {
        let group = self.any_group();
        match self.master(group) {
            Some(master) if self.chance.often(500) => master,
            _ => self.chance.below(self.mates.len() as u64) as usize,
        }
    }

    pub(super) fn loses_power(&mut self, which: usize, time: u64) {
        match self.mates[which].life.is_some() || self.older {
            true => self.mates[which].crash(&mut self.chance),
            false => self.mates[which].power_fails(&mut self.chance),
        }
        self.at(time, Event::Starts(which));
    }

    fn crash(&mut self, which: usize, time: u64) -> &'static str {
        self.loses_power(which, time);
        // One at a time: others must have what it loses.
        if self.mates.iter().any(|mate| mate.rot.is_some()) || !self.chance.often(200) {
            return "crash";
        }
        let whole = |mate: &Mate| mate.life.as_ref().is_some_and(Life::is_whole);
        let mut others = self.mates.iter().enumerate().filter(|(other, _)| *other != which);
        let alone = !self.older && others.all(|(_, mate)| whole(mate)) && self.others_vote();
        self.mates[which].rots(&mut self.chance, alone).unwrap_or("crash")
    }

    /// Whether in every group more than one voter saves a value: what was saved at one only, its
    /// disk may lose for good. Not where members changed, either: a sole voter that loses the
    /// stop-sign goes on in the configuration before.
    fn others_vote(&self) -> bool {
        let mut living = self.mates.iter().filter_map(|mate| mate.life.as_ref()).peekable();
        living.peek().is_some()
            && living
                .flat_map(|life| &life.seats)
                .map(|seat| seat.group.configuration())
                .all(|it| it.quorums().save > 1 && it.id() == ConfigurationId::default())
    }

    pub(super) fn cut(&mut self, from: usize, to: usize, time: u64) {
        *self.cuts.entry((from, to)).or_default() += 1;
        self.at(time, Event::Heals { from, to });
    }

    /// Nobody hears a node, or it hears nobody, or both.
    fn isolate(&mut self, which: usize, time: u64) -> &'static str {
        let way = if self.older { 2 } else { self.chance.below(4) };
        for other in 0..self.mates.len() {
            if way != 0 {
                self.cut(which, other, time);
            }
            if way != 1 {
                self.cut(other, which, time);
            }
        }
        ["deaf", "mute", "isolated", "isolated"][way as usize]
    }

    /// Two that others hear do not hear each other; or one does not hear the other.
    fn cut_one(&mut self, which: usize, time: u64) -> &'static str {
        let other = self.chance.below(self.mates.len() as u64) as usize;
        self.cut(which, other, time);
        if self.older || self.chance.often(500) {
            return "one way cut";
        }
        self.cut(other, which, time);
        "cut"
    }

    fn split(&mut self, half: u64, time: u64) -> &'static str {
        let one_way = !self.older && self.chance.often(250);
        let count = self.mates.len();
        let side = |which: usize| half >> which & 1;
        for from in 0..count {
            for to in (0..count).filter(|to| side(*to) != side(from)) {
                if !(one_way && side(from) == 0) {
                    self.cut(from, to, time);
                }
            }
        }
        if one_way { "one way split" } else { "split" }
    }

    fn hand_over(&mut self, to: usize) {
        let (heir, group) = (self.mates[to].node, self.any_group());
        let Some(master) = self.master(group) else { return };
        self.mates[master].look_at_the_clock(self.now);
        if let Some(life) = &self.mates[master].life {
            let _ = life.group(group).hand_over(heir); // It may be no voter, or level too late.
        }
    }

    /// Somebody joins, changes its part, or leaves; never so many that no majority is left.
    fn reconfigure(&mut self) {
        let which = self.chance.below(self.mates.len() as u64) as usize;
        let group = self.any_group();
        let Some(master) = self.master(group) else { return };
        self.mates[master].look_at_the_clock(self.now);
        let Some(life) = &self.mates[master].life else { return };
        let group = life.group(group);
        let configuration = group.configuration();
        let waits = |mate: &Mate| mate.witness && !configuration.votes(mate.node);
        let which = self.mates.iter().position(waits).unwrap_or(which);
        let node = self.mates[which].node;
        let mut members = configuration.members().to_vec();
        let voters = members.iter().filter(|member| member.part == Part::Voter).count();
        match members.iter().position(|member| member.node == node) {
            None => members.push(Member { node, part: Part::Learner }),
            Some(place) if members[place].part == Part::Learner => {
                let witness = self.mates[which].witness;
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
        // Another change may be under way.
        let _ = group.reconfigure(members, quorum.filter(|_| fits));
    }

    /// The store is made durable, and all of the log that the node does not need itself let go of.
    pub(super) fn lets_go(&mut self, which: usize) {
        self.look_at_applied(which);
        if let Some(life) = &self.mates[which].life {
            for seat in &life.seats {
                seat.group.state().entries.land(seat.group.applied.index(), true);
            }
        }
        self.mates[which].look_at_the_clock(self.now);
        self.begin_flush(which, None);
    }

    /// The store is made durable, and the log let go of: as far as nobody will ask for it, or as
    /// far as the node needs it itself. Then others need a snapshot.
    fn flush(&mut self, which: usize) {
        let held = |mate: &Mate, group: usize| {
            mate.life.as_ref().map_or(LogIndex(0), |life| life.applied(group))
        };
        let keeps = self.chance.often(500);
        let keep = (0..self.judges.len()).map(|group| match keeps {
            true => self.mates.iter().map(|mate| held(mate, group)).min().unwrap_or_default(),
            false => held(&self.mates[which], group),
        });
        let keep: Vec<_> = keep.collect();
        self.look_at_applied(which);
        if let (false, Some(life)) = (keeps, &self.mates[which].life) {
            for (seat, keep) in life.seats.iter().zip(&keep) {
                seat.group.state().entries.land(*keep, true);
            }
        }
        self.mates[which].look_at_the_clock(self.now);
        if self.now < self.mates[which].sleeps_until {
            return;
        }
        if self.era == Era::Stepped {
            return self.begin_flush(which, Some(&keep));
        }
        match self.mates[which].flush(&keep) {
            Ok(true) => {
                if let Err(error) = self.mates[which].written() {
                    self.keeps(which, Err(error));
                }
            }
            Ok(false) => {}
            Err(error) => self.fails(which, &error),
        }
    }

    /// No more trouble: everyone lives, hears everyone, and has a quick disk.
    pub(super) fn heal(&mut self) {
        self.troubled = false;
        self.cuts.clear();
        for which in 0..self.mates.len() {
            self.mates[which].slow_disk = false;
            self.mates[which].hangs_until = self.now;
            self.mates[which].disk.fail_no_more();
            self.mates[which].sleeps_until = self.now;
            // What hung returns now.
            if let Some(life) = self.mates[which].life.as_ref().map(|life| life.number) {
                self.at(0, Event::Written { mate: which, life });
                self.at(0, Event::Maintains { mate: which, life });
            }
            self.at(1_000, Event::Starts(which));
            self.at(2_000, Event::Turn(which));
            self.mates[which].next_turn = self.now + 2_000;
        }
    }
}
