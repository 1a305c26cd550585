//! State of the model between two steps: machines, messages in flight, and the remaining bounds.

use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{
    Body, Configuration, Effect, EntrySize, Event, LeaseClock, Member, Message, ReadToken, Replica,
    Role,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};
use std::collections::{BTreeMap, BTreeSet};

/// Number of the one entry that is a stop-sign.
const SIGN: u64 = 100;

/// Message in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter {
    pub from: usize,
    pub to: usize,
    pub message: Message,
    pub values: Vec<u64>,
}

/// Shape of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub voters: u64,
    /// Number of voters that save an entry. `None`: a majority.
    pub quorum: Option<u8>,
    /// Number of voters that save an entry after the stop-sign. `None`: a majority.
    pub then: Option<u8>,
    /// Length of the clock, twice that of a lease. 0: there are no leases, and no replica is bound.
    pub length: u64,
    /// True if the first voter is a witness.
    pub witness: bool,
    /// True if a new member votes in place of the first after the stop-sign.
    pub replaces: bool,
}

/// Remaining number of each kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub proposals: u64,
    pub stands: u64,
    pub crashes: u64,
    pub repeats: u64,
    pub reads: u64,
    pub hours: u64,
    /// A stop-sign that brings another quorum or another member; at most one.
    pub changes: u64,
    /// A crash that damages the records synced last; one member at a time.
    pub tears: u64,
    /// Ends of all connections of the first leader, which lives on.
    pub link_ends: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub shape: Shape,
    pub nodes: Vec<Machine>,
    pub letters: BTreeSet<Letter>,
    pub now: u64,
    pub left: Left,
    /// Decided entries, in order.
    pub ledger: Vec<u64>,
    led: Vec<Ballot>,
    /// Number of entries that the pending read must reflect.
    floor: u64,
    /// Violated property. `None`: all hold.
    pub wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Deliver(Letter),
    Repeat(Letter),
    Sync(usize),
    Pass,
    Propose(usize),
    /// Proposes another quorum.
    Change(usize),
    Read(usize),
    Stand(usize),
    /// Crashes the node. True: unsynced records stay.
    Crash(usize, bool),
    /// Ends the connections of the first leader with all others.
    EndLinks,
    /// Crashes the node and tears its log; this many of the records synced last are lost.
    Tear(usize, usize),
}

impl Shape {
    fn configuration(self, id: u32, quorum: Option<u8>) -> Configuration {
        let gone = u64::from(self.replaces && id > 0);
        let member = |node| {
            let part = if self.witness && node == 1 { Part::Witness } else { Part::Voter };
            Member { node: NodeId(node), part }
        };
        let members = (1 + gone..=self.voters + gone).map(member).collect();
        let majority = Configuration::new(ConfigurationId(id), members).expect("sound");
        majority.with_quorum(quorum).expect("it fits the voters")
    }

    /// Returns the configuration of the stop-sign.
    fn next(self) -> Configuration {
        self.configuration(1, self.then)
    }

    fn identity(self, node: u64) -> Identity {
        Identity {
            node: NodeId(node),
            configuration: self.configuration(0, self.quorum),
            lease: LeaseClock { length: Millis(self.length), drift_ppm: 0, allows_reads: true },
            signs: BTreeMap::from([(SIGN, self.next())]),
        }
    }

    /// Returns the number of disks that must hold an entry decided after these. The judge computes
    /// it itself: the replicas' arithmetic may be broken.
    fn copies(self, behind: &[u64]) -> usize {
        let quorum = if behind.contains(&SIGN) { self.then } else { self.quorum };
        quorum.map_or(self.voters as usize / 2 + 1, usize::from)
    }

    /// Returns the places of the nodes whose disks count for that.
    fn counting(self, behind: &[u64]) -> std::ops::Range<usize> {
        let gone = usize::from(self.replaces && behind.contains(&SIGN));
        gone..self.voters as usize + gone
    }

    /// Returns the place of the first leader: the last voter.
    fn master(self) -> usize {
        self.voters as usize - 1
    }
}

impl State {
    /// Returns the state in which the last voter leads, its log is empty, and all have granted its
    /// lease.
    pub fn settled(shape: Shape, left: Left) -> State {
        let mut state = State {
            shape,
            nodes: (1..=shape.voters + u64::from(shape.replaces))
                .map(|node| Machine::fresh(shape.identity(node)))
                .collect(),
            letters: BTreeSet::new(),
            now: 1,
            left,
            ledger: Vec::new(),
            led: Vec::new(),
            floor: 0,
            wrong: None,
        };
        let (master, all) = (shape.master(), 0..state.nodes.len());
        all.clone().for_each(|node| state.step(node, Event::Started { now: Millis(1) }, &[]));
        state.stand(master);
        while !state.letters.is_empty() || state.nodes.iter().any(unsynced) {
            all.clone().for_each(|node| state.sync(node));
            for letter in &std::mem::take(&mut state.letters) {
                state.deliver(letter);
            }
        }
        assert_eq!(state.nodes[master].replica.role(), Role::Master);
        state
    }

    /// Continues from [`State::settled`]: the stop-sign is decided with as few copies as possible,
    /// and only their holders have the decided index. Earlier messages are lost; the master is in
    /// the next configuration.
    pub fn signed(shape: Shape, left: Left) -> State {
        let mut state = State::settled(shape, left);
        let master = shape.master();
        let holders = master + 1 - shape.copies(&[])..master;
        state.act(Action::Change(master));
        while holders.clone().any(|node| state.nodes[node].replica.decided() == LogIndex(0)) {
            let meets = |letter: &&Letter| {
                letter.message.configuration == ConfigurationId(0)
                    && (holders.contains(&letter.from) || holders.contains(&letter.to))
            };
            let letter = state.letters.iter().find(meets).expect("said").clone();
            state.act(Action::Deliver(letter));
        }
        assert_eq!(state.ledger, [SIGN]);
        state.letters.retain(|letter| letter.message.configuration == ConfigurationId(1));
        state
    }

    fn step(&mut self, node: usize, event: Event, values: &[u64]) {
        let machine = &mut self.nodes[node];
        let sign = matches!(event, Event::Reconfigure { .. });
        machine.next_value = if sign { SIGN } else { SIGN - self.left.proposals };
        machine.step_with(event, values);
        self.carry_on(node);
    }

    fn stand(&mut self, node: usize) {
        let machine = &mut self.nodes[node];
        machine.carry_out(None, &[], |replica, effects| {
            replica.stand_for_election(Ballot::default(), effects);
        });
        self.carry_on(node);
    }

    /// Checks the effects of a node, and sends its messages.
    fn carry_on(&mut self, node: usize) {
        let effects = std::mem::take(&mut self.nodes[node].effects);
        for effect in effects {
            match effect {
                Effect::Decided { last } => self.decided(node, last.0 as usize),
                Effect::Role { role: Role::Master, ballot, .. } => {
                    self.never(self.led.contains(&ballot), "a ballot is led twice");
                    self.led.push(ballot);
                }
                Effect::Adopt { ballot, .. } => {
                    let promised = self.nodes[node].replica.promised();
                    self.never(ballot != promised, "void values are adopted");
                }
                Effect::ReadAt { index, .. } => {
                    self.never(index.0 < self.floor, "a read misses what was decided");
                }
                _ => {}
            }
        }
        self.knows(node);
        for (to, message, values) in std::mem::take(&mut self.nodes[node].outbox) {
            let (from, to) = (node, to.0 as usize - 1);
            if let Body::Heartbeat { saved_by_all, .. } = message.body {
                self.lets_go(saved_by_all, message.configuration);
            }
            match message.body {
                Body::Probe { .. } | Body::Probed { .. } => continue,
                Body::Heartbeat { .. } | Body::Granted { .. } if self.is_timeless() => continue,
                // Of equal ones with different times, one is kept in flight.
                Body::Heartbeat { .. } | Body::Granted { .. } => {
                    let kind = std::mem::discriminant(&message.body);
                    self.letters.retain(|other| {
                        let same = std::mem::discriminant(&other.message.body) == kind;
                        !(same && (other.from, other.to) == (from, to))
                    });
                }
                _ => {}
            }
            self.letters.insert(Letter { from, to, message, values });
        }
        if self.left.crashes == 0 {
            self.sync(node); // A slow disk is then no more than a slow network.
        }
    }

    /// Returns true if time does not matter: heartbeats only serve leases and reads.
    fn is_timeless(&self) -> bool {
        self.shape.length == 0 && self.left.reads == 0 && self.left.hours == 0
    }

    fn decided(&mut self, node: usize, last: usize) {
        for place in 0..last {
            let value = self.nodes[node].values[place];
            match self.ledger.get(place) {
                Some(decided) => self.never(*decided != value, "two values at one index"),
                None => {
                    let counting = &self.nodes[self.shape.counting(&self.ledger)];
                    let holders = counting.iter().filter(|node| node.holds(place, value));
                    let enough = holders.count() >= self.shape.copies(&self.ledger);
                    self.never(!enough, "decided, but not on enough disks");
                    self.ledger.push(value);
                }
            }
        }
    }

    /// Checks that a witness may drop the decided entries up to here.
    fn lets_go(&mut self, kept: LogIndex, configuration: ConfigurationId) {
        let behind: &[u64] = if configuration == ConfigurationId(0) { &[] } else { &[SIGN] };
        let decided = self.ledger.iter().take(kept.0 as usize).enumerate();
        let holds = |node: &Machine| decided.clone().all(|(at, value)| node.holds(at, *value));
        let mut voters = self.shape.counting(behind).skip(usize::from(self.shape.witness));
        let lacks = !voters.all(|node| holds(&self.nodes[node]));
        self.never(lacks, "a witness lets go of what a voter lacks");
    }

    /// Checks that a master under the highest promised ballot has all decided entries: no ballot
    /// above it has decided any.
    fn knows(&mut self, node: usize) {
        let Machine { replica, values, .. } = &self.nodes[node];
        let highest = self.nodes.iter().all(|it| it.replica.promised() <= replica.promised());
        let lacks = replica.role.is_replicating() && highest && !values.starts_with(&self.ledger);
        self.never(lacks, "a master lacks what was decided");
    }

    /// Returns true if a node took over after the first master, or the first master did so again.
    pub fn is_taken_over(&self) -> bool {
        let later =
            |replica: &Replica| replica.role.is_replicating() && replica.promised().round > 1;
        self.nodes.iter().any(|node| later(&node.replica))
    }

    fn never(&mut self, is: bool, what: &'static str) {
        if is {
            self.wrong = Some(what);
        }
    }

    fn deliver(&mut self, letter: &Letter) {
        let Letter { from, to, message, ref values } = *letter;
        let (from, now) = (NodeId(from as u64 + 1), Millis(self.now));
        let first = message.body.entry_range().map_or(0, |(after, _)| after.0 + 1);
        let sign = values.iter().position(|value| *value == SIGN);
        let sign = sign.map(|place| (LogIndex(first + place as u64), self.shape.next()));
        let signs = sign.into_iter().collect();
        self.step(to, Event::Received { from, message, signs, now }, values);
    }

    pub fn act(&mut self, action: Action) {
        let left = &mut self.left;
        match action {
            Action::Deliver(letter) => {
                self.letters.remove(&letter);
                self.deliver(&letter);
            }
            Action::Repeat(letter) => {
                left.repeats -= 1;
                self.deliver(&letter);
            }
            Action::Sync(node) => self.sync(node),
            Action::Propose(node) => {
                let size = EntrySize { bytes: 1, updates: 1 };
                self.step(node, Event::Propose { size }, &[]);
                self.left.proposals -= 1;
            }
            Action::Change(node) => {
                left.changes -= 1;
                let configuration = self.shape.next();
                let size = EntrySize { bytes: 1, updates: 0 };
                self.step(node, Event::Reconfigure { configuration, size }, &[]);
            }
            Action::Read(node) => {
                left.reads -= 1;
                self.floor = self.ledger.len() as u64;
                let (token, now) = (ReadToken(left.reads), Millis(self.now));
                self.step(node, Event::Read { token, now }, &[]);
            }
            Action::Stand(node) => {
                left.stands -= 1;
                self.stand(node);
            }
            Action::Crash(node, all_stays) => {
                left.crashes -= 1;
                self.crash(node, all_stays);
            }
            Action::Tear(node, gone) => {
                left.tears -= 1;
                let identity = self.shape.identity(node as u64 + 1);
                self.nodes[node] = self.nodes[node].clone().tear(gone, identity);
                self.step(node, Event::Started { now: Millis(self.now) }, &[]);
            }
            Action::EndLinks => {
                left.link_ends -= 1;
                let (master, now) = (self.shape.master(), Millis(self.now));
                let ended = Event::LinkEnded { node: NodeId(master as u64 + 1), now };
                for node in (0..self.nodes.len()).filter(|node| *node != master) {
                    self.step(node, ended.clone(), &[]);
                }
            }
            Action::Pass => {
                left.hours -= 1;
                self.now += 1;
                let now = Millis(self.now);
                (0..self.nodes.len()).for_each(|node| self.step(node, Event::Tick { now }, &[]));
            }
        }
    }

    fn sync(&mut self, node: usize) {
        for event in self.nodes[node].sync(usize::MAX) {
            self.step(node, event, &[]);
        }
    }

    fn crash(&mut self, node: usize, all_stays: bool) {
        let identity = self.shape.identity(node as u64 + 1);
        let kept = if all_stays { usize::MAX - self.nodes[node].synced } else { 0 };
        self.nodes[node] = self.nodes[node].clone().crash(kept, identity);
        self.step(node, Event::Started { now: Millis(self.now) }, &[]);
    }
}

pub fn unsynced(machine: &Machine) -> bool {
    machine.synced < machine.records.len()
}
