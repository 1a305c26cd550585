//! Members that send anything: no message ends a replica. Correctness is not checked here; the
//! protocol trusts its members, and the transport keeps others out.

use crate::consensus::{
    Accepted, Body, Configuration, Effect, Event, LeaseClock, Member, Message, ProbeReply, Replica,
    Restored, Role, Tear, ValueHandle,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};
use sim::Chance;
use std::collections::VecDeque;

const MEMBERS: u64 = 3;
/// Steps of one history; the first ones, at most this many, are calm ...
const STEPS: u64 = 600;
const CALM_MAX: u64 = 400;
/// ... and then at most this many of a thousand bring what no correct member would send.
const HOSTILE_MAX: u64 = 400;

/// Replica whose disk saves records later and in order.
struct Node {
    replica: Replica,
    saving: VecDeque<Event>,
}

struct World {
    nodes: Vec<Node>,
    ways: Vec<(NodeId, NodeId, Message)>,
    now: u64,
    chance: Chance,
    /// Number of messages refused as unsound.
    refused: u64,
}

fn configuration(id: u32) -> Configuration {
    let member = |node| Member { node: NodeId(node), part: Part::Voter };
    let members = (1..=MEMBERS).map(member).collect();
    Configuration::new(ConfigurationId(id), members).expect("it can work")
}

fn fresh(node: u64) -> Node {
    let restored = Restored {
        node: NodeId(node),
        configuration: configuration(1),
        base: LogIndex(0),
        signs: Vec::new(),
        promised: Ballot::default(),
        accepted_ballot: Ballot::default(),
        last: LogIndex(0),
        decided: LogIndex(0),
        tear: (node == MEMBERS).then_some(Tear(7)),
        lease: LeaseClock::default(),
    };
    Node { replica: Replica::restore(restored).expect("a first life"), saving: VecDeque::new() }
}

impl World {
    fn new(seed: u64) -> World {
        let nodes = (1..=MEMBERS).map(fresh).collect();
        let chance = Chance::new(seed);
        let mut world = World { nodes, ways: Vec::new(), now: 0, chance, refused: 0 };
        (0..MEMBERS).for_each(|at| world.step(at as usize, Event::Started { now: Millis(0) }));
        world
    }

    fn step(&mut self, at: usize, event: Event) {
        let mut effects = Vec::new();
        self.nodes[at].replica.step(event, &mut effects);
        let node = NodeId(at as u64 + 1);
        for effect in effects {
            let saved = match effect {
                Effect::SavePromise { ballot } => Event::PromiseSaved { ballot },
                Effect::Save { index: upto, ballot, .. } | Effect::Adopt { ballot, upto, .. } => {
                    Event::Saved { ballot, upto }
                }
                Effect::Send { to, message } => {
                    self.ways.push((node, to, message));
                    continue;
                }
                _ => continue,
            };
            self.nodes[at].saving.push_back(saved);
        }
    }

    fn any_node(&mut self) -> usize {
        self.chance.below(MEMBERS) as usize
    }

    /// Returns a number near a meaningful one, or any.
    fn number(&mut self) -> u64 {
        let at = self.any_node();
        let (last, decided) = (self.nodes[at].replica.last().0, self.nodes[at].replica.decided().0);
        let known = [0, 1, last, decided, last + 1, 64, 1 << 40, 2 << 40, self.now, u64::MAX / 2];
        let near = known[self.chance.below(known.len() as u64) as usize];
        match self.chance.below(8) {
            0 => self.chance.next_u64(),
            1 => u64::MAX - self.chance.below(3),
            2 | 3 => near.wrapping_sub(1 + self.chance.below(2)),
            _ => near.wrapping_add(self.chance.below(2)),
        }
    }

    fn index(&mut self) -> LogIndex {
        LogIndex(self.number())
    }

    fn ballot(&mut self) -> Ballot {
        let at = self.any_node();
        let promised = self.nodes[at].replica.promised();
        let node = NodeId(1 + self.chance.below(MEMBERS + 1));
        match self.chance.below(6) {
            0 => promised,
            1 => Ballot { round: promised.round.saturating_add(1), node },
            2 => Ballot { node, ..promised },
            3 => Ballot { round: (2 << 40) - 1 - self.chance.below(2), node },
            4 => Ballot { round: (1 << 40) + self.chance.below(9), node },
            _ => Ballot { round: self.number(), node },
        }
    }

    fn log(&mut self) -> Accepted {
        Accepted { ballot: self.ballot(), last: self.index(), decided: self.index() }
    }

    fn body(&mut self) -> Body {
        let (yes, no) = (self.chance.often(500), self.chance.often(500));
        let after = self.index();
        let short = LogIndex(after.0.wrapping_add(1 + self.chance.below(64)));
        let upto = if self.chance.often(700) { short } else { self.index() };
        let tear = Tear(7 + self.chance.below(2));
        match self.chance.below(25) {
            0 => Body::Probe { round: self.number() },
            1 => {
                let standing = ProbeReply { bound: yes, candidate: no, log: self.log() };
                Body::Probed { round: self.number(), standing }
            }
            2 => Body::Prepare { released: self.ballot() },
            3 | 4 => Body::Promise { log: self.log() },
            5 => Body::TornPromise { log: self.log(), tear },
            6 => Body::Refused { promised: self.ballot() },
            7 => Body::Fetch { after },
            8 => Body::Fetched { after, upto },
            9 => Body::Behind,
            10 | 11 => Body::Adopt { from: after, upto: self.index() },
            12 | 13 => Body::Accept { after, upto, decided: self.index() },
            14 => Body::Accepted { upto: self.index() },
            15 => Body::Staged { upto: self.index() },
            16 => Body::Gap { last: self.index() },
            17 => Body::Decide { upto: self.index() },
            18 => {
                let (beat, sent, decided) = (self.number(), Millis(self.number()), self.index());
                Body::Heartbeat { beat, sent, asks: yes, decided, kept: self.index() }
            }
            19 => {
                let (beat, sent) = (self.number(), Millis(self.number()));
                Body::Granted { beat, sent, asked: yes, full: no }
            }
            20 => Body::Level { tear, upto: self.index() },
            21 => [Body::HandOver, Body::Outdated, Body::Ended][self.chance.below(3) as usize],
            23 => Body::Sent { upto: self.index() },
            22 => Body::Straggling { decided: self.index() },
            _ => Body::Learn { after, upto, end: self.index() },
        }
    }

    /// Sends anything from any member; now and then one of its last messages, with another body or
    /// ballot.
    fn say_anything(&mut self) {
        let to = self.any_node();
        let from = NodeId(1 + self.chance.below(MEMBERS));
        let id = self.nodes[to].replica.configuration().id().0;
        let said = self.ways.len() as u64;
        let known = (said > 0).then(|| self.ways[self.chance.below(said) as usize].2);
        let message = match (known, self.chance.below(3)) {
            (Some(known), 0) => Message { body: self.body(), ..known },
            (Some(known), 1) => Message { ballot: self.ballot(), ..known },
            _ => {
                let wrong = self.chance.often(100);
                let id = if wrong { self.number() as u32 } else { id };
                let configuration = ConfigurationId(id);
                Message { configuration, ballot: self.ballot(), body: self.body() }
            }
        };
        self.refused += u64::from(!message.is_sound());
        self.hear(to, from, message);
    }

    fn hear(&mut self, to: usize, from: NodeId, message: Message) {
        let mut signs = Vec::new();
        if let Some((after, _)) = message.body.values().filter(|_| self.chance.often(100)) {
            let id = self.nodes[to].replica.configuration().id().0;
            let next = id.wrapping_add(self.chance.below(3) as u32);
            signs.push((LogIndex(after.0.wrapping_add(1)), configuration(next)));
        }
        let now = Millis(self.now);
        self.step(to, Event::Received { from, message, signs, now });
    }

    fn go_on(&mut self) {
        self.now += self.chance.below(20);
        let at = self.any_node();
        match self.chance.below(16) {
            0 | 1 => self.step(at, Event::Tick { now: Millis(self.now) }),
            2 => {
                self.step(at, Event::Propose { value: ValueHandle { bytes: 10, updates: 1 } });
            }
            3..=5 => {
                for event in std::mem::take(&mut self.nodes[at].saving) {
                    self.step(at, event);
                }
            }
            6 if self.chance.often(300) => {
                let to = NodeId(1 + self.chance.below(MEMBERS));
                self.step(at, Event::HandOver { to, now: Millis(self.now) });
            }
            6 if self.chance.often(300) => {
                let id = self.nodes[at].replica.configuration().id().0;
                let value = ValueHandle { bytes: 10, updates: 0 };
                let configuration = configuration(id.wrapping_add(1));
                self.step(at, Event::Reconfigure { configuration, value });
            }
            _ if self.ways.is_empty() => {}
            _ => {
                let said = self.chance.below(self.ways.len() as u64) as usize;
                let (from, to, message) = self.ways.swap_remove(said);
                if (1..=MEMBERS).contains(&to.0) {
                    self.hear(to.0 as usize - 1, from, message);
                }
            }
        }
    }
}

/// Runs one history; returns the number of messages refused as unsound, and whether a master was in
/// office.
fn history(seed: u64) -> (u64, bool) {
    let mut world = World::new(seed);
    let (calm, hostile) = (world.chance.below(CALM_MAX), world.chance.below(HOSTILE_MAX));
    let mut led = false;
    for step in 0..STEPS {
        match step > calm && world.chance.often(hostile) {
            true => world.say_anything(),
            false => world.go_on(),
        }
        led |= world.nodes.iter().any(|node| node.replica.role() == Role::Master);
    }
    (world.refused, led)
}

/// A history has about 80 such messages: more than a million of them, and ten times that in long
/// runs.
#[test]
fn whatever_members_say_ends_no_replica() {
    let given = std::env::var("CREDENZA_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let many = if std::env::var("CREDENZA_TEST_LONG").is_ok() { 200_000 } else { 20_000 };
    let seeds = given.map_or(0..many, |seed| seed..seed + 1);
    let (mut refused, mut led) = (0, 0);
    for seed in seeds.clone() {
        let told = std::panic::catch_unwind(|| history(seed));
        let (more, master) = told.unwrap_or_else(|_| panic!("CREDENZA_SEED={seed}"));
        refused += more;
        led += u64::from(master);
    }
    println!(
        "{refused} unsound messages, a master in {led} of {} histories",
        seeds.end - seeds.start
    );
    assert!(given.is_some() || (refused > many && led > many / 20), "{refused} refused, {led} led");
}

/// Last round of configuration 1: there is none above.
const LAST_ROUND: u64 = (2 << 40) - 1;

#[test]
fn a_voter_that_heard_the_last_ballot_has_none_left() {
    let mut world = World::new(1);
    let voter = &mut world.nodes[0].replica;
    assert!(!voter.lacks_ballots());
    let ballot = Ballot { round: LAST_ROUND, node: NodeId(2) };
    let body = Body::Prepare { released: Ballot::default() };
    let message = Message { configuration: ConfigurationId(1), ballot, body };
    let (from, now) = (NodeId(2), Millis(1));
    voter.step(Event::Received { from, message, signs: Vec::new(), now }, &mut Vec::new());
    assert!(voter.lacks_ballots());
    assert!(!world.nodes[1].replica.lacks_ballots(), "the others have not heard of it");
}
