//! Table and laws of the membership controller.

use super::*;
use Part::{Learner, Voter};
use proptest::prelude::*;

fn parts(all: &[(u64, Part)]) -> Parts {
    all.iter().map(|(node, part)| (NodeId(*node), *part)).collect()
}

fn saved(all: &[(u64, u64)]) -> BTreeMap<NodeId, LogIndex> {
    all.iter().map(|(node, index)| (NodeId(*node), LogIndex(*index))).collect()
}

fn step(
    wanted: &Parts,
    now: &Parts,
    saved: &BTreeMap<NodeId, LogIndex>,
    master: u64,
) -> MembershipStep {
    next_step(&MembershipView { desired: wanted, current: now, saved, master: NodeId(master) })
}

const LEVEL: [(u64, u64); 4] = [(1, 9_000), (2, 9_000), (3, 9_000), (4, 9_000)];

/// Desired members, current members, saved index of each, and the next step of master 1.
type Case = (Parts, Parts, BTreeMap<NodeId, LogIndex>, MembershipStep);

fn joining_cases() -> Vec<Case> {
    let three = parts(&[(1, Voter), (2, Voter), (3, Voter)]);
    let sole = parts(&[(1, Voter)]);
    let level = saved(&LEVEL);
    vec![
        // The members are as desired.
        (three.clone(), three.clone(), level.clone(), MembershipStep::Idle),
        // New members are learners first, all at once.
        (
            three.clone(),
            sole.clone(),
            saved(&[(1, 9_000)]),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Learner), (3, Learner)])),
        ),
        // One is near and becomes a voter; the other is not.
        (
            three.clone(),
            parts(&[(1, Voter), (2, Learner), (3, Learner)]),
            saved(&[(1, 9_000), (2, 8_000), (3, 7_999)]),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Voter), (3, Learner)])),
        ),
        (
            three.clone(),
            parts(&[(1, Voter), (2, Voter), (3, Learner)]),
            saved(&[(1, 9_000), (2, 9_000)]),
            MembershipStep::Wait(vec![NodeId(3)]),
        ),
        // An impossible set of members is not tried.
        (parts(&[(2, Learner)]), sole.clone(), level.clone(), MembershipStep::Idle),
        (Parts::new(), three.clone(), level.clone(), MembershipStep::Idle),
    ]
}

fn leaving_cases() -> Vec<Case> {
    let three = parts(&[(1, Voter), (2, Voter), (3, Voter)]);
    let level = saved(&LEVEL);
    vec![
        // The old member keeps its vote until the new one can vote, and leaves in the same step.
        (
            parts(&[(1, Voter), (2, Voter), (4, Voter)]),
            three.clone(),
            level.clone(),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Voter), (3, Voter), (4, Learner)])),
        ),
        (
            parts(&[(1, Voter), (2, Voter), (4, Voter)]),
            parts(&[(1, Voter), (2, Voter), (3, Voter), (4, Learner)]),
            level.clone(),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Voter), (4, Voter)])),
        ),
        // The master hands over to the member with the highest index.
        (
            parts(&[(2, Voter), (3, Voter)]),
            three.clone(),
            saved(&[(1, 9_000), (2, 8_999), (3, 9_000)]),
            MembershipStep::HandOver(NodeId(3)),
        ),
        // A master that becomes a learner hands over, too.
        (
            parts(&[(1, Learner), (2, Voter), (3, Voter)]),
            three.clone(),
            saved(&[(1, 9_000), (2, 9_000), (3, 1)]),
            MembershipStep::HandOver(NodeId(2)),
        ),
        // Its only successor is no voter yet.
        (
            parts(&[(2, Voter)]),
            parts(&[(1, Voter), (2, Learner)]),
            level.clone(),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Voter)])),
        ),
        // Its successors are far behind.
        (
            parts(&[(2, Voter), (3, Voter)]),
            three.clone(),
            saved(&[(1, 9_000)]),
            MembershipStep::Wait(vec![NodeId(2), NodeId(3)]),
        ),
    ]
}

#[test]
fn membership_steps_match_the_table() {
    for (wanted, now, saved, expected) in joining_cases().into_iter().chain(leaving_cases()) {
        assert_eq!(step(&wanted, &now, &saved, 1), expected, "{now:?} -> {wanted:?}");
    }
}

#[test]
fn membership_plan_is_described_step_by_step() {
    let name = |node: NodeId| format!("n{}", node.0);
    let described = |desired: &Parts, current: &Parts| -> Vec<String> {
        let steps = plan_steps(desired, current, NodeId(1));
        steps.iter().flat_map(|(current, step)| describe_step(current, step, name)).collect()
    };
    let three = parts(&[(1, Voter), (2, Voter), (3, Voter)]);
    let moved = parts(&[(2, Voter), (3, Voter), (4, Voter)]);
    assert_eq!(
        described(&moved, &three),
        ["add n4 as learner", "transfer mastership to n2", "make n4 a voter", "remove n1"]
    );
    assert_eq!(described(&three, &three), Vec::<String>::new());
    let step = MembershipStep::Wait(vec![NodeId(3)]);
    assert_eq!(describe_step(&three, &step, name), ["wait until n3 has caught up"]);
}

fn some_parts() -> impl Strategy<Value = Parts> {
    let part = prop_oneof![3 => Just(Voter), 1 => Just(Learner)];
    prop::collection::btree_map((1..8_u64).prop_map(NodeId), part, 1..6)
        .prop_filter("someone leads", |parts| parts.values().any(|part| *part == Voter))
}

proptest! {
    /// Any members change to any others, with members catching up at any time.
    #[test]
    fn membership_changes_reach_their_target_by_safe_steps(
        wanted in some_parts(),
        initial in some_parts(),
        delays in prop::collection::vec(0..4_usize, 8),
    ) {
        let mut now = initial;
        let mut master =
            *now.iter().find(|(_, part)| **part == Voter).expect("someone leads").0;
        let mut since: BTreeMap<NodeId, usize> = now.keys().map(|node| (*node, 0)).collect();
        let votes =
            |parts: &Parts, node: &NodeId| parts.get(node).is_some_and(|part| part.can_vote());
        let mut is_done = false;
        for round in 4..60 {
            let index = |node: &NodeId| {
                let delay = delays[node.0 as usize % delays.len()];
                let is_caught_up = votes(&now, node) || round >= since[node] + delay;
                LogIndex(if is_caught_up { 50_000 } else { 10 })
            };
            let saved: BTreeMap<_, _> = now.keys().map(|node| (*node, index(node))).collect();
            let view = MembershipView { desired: &wanted, current: &now, saved: &saved, master };
            match next_step(&view) {
                MembershipStep::Idle => {
                    is_done = true;
                    break;
                }
                MembershipStep::Wait(nodes) => {
                    let lags = nodes.iter().any(|node| saved.get(node) != Some(&LogIndex(50_000)));
                    prop_assert!(lags, "nobody waits for those who are there");
                }
                MembershipStep::HandOver(successor) => {
                    prop_assert!(successor != master && now.get(&successor) == Some(&Voter));
                    prop_assert!(wanted.get(&master) != Some(&Voter), "only who must go goes");
                    master = successor;
                }
                MembershipStep::Reconfigure(next) => {
                    prop_assert!(next != now, "no step without a change");
                    prop_assert_eq!(next.get(&master), Some(&Voter), "the master stays master");
                    for node in next.keys().filter(|node| votes(&next, node)) {
                        prop_assert_eq!(saved.get(node), Some(&LogIndex(50_000)), "has everything");
                    }
                    let missing = wanted.iter().filter(|(_, part)| part.can_vote());
                    let missing = missing.filter(|(node, _)| !votes(&next, node)).count();
                    let lost = now.keys().filter(|node| votes(&now, node) && !votes(&next, node));
                    prop_assert!(missing == 0 || lost.count() == 0, "votes wait for votes");
                    for node in next.keys() {
                        since.entry(*node).or_insert(round);
                    }
                    since.retain(|node, _| next.contains_key(node));
                    now = next;
                }
            }
        }
        prop_assert!(is_done, "it comes to an end: {now:?}");
        prop_assert_eq!(now, wanted);
    }
}
