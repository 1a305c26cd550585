//! Members that send anything: no message ends a replica. Correctness is not checked here; the
//! protocol trusts its members, and the transport keeps others out.

use crate::consensus::{
    Body, Configuration, Effect, EntrySize, Event, LeaseClock, LeaseTerm, LogSummary, Member,
    Message, ProbeReply, Replica, RestoredState, Role, Tear,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};
use sim::Chance;
use std::collections::VecDeque;

const MEMBERS: u64 = 3;
/// Steps of one history; the first ones, at most this many, are calm ...
const STEPS: u64 = 600;
const CALM_MAX: u64 = 400;
/// ... and then at most this many of a thousand deliver a message of no correct member.
const HOSTILE_MAX: u64 = 400;

/// Replica whose disk saves records later and in order.
struct Node {
    replica: Replica,
    pending_saves: VecDeque<Event>,
}

struct World {
    nodes: Vec<Node>,
    in_flight: Vec<(NodeId, NodeId, Message)>,
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

fn new_node(node: u64) -> Node {
    let restored = RestoredState {
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
    Node {
        replica: Replica::restore(restored).expect("a first life"),
        pending_saves: VecDeque::new(),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let nodes = (1..=MEMBERS).map(new_node).collect();
        let chance = Chance::new(seed);
        let mut world = World { nodes, in_flight: Vec::new(), now: 0, chance, refused: 0 };
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
                Effect::Save { index: last, ballot, .. } | Effect::Adopt { ballot, last, .. } => {
                    Event::Saved { ballot, last }
                }
                Effect::Send { to, message } => {
                    self.in_flight.push((node, to, message));
                    continue;
                }
                _ => continue,
            };
            self.nodes[at].pending_saves.push_back(saved);
        }
    }

    fn random_node(&mut self) -> usize {
        self.chance.below(MEMBERS) as usize
    }

    /// Returns a number near a meaningful one, or any.
    fn number(&mut self) -> u64 {
        let at = self.random_node();
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
        let at = self.random_node();
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

    fn log(&mut self) -> LogSummary {
        LogSummary { ballot: self.ballot(), last: self.index(), decided: self.index() }
    }

    fn body(&mut self) -> Body {
        let (yes, no) = (self.chance.draw_bool(500), self.chance.draw_bool(500));
        let after = self.index();
        let short = LogIndex(after.0.wrapping_add(1 + self.chance.below(64)));
        let last = if self.chance.draw_bool(700) { short } else { self.index() };
        let tear = Tear(7 + self.chance.below(2));
        match self.chance.below(25) {
            0 => Body::Probe { round: self.number() },
            1 => {
                let reply = ProbeReply { must_abstain: yes, is_candidate: no, log: self.log() };
                Body::Probed { round: self.number(), reply }
            }
            2 => Body::Prepare { released: self.ballot() },
            3 | 4 => Body::Promise { log: self.log() },
            5 => Body::TornPromise { log: self.log(), tear },
            6 => Body::Refused { promised: self.ballot() },
            7 => Body::Fetch { after },
            8 => Body::Fetched { after, last },
            9 => Body::Behind,
            10 | 11 => Body::Adopt { from: after, last: self.index() },
            12 | 13 => Body::Accept { after, last, decided: self.index() },
            14 => Body::Accepted { last: self.index() },
            15 => Body::Staged { last: self.index() },
            16 => Body::Gap { last: self.index() },
            17 => Body::Decide { last: self.index() },
            18 => {
                let (beat, sent, decided) = (self.number(), Millis(self.number()), self.index());
                let term = if no { LeaseTerm::Half } else { LeaseTerm::Whole };
                let lease = yes.then_some(term);
                Body::Heartbeat { beat, sent, lease, decided, saved_by_all: self.index() }
            }
            19 => {
                let (beat, sent) = (self.number(), Millis(self.number()));
                Body::Granted { beat, sent, lease: yes.then_some(LeaseTerm::Half), is_full: no }
            }
            20 => Body::LogEnd { tear, last: self.index() },
            21 => [Body::HandOver, Body::Outdated, Body::Ended][self.chance.below(3) as usize],
            23 => Body::Sent { last: self.index() },
            22 => Body::Straggling { decided: self.index() },
            _ => Body::Learn { after, last, end: self.index() },
        }
    }

    /// Sends an arbitrary message from any member; sometimes one of the last messages, with another
    /// body or ballot.
    fn send_arbitrary(&mut self) {
        let to = self.random_node();
        let from = NodeId(1 + self.chance.below(MEMBERS));
        let id = self.nodes[to].replica.configuration().id().0;
        let count = self.in_flight.len() as u64;
        let known = (count > 0).then(|| self.in_flight[self.chance.below(count) as usize].2);
        let message = match (known, self.chance.below(3)) {
            (Some(known), 0) => Message { body: self.body(), ..known },
            (Some(known), 1) => Message { ballot: self.ballot(), ..known },
            _ => {
                let is_foreign = self.chance.draw_bool(100);
                let id = if is_foreign { self.number() as u32 } else { id };
                let configuration = ConfigurationId(id);
                Message { configuration, ballot: self.ballot(), body: self.body() }
            }
        };
        self.refused += u64::from(!message.is_sound());
        self.deliver(to, from, message);
    }

    fn deliver(&mut self, to: usize, from: NodeId, message: Message) {
        let mut signs = Vec::new();
        if let Some((after, _)) = message.body.entry_range().filter(|_| self.chance.draw_bool(100))
        {
            let id = self.nodes[to].replica.configuration().id().0;
            let next = id.wrapping_add(self.chance.below(3) as u32);
            signs.push((LogIndex(after.0.wrapping_add(1)), configuration(next)));
        }
        let now = Millis(self.now);
        self.step(to, Event::Received { from, message, signs, now });
    }

    fn step_correctly(&mut self) {
        self.now += self.chance.below(20);
        let at = self.random_node();
        match self.chance.below(16) {
            0 | 1 => self.step(at, Event::Tick { now: Millis(self.now) }),
            2 => {
                self.step(at, Event::Propose { size: EntrySize { bytes: 10, updates: 1 } });
            }
            3..=5 => {
                for event in std::mem::take(&mut self.nodes[at].pending_saves) {
                    self.step(at, event);
                }
            }
            6 if self.chance.draw_bool(300) => {
                let to = NodeId(1 + self.chance.below(MEMBERS));
                self.step(at, Event::HandOver { to, now: Millis(self.now) });
            }
            6 if self.chance.draw_bool(300) => {
                let id = self.nodes[at].replica.configuration().id().0;
                let size = EntrySize { bytes: 10, updates: 0 };
                let configuration = configuration(id.wrapping_add(1));
                self.step(at, Event::Reconfigure { configuration, size });
            }
            _ if self.in_flight.is_empty() => {}
            _ => {
                let place = self.chance.below(self.in_flight.len() as u64) as usize;
                let (from, to, message) = self.in_flight.swap_remove(place);
                if (1..=MEMBERS).contains(&to.0) {
                    self.deliver(to.0 as usize - 1, from, message);
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
        match step > calm && world.chance.draw_bool(hostile) {
            true => world.send_arbitrary(),
            false => world.step_correctly(),
        }
        led |= world.nodes.iter().any(|node| node.replica.role() == Role::Master);
    }
    (world.refused, led)
}

/// A history has about 80 such messages: more than a million of them, and ten times that in long
/// runs.
#[test]
fn arbitrary_peer_messages_never_panic_replica() {
    let chosen_seed = std::env::var("CREDENZA_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let count = if std::env::var("CREDENZA_TEST_LONG").is_ok() { 200_000 } else { 20_000 };
    let seeds = chosen_seed.map_or(0..count, |seed| seed..seed + 1);
    let (mut refused, mut led) = (0, 0);
    for seed in seeds.clone() {
        let outcome = std::panic::catch_unwind(|| history(seed));
        let (more, master) = outcome.unwrap_or_else(|_| panic!("CREDENZA_SEED={seed}"));
        refused += more;
        led += u64::from(master);
    }
    println!(
        "{refused} unsound messages, a master in {led} of {} histories",
        seeds.end - seeds.start
    );
    assert!(
        chosen_seed.is_some() || (refused > count && led > count / 20),
        "{refused} refused, {led} led"
    );
}

/// Last round of configuration 1: there is none above.
const LAST_ROUND: u64 = (2 << 40) - 1;

#[test]
fn voter_lacks_ballots_after_prepare_with_last_ballot() {
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
