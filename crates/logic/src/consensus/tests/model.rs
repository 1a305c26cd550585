//! Every history within small bounds, by `stateright`: three voters, two values, two more attempts
//! to lead, a crash that takes what was not synced, hours that pass, messages that overtake each
//! other, come twice or never.
//!
//! Elections are left out: safety must not hang on them, so anyone may stand whom no lease binds.

use super::broken::while_broken;
use super::machine::{Identity, Machine};
use crate::consensus::replica::Stage;
use crate::consensus::rules::Rule;
use crate::consensus::{
    Body, Configuration, Effect, Event, LeaseClock, Member, Message, ReadToken, Role, ValueHandle,
};
use base::{Ballot, ConfigurationId, Millis, NodeId, Part};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter {
    from: usize,
    to: usize,
    message: Message,
    values: Vec<u64>,
}

/// What may still happen, so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    /// Of a lease; 0: there are none, and nobody is bound.
    length: u64,
    proposals: u64,
    stands: u64,
    crashes: u64,
    repeats: u64,
    reads: u64,
    hours: u64,
}

impl Left {
    /// Heartbeats are about leases and reads.
    fn timeless(self) -> bool {
        self.length == 0 && self.reads == 0 && self.hours == 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: Vec<Machine>,
    letters: BTreeSet<Letter>,
    now: u64,
    left: Left,
    /// What was decided, in order.
    ledger: Vec<u64>,
    led: Vec<Ballot>,
    /// What the read under way must see.
    floor: u64,
    /// What must never be.
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Deliver(Letter),
    Repeat(Letter),
    Sync(usize),
    Pass,
    Propose(usize),
    Read(usize),
    Stand(usize),
    /// Whether what was not synced stays.
    Crash(usize, bool),
}

/// Decided values stay, one at each place; reads see them.
const HOLDS: &str = "nothing is decided twice, lost, or missed by a read";
const DECIDES: &str = "something is decided";

struct Group {
    left: Left,
    broken: Option<Rule>,
}

fn identity(node: u64, left: Left) -> Identity {
    let member = |node| Member { node: NodeId(node), part: Part::Voter };
    let members = (1..=3).map(member).collect();
    Identity {
        node: NodeId(node),
        configuration: Configuration::new(ConfigurationId(0), members).expect("sound"),
        lease: LeaseClock { length: Millis(left.length), drift_ppm: 0 },
        log_intact: true,
        signs: BTreeMap::new(),
    }
}

impl State {
    /// Node 3 leads, its log is empty, and its lease is granted by all.
    fn settled(left: Left) -> State {
        let mut state = State {
            nodes: (1..=3).map(|node| Machine::fresh(identity(node, left))).collect(),
            letters: BTreeSet::new(),
            now: 1,
            left,
            ledger: Vec::new(),
            led: Vec::new(),
            floor: 0,
            wrong: None,
        };
        (0..3).for_each(|node| state.step(node, Event::Started { now: Millis(1) }, &[]));
        state.stand(2);
        while !state.letters.is_empty() || state.nodes.iter().any(unsynced) {
            (0..3).for_each(|node| state.sync(node));
            for letter in &std::mem::take(&mut state.letters) {
                state.deliver(letter);
            }
        }
        assert_eq!(state.nodes[2].replica.role(), Role::Master);
        state
    }

    fn step(&mut self, node: usize, event: Event, values: &[u64]) {
        let machine = &mut self.nodes[node];
        machine.next_value = 3 - self.left.proposals;
        machine.step_with(event, values);
        self.carry_on(node);
    }

    fn stand(&mut self, node: usize) {
        let machine = &mut self.nodes[node];
        machine.carry_out(None, &[], |replica, effects| replica.stand(Ballot::default(), effects));
        self.carry_on(node);
    }

    /// Judges what a node did, and sends what it said.
    fn carry_on(&mut self, node: usize) {
        let effects = std::mem::take(&mut self.nodes[node].effects);
        for effect in effects {
            match effect {
                Effect::Decided { upto } => self.decided(node, upto.0 as usize),
                Effect::Role { role: Role::Master, ballot, .. } => {
                    self.never(self.led.contains(&ballot), "a ballot is led twice");
                    self.led.push(ballot);
                }
                Effect::ReadAt { index, .. } => {
                    self.never(index.0 < self.floor, "a read misses what was decided");
                }
                _ => {}
            }
        }
        for (to, message, values) in std::mem::take(&mut self.nodes[node].outbox) {
            let (from, to) = (node, to.0 as usize - 1);
            match message.body {
                Body::Probe { .. } | Body::Probed { .. } => continue,
                Body::Heartbeat { .. } | Body::Granted { .. } if self.left.timeless() => continue,
                // Of those that say the same at different hours, one is on its way.
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

    fn decided(&mut self, node: usize, upto: usize) {
        for place in 0..upto {
            let value = self.nodes[node].values[place];
            match self.ledger.get(place) {
                Some(decided) => self.never(*decided != value, "two values at one index"),
                None => {
                    let holders = self.nodes.iter().filter(|node| node.holds(place, value));
                    self.never(holders.count() < 2, "decided, but not on two disks");
                    self.ledger.push(value);
                }
            }
        }
    }

    fn never(&mut self, is: bool, what: &'static str) {
        if is {
            self.wrong = Some(what);
        }
    }

    fn deliver(&mut self, letter: &Letter) {
        let Letter { from, to, message, ref values } = *letter;
        let (from, now) = (NodeId(from as u64 + 1), Millis(self.now));
        self.step(to, Event::Received { from, message, signs: Vec::new(), now }, values);
    }

    fn act(&mut self, action: Action) {
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
                let value = ValueHandle { bytes: 1, updates: 1 };
                self.step(node, Event::Propose { value }, &[]);
                self.left.proposals -= 1;
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
            Action::Pass => {
                left.hours -= 1;
                self.now += 1;
                let now = Millis(self.now);
                (0..3).for_each(|node| self.step(node, Event::Tick { now }, &[]));
            }
        }
    }

    fn sync(&mut self, node: usize) {
        for event in self.nodes[node].sync(usize::MAX) {
            self.step(node, event, &[]);
        }
    }

    fn crash(&mut self, node: usize, all_stays: bool) {
        let identity = identity(node as u64 + 1, self.left);
        let kept = if all_stays { usize::MAX - self.nodes[node].synced } else { 0 };
        self.nodes[node] = self.nodes[node].clone().crash(kept, identity);
        self.step(node, Event::Started { now: Millis(self.now) }, &[]);
    }
}

fn unsynced(machine: &Machine) -> bool {
    machine.synced < machine.records.len()
}

impl Model for Group {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let settled = || State::settled(self.left);
        vec![self.broken.map_or_else(settled, |rule| while_broken(rule, settled))]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let State { left, .. } = state;
        if state.wrong.is_some() {
            return;
        }
        for letter in &state.letters {
            actions.push(Action::Deliver(letter.clone()));
            if left.repeats > 0 {
                actions.push(Action::Repeat(letter.clone()));
            }
        }
        for (node, machine) in state.nodes.iter().enumerate() {
            let replica = &machine.replica;
            if unsynced(machine) {
                actions.push(Action::Sync(node));
            }
            if replica.role() == Role::Master && left.proposals > 0 {
                actions.push(Action::Propose(node));
            }
            if replica.role() == Role::Master && left.reads > 0 {
                actions.push(Action::Read(node));
            }
            let bound = replica.bound.ballot.node != replica.node
                && Millis(state.now) < replica.bound.until;
            if left.stands > 0 && replica.stage == Stage::Following && !bound {
                actions.push(Action::Stand(node));
            }
            if left.crashes > 0 {
                actions.push(Action::Crash(node, false));
                if unsynced(machine) {
                    actions.push(Action::Crash(node, true));
                }
            }
        }
        if left.hours > 0 {
            actions.push(Action::Pass);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match self.broken {
            Some(rule) => while_broken(rule, || state.act(action)),
            None => state.act(action),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HOLDS, |_, state: &State| state.wrong.is_none()),
            Property::sometimes(DECIDES, |_, state: &State| !state.ledger.is_empty()),
        ]
    }
}

/// Takes every history of so many steps; gives what went wrong, if anything did.
fn explore(left: Left, depth: usize, broken: Option<Rule>) -> Option<&'static str> {
    let group = Group { left, broken }.checker().threads(2).target_max_depth(depth);
    let checker = group.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{left:?}: {} states within {depth} steps", checker.unique_state_count());
    let discoveries = checker.discoveries();
    if broken.is_none() {
        assert!(discoveries.contains_key(DECIDES), "no history is long enough to show anything");
    }
    let path = discoveries.get(HOLDS)?;
    path.clone().into_actions().iter().for_each(|action| println!("  {action:?}"));
    path.last_state().wrong
}

const NONE: Left =
    Left { length: 0, proposals: 0, stands: 0, crashes: 0, repeats: 0, reads: 0, hours: 0 };

/// What may happen, and how many steps are taken in a normal run.
const BOUNDS: [(Left, usize); 7] = [
    (Left { proposals: 1, stands: 1, ..NONE }, 14),
    (Left { proposals: 1, stands: 2, ..NONE }, 11),
    (Left { proposals: 2, stands: 1, repeats: 1, ..NONE }, 10),
    (Left { proposals: 1, stands: 1, crashes: 1, ..NONE }, 11),
    (Left { proposals: 1, stands: 1, reads: 1, ..NONE }, 11),
    (Left { length: 2, proposals: 1, stands: 1, reads: 1, hours: 3, ..NONE }, 9),
    (Left { length: 1, proposals: 1, stands: 1, reads: 1, hours: 2, crashes: 1, ..NONE }, 8),
];

#[test]
fn no_short_history_goes_wrong() {
    let more = if std::env::var("CREDENZA_TEST_LONG").is_ok() { 2 } else { 0 };
    for (left, depth) in BOUNDS {
        assert_eq!(explore(left, depth + more, None), None);
    }
}

#[test]
fn a_short_history_shows_a_broken_rule() {
    let left = Left { proposals: 1, ..NONE };
    assert!(explore(left, 5, Some(Rule::MoreThanHalf)).is_some());
    let left = Left { proposals: 1, crashes: 1, ..NONE };
    assert!(explore(left, 6, Some(Rule::AcceptedOnDisk)).is_some());
}
