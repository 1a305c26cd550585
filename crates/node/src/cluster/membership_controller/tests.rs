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
    next_step(&ClusterSight { wanted, now, saved, master: NodeId(master) })
}

const LEVEL: [(u64, u64); 4] = [(1, 9_000), (2, 9_000), (3, 9_000), (4, 9_000)];

/// Wanted, there, how far each is, and what master 1 does next.
type Line = (Parts, Parts, BTreeMap<NodeId, LogIndex>, MembershipStep);

fn coming() -> Vec<Line> {
    let three = parts(&[(1, Voter), (2, Voter), (3, Voter)]);
    let alone = parts(&[(1, Voter)]);
    let level = saved(&LEVEL);
    vec![
        // All is well.
        (three.clone(), three.clone(), level.clone(), MembershipStep::Rest),
        // New members are learners first, all at once.
        (
            three.clone(),
            alone.clone(),
            saved(&[(1, 9_000)]),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Learner), (3, Learner)])),
        ),
        // One is near and votes; the other is not.
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
        // What no group can be is not tried.
        (parts(&[(2, Learner)]), alone.clone(), level.clone(), MembershipStep::Rest),
        (Parts::new(), three.clone(), level.clone(), MembershipStep::Rest),
    ]
}

fn going() -> Vec<Line> {
    let three = parts(&[(1, Voter), (2, Voter), (3, Voter)]);
    let level = saved(&LEVEL);
    vec![
        // The old one votes until the new one can, and leaves in the same step.
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
        // A master that only learns from now on leaves, too.
        (
            parts(&[(1, Learner), (2, Voter), (3, Voter)]),
            three.clone(),
            saved(&[(1, 9_000), (2, 9_000), (3, 1)]),
            MembershipStep::HandOver(NodeId(2)),
        ),
        // Its only heir is not there yet.
        (
            parts(&[(2, Voter)]),
            parts(&[(1, Voter), (2, Learner)]),
            level.clone(),
            MembershipStep::Reconfigure(parts(&[(1, Voter), (2, Voter)])),
        ),
        // Its heirs are far behind.
        (
            parts(&[(2, Voter), (3, Voter)]),
            three.clone(),
            saved(&[(1, 9_000)]),
            MembershipStep::Wait(vec![NodeId(2), NodeId(3)]),
        ),
    ]
}

#[test]
fn the_steps_are_these() {
    for (wanted, now, saved, expected) in coming().into_iter().chain(going()) {
        assert_eq!(step(&wanted, &now, &saved, 1), expected, "{now:?} -> {wanted:?}");
    }
}

#[test]
fn the_way_is_told_in_words() {
    let name = |node: NodeId| format!("n{}", node.0);
    let told = |wanted: &Parts, now: &Parts| -> Vec<String> {
        let way = whole_way(wanted, now, NodeId(1));
        way.iter().flat_map(|(now, step)| words(now, step, name)).collect()
    };
    let three = parts(&[(1, Voter), (2, Voter), (3, Voter)]);
    let moved = parts(&[(2, Voter), (3, Voter), (4, Voter)]);
    assert_eq!(
        told(&moved, &three),
        ["add n4 as learner", "hand over to n2", "make n4 a voter", "remove n1"]
    );
    assert_eq!(told(&three, &three), Vec::<String>::new());
    let step = MembershipStep::Wait(vec![NodeId(3)]);
    assert_eq!(words(&three, &step, name), ["wait until n3 is near"]);
}

fn some_parts() -> impl Strategy<Value = Parts> {
    let part = prop_oneof![3 => Just(Voter), 1 => Just(Learner)];
    prop::collection::btree_map((1..8_u64).prop_map(NodeId), part, 1..6)
        .prop_filter("someone leads", |parts| parts.values().any(|part| *part == Voter))
}

proptest! {
    /// Any members change to any others, with members catching up at any time.
    #[test]
    fn every_way_leads_there_and_is_safe(
        wanted in some_parts(),
        first in some_parts(),
        delays in prop::collection::vec(0..4_usize, 8),
    ) {
        let mut now = first;
        let mut master =
            *now.iter().find(|(_, part)| **part == Voter).expect("someone leads").0;
        let mut since: BTreeMap<NodeId, usize> = now.keys().map(|node| (*node, 0)).collect();
        let votes = |parts: &Parts, node: &NodeId| parts.get(node).is_some_and(|part| part.votes());
        let mut rested = false;
        for turn in 4..60 {
            let index = |node: &NodeId| {
                let late = delays[node.0 as usize % delays.len()];
                let come = votes(&now, node) || turn >= since[node] + late;
                LogIndex(if come { 50_000 } else { 10 })
            };
            let saved: BTreeMap<_, _> = now.keys().map(|node| (*node, index(node))).collect();
            let seen = ClusterSight { wanted: &wanted, now: &now, saved: &saved, master };
            match next_step(&seen) {
                MembershipStep::Rest => {
                    rested = true;
                    break;
                }
                MembershipStep::Wait(nodes) => {
                    let far = nodes.iter().any(|node| saved.get(node) != Some(&LogIndex(50_000)));
                    prop_assert!(far, "nobody waits for those who are there");
                }
                MembershipStep::HandOver(heir) => {
                    prop_assert!(heir != master && now.get(&heir) == Some(&Voter));
                    prop_assert!(wanted.get(&master) != Some(&Voter), "only who must go goes");
                    master = heir;
                }
                MembershipStep::Reconfigure(next) => {
                    prop_assert!(next != now, "no step without a change");
                    prop_assert_eq!(next.get(&master), Some(&Voter), "the master stays master");
                    for node in next.keys().filter(|node| votes(&next, node)) {
                        prop_assert_eq!(saved.get(node), Some(&LogIndex(50_000)), "has everything");
                    }
                    let behind = wanted.iter().filter(|(_, part)| part.votes());
                    let behind = behind.filter(|(node, _)| !votes(&next, node)).count();
                    let lost = now.keys().filter(|node| votes(&now, node) && !votes(&next, node));
                    prop_assert!(behind == 0 || lost.count() == 0, "votes wait for votes");
                    for node in next.keys() {
                        since.entry(*node).or_insert(turn);
                    }
                    since.retain(|node, _| next.contains_key(node));
                    now = next;
                }
            }
        }
        prop_assert!(rested, "it comes to an end: {now:?}");
        prop_assert_eq!(now, wanted);
    }
}
