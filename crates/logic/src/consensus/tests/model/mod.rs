//! Model checking with `stateright`: every history within small bounds. Three to five voters, one
//! of them a witness, two entries, two more attempts to lead, another quorum or another member
//! after a stop-sign, a crash that takes unsynced records, passing hours, and messages that are
//! reordered, duplicated or lost.
//!
//! Elections and the patience of voters are left out: safety must not depend on them, so any member
//! may stand whose promise is over. Leases and promises last half of a shape's length.
//!
//! Promises: every history within the bounds is explored; a failing one is printed step by step.
//! Never: looks beyond its bounds; uses randomness.
//! Read next: `state.rs`.

mod state;

use crate::consensus::Role;
use crate::consensus::rules::Rule;
use base::Millis;
use base::mutants::MutantList;
use state::{Action, Left, Shape, State, unsynced};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// Property: decided entries stay, one at each index; reads see them, and so does a new master.
const HOLDS: &str = "nothing is decided twice, lost, or missed by a read";
const DECIDES: &str = "something is decided";
const TAKES_OVER: &str = "another than the first ballot is led, or about to be";

/// Model: the initial state, the bounds, and a broken rule.
#[derive(Clone, Copy, Debug)]
struct Group {
    begins: fn(Shape, Left) -> State,
    shape: Shape,
    left: Left,
    broken: Option<Rule>,
}

impl Model for Group {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let begins = || (self.begins)(self.shape, self.left);
        vec![self.broken.map_or_else(begins, |rule| rule.while_active(begins))]
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
            if replica.role() == Role::Master && left.changes > 0 {
                actions.push(Action::Change(node));
            }
            if replica.role() == Role::Master && left.reads > 0 {
                actions.push(Action::Read(node));
            }
            let bound = replica.grant.ballot.node != replica.host.node
                && Millis(state.now) < replica.grant.until;
            let leads = replica.configuration().may_lead(replica.host.node);
            if left.stands > 0 && replica.role.is_following() && !bound && leads {
                actions.push(Action::Stand(node));
            }
            // Records that are not stated to be durable may be lost.
            let whole = state.nodes.iter().all(|node| node.replica.tear().is_none());
            if left.tears > 0 && whole && machine.stated < machine.synced {
                actions.push(Action::Tear(node, machine.synced - machine.stated));
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
        if left.link_ends > 0 {
            actions.push(Action::EndLinks);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let letter = match &action {
            Action::Deliver(letter) => Some(letter.clone()),
            _ => None,
        };
        match self.broken {
            Some(rule) => rule.while_active(|| state.act(action)),
            None => state.act(action),
        }
        // A message that changes nothing may as well stay in flight for ever.
        let vain = letter.is_some_and(|letter| {
            let others = last.letters.iter().filter(|other| **other != letter);
            state.nodes[letter.to] == last.nodes[letter.to] && state.letters.iter().eq(others)
        });
        (!vain).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HOLDS, |_, state: &State| state.wrong.is_none()),
            Property::sometimes(DECIDES, |_, state: &State| !state.ledger.is_empty()),
            Property::sometimes(TAKES_OVER, |_, state: &State| state.is_taken_over()),
        ]
    }
}

/// Explores every history of this many steps; returns the violated property, if any.
fn explore(group: Group, depth: usize) -> Option<&'static str> {
    let begun = std::time::Instant::now();
    let checker = group.checker().threads(2).target_max_depth(depth);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, took) = (checker.unique_state_count(), begun.elapsed().as_secs_f32());
    println!(
        "{:?} {:?}: {states} states within {depth} steps, {took:.1} s",
        group.shape, group.left
    );
    let discoveries = checker.discoveries();
    if group.broken.is_none() {
        for shown in [DECIDES, TAKES_OVER] {
            assert!(discoveries.contains_key(shown), "no history is so long that {shown}");
        }
    }
    let path = discoveries.get(HOLDS)?;
    path.clone().into_actions().iter().for_each(|action| println!("  {action:?}"));
    path.last_state().wrong
}

const NONE: Left = Left {
    proposals: 0,
    stands: 0,
    crashes: 0,
    repeats: 0,
    reads: 0,
    hours: 0,
    changes: 0,
    tears: 0,
    link_ends: 0,
};
const THREE: Shape =
    Shape { voters: 3, quorum: None, then: None, length: 0, witness: false, replaces: false };
/// Three voters, whose leases last one step of time.
const LEASED: Shape = Shape { length: 2, ..THREE };
/// The same, one of them a witness.
const WITNESSED: Shape = Shape { witness: true, ..LEASED };
/// Three voters; after the stop-sign a fourth replaces the first.
const REPLACED: Shape = Shape { replaces: true, ..THREE };
/// Four voters: two save an entry, three elect.
const FOUR: Shape = Shape { voters: 4, quorum: Some(2), ..THREE };
/// Five voters: two save an entry, four elect.
const FIVE: Shape = Shape { voters: 5, quorum: Some(2), ..THREE };

/// Shapes, bounds and number of steps of a normal run.
const BOUNDS: [(Shape, Left, usize); 19] = [
    (THREE, Left { proposals: 1, stands: 1, ..NONE }, 14),
    (THREE, Left { proposals: 1, stands: 2, ..NONE }, 11),
    (THREE, Left { proposals: 2, stands: 1, repeats: 1, ..NONE }, 10),
    (THREE, Left { proposals: 1, stands: 1, crashes: 1, ..NONE }, 11),
    (THREE, Left { proposals: 1, stands: 1, reads: 1, ..NONE }, 11),
    (Shape { length: 4, ..THREE }, Left { proposals: 1, stands: 1, reads: 1, hours: 3, ..NONE }, 9),
    (LEASED, Left { proposals: 1, stands: 1, reads: 1, hours: 1, link_ends: 1, ..NONE }, 9),
    (LEASED, Left { proposals: 1, stands: 1, reads: 1, hours: 2, crashes: 1, ..NONE }, 8),
    (FOUR, Left { proposals: 1, stands: 1, ..NONE }, 10),
    (FIVE, Left { proposals: 1, stands: 1, ..NONE }, 10),
    (Shape { length: 2, ..FOUR }, Left { proposals: 1, stands: 1, reads: 1, hours: 2, ..NONE }, 8),
    (FOUR, Left { proposals: 1, stands: 1, changes: 1, ..NONE }, 9), // Then a majority.
    (WITNESSED, Left { proposals: 1, stands: 1, hours: 2, ..NONE }, 9),
    (WITNESSED, Left { proposals: 1, stands: 1, crashes: 1, ..NONE }, 9),
    (REPLACED, Left { proposals: 1, stands: 1, changes: 1, ..NONE }, 11),
    (THREE, Left { proposals: 1, stands: 1, tears: 1, ..NONE }, 11),
    (THREE, Left { proposals: 1, stands: 1, tears: 1, hours: 1, ..NONE }, 10),
    (FOUR, Left { proposals: 1, stands: 1, tears: 1, ..NONE }, 9),
    (WITNESSED, Left { proposals: 1, stands: 1, tears: 1, hours: 2, ..NONE }, 8),
];

/// Shapes and bounds for a start after a stop-sign that exactly enough voters have saved. If two of
/// five save before it and three elect after it, none of these need be one of those.
const SIGNED: [(Shape, Left, usize); 3] = [
    (FIVE, Left { proposals: 1, changes: 1, ..NONE }, 12),
    (MORE_ELECT, Left { proposals: 1, changes: 1, ..NONE }, 12),
    (FOUR, Left { proposals: 1, stands: 1, changes: 1, ..NONE }, 10),
];
const MORE_ELECT: Shape = Shape { quorum: None, then: Some(2), ..FIVE };
/// Shape and bounds of long runs only: a voter without the stop-sign stands.
const LONG: (Shape, Left, usize) = (FIVE, Left { stands: 1, changes: 1, ..NONE }, 9);

#[test]
fn model_checker_finds_no_violation_within_bounds() {
    let long = std::env::var("CREDENZA_TEST_LONG").is_ok();
    type Begins = fn(Shape, Left) -> State;
    let settled = BOUNDS.map(|bounds| (State::settled as Begins, bounds));
    let signed = SIGNED.into_iter().chain(long.then_some(LONG));
    let signed = signed.map(|bounds| (State::signed as Begins, bounds));
    for (begins, (shape, left, depth)) in settled.into_iter().chain(signed) {
        let more = match shape.voters {
            _ if !long => 0,
            3 => 2,
            _ => 1, // More voters, more messages: each step costs more.
        };
        let group = Group { begins, shape, left, broken: None };
        assert_eq!(explore(group, depth + more), None);
    }
}

#[test]
fn model_checker_detects_broken_rules() {
    let noticed = |rule, shape, left, depth| {
        explore(Group { begins: State::settled, shape, left, broken: Some(rule) }, depth)
    };
    let left = Left { proposals: 1, ..NONE };
    assert!(noticed(Rule::MoreThanHalf, THREE, left, 5).is_some());
    let left = Left { proposals: 1, crashes: 1, ..NONE };
    assert!(noticed(Rule::AcceptedOnDisk, THREE, left, 6).is_some());
    let left = Left { proposals: 1, stands: 1, ..NONE };
    assert!(noticed(Rule::QuorumsMeet, FIVE, left, 12).is_some());
    let left = Left { proposals: 1, stands: 1, tears: 1, ..NONE };
    assert!(noticed(Rule::TornMayHaveAccepted, THREE, left, 9).is_some());
    let left = Left { proposals: 1, hours: 1, ..NONE };
    assert!(noticed(Rule::KeptByAll, WITNESSED, left, 6).is_some());
    let left = Left { proposals: 1, stands: 1, reads: 1, link_ends: 1, ..NONE };
    assert!(noticed(Rule::PromiseOutlivesLink, LEASED, left, 12).is_some());
}
