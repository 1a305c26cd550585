//! Examples and laws of plans: compared with the nodes that a read of one key asks.

use super::{commit, join, random_nodes, random_ring, ring_of};
use crate::coverage::{CoveragePlan, CoverageRequest, CoverageShares};
use crate::quorum::{Fetch, FetchEffect, FetchEvent, FetchNeeds, Replicas, Versions};
use crate::ring::Ring;
use base::{NodeId, Partition, Share, Shortfall};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn request(ring: &Ring, replicas: usize, local: u64) -> CoverageRequest<'_> {
    let copies = ring.n();
    CoverageRequest { ring, copies, replicas, local: NodeId(local), use_fallbacks: true }
}

fn partitions(ring: &Ring) -> impl Iterator<Item = Partition> {
    (0..ring.partitions()).map(Partition)
}

/// Value of a key, of which a plan knows nothing.
#[derive(Clone, Debug, PartialEq)]
struct NoValue;

impl Versions for NoValue {
    fn merge(&mut self, _other: &NoValue) {}
}

/// Returns the nodes that a read of a key of this partition asks at first.
fn nodes_of_fetch(
    request: &CoverageRequest,
    partition: Partition,
    is_down: impl Fn(NodeId) -> bool,
) -> BTreeSet<NodeId> {
    let mut list = request.ring.preference_list(partition, request.copies);
    let fallbacks = list.split_off(request.ring.owners(partition, request.copies).len());
    let mut replicas = Replicas::new(list, if request.use_fallbacks { fallbacks } else { vec![] });
    replicas.mark_down(is_down);
    let needs =
        FetchNeeds { r: 1, pr: 0, node_confirms: 0, notfound_quorum: None, notfound_ok: true };
    let mut effects = Vec::new();
    Fetch::<NoValue>::new(needs, replicas).step(FetchEvent::Started, &mut effects);
    let asked = effects.into_iter().filter_map(|effect| match effect {
        FetchEffect::Ask { node, .. } => Some(node),
        _ => None,
    });
    asked.collect()
}

/// Checks a plan, partition by partition. `is_down`: which nodes are down.
fn check(request: &CoverageRequest, plan: &CoveragePlan, is_down: impl Fn(NodeId) -> bool) {
    let incomplete = plan.incomplete();
    for partition in partitions(request.ring) {
        let owners = request.ring.owners(partition, request.copies);
        let asked: BTreeSet<_> = plan
            .shares()
            .iter()
            .filter(|(_, share)| share.contains(partition))
            .map(|(node, _)| *node)
            .collect();
        let needed = request.replicas.clamp(1, owners.len());
        let of_fetch = nodes_of_fetch(request, partition, &is_down);
        let up = owners.iter().filter(|node| !is_down(**node)).count();
        let possible = of_fetch.iter().filter(|node| up > 0 && !is_down(**node)).count();
        assert_eq!(asked.len(), needed.min(possible), "partition {partition}: {asked:?}");
        assert_eq!(plan.answers(partition), asked.len());
        assert_eq!(incomplete.contains(partition), possible < needed);
        for node in &asked {
            let share = &plan.shares()[node];
            assert!(!is_down(*node), "{node} is down");
            assert!(of_fetch.contains(node), "{node}: a read of one key asks {of_fetch:?}");
            let is_owner = owners.contains(node);
            assert_eq!(share.owned.contains(partition), is_owner);
            assert_eq!(share.as_fallback.contains(partition), !is_owner);
            assert!(is_owner || up < needed, "no fallback while enough owners are up");
        }
    }
    assert!(plan.shares().values().all(|share| share.partitions().next().is_some()));
    let error = plan.check_complete().err();
    assert_eq!(
        error.as_ref().map(|it| &it.partitions),
        Some(&incomplete).filter(|it| !it.is_empty())
    );
}

#[test]
fn two_of_five_nodes_answer_for_all_partitions_with_one_replica() {
    let ring = ring_of(5, 64, 3, 0);
    let owns = |node: u64, partition| ring.owners(partition, 3).contains(&NodeId(node));
    for local in 1..=5 {
        let plan = request(&ring, 1, local).plan(|_| false);
        assert_eq!((plan.shares().len(), plan.epoch()), (2, ring.epoch()));
        let is_pair = |other| partitions(&ring).all(|it| owns(local, it) || owns(other, it));
        let share = plan.shares().get(&NodeId(local));
        assert_eq!(share.is_some(), (1..=5).any(is_pair), "the local node if one other suffices");
        if let Some(share) = share {
            let own = partitions(&ring).filter(|it| owns(local, *it));
            assert!(share.owned.iter().eq(own), "the local node answers for all that it owns");
        }
    }
}

#[test]
fn single_node_answers_alone() {
    let ring = ring_of(1, 8, 3, 0);
    let plan = request(&ring, 2, 1).plan(|_| false);
    assert_eq!(plan.shares()[&NodeId(1)].owned.to_string(), "0-7");
    assert_eq!(plan.check_complete(), Ok(()));
}

#[test]
fn local_node_that_can_not_answer_is_not_asked() {
    let ring = ring_of(3, 8, 3, 0);
    let plan = request(&ring, 2, 1).plan(|node| node.0 == 1);
    assert_eq!(plan.shares().keys().map(|node| node.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(plan.check_complete(), Ok(()));
}

#[test]
fn fallbacks_do_not_answer_where_no_owner_does() {
    let ring = ring_of(6, 64, 3, 0);
    let down = [NodeId(2), NodeId(3), NodeId(4)];
    let plan = request(&ring, 2, 1).plan(|node| down.contains(&node));
    let alone = partitions(&ring).filter(|partition| {
        let owners = ring.owners(*partition, 3);
        owners.iter().all(|node| down.contains(node))
    });
    let error = plan.check_complete().expect_err("some partition has no owner");
    assert!(error.partitions.iter().eq(alone) && !error.partitions.is_empty());
    assert_eq!(error.shortfall, Shortfall { share: Share::R, got: 0, needed: 2 });
}

#[test]
fn all_owners_are_asked_if_all_must_answer() {
    let ring = ring_of(5, 64, 3, 0);
    let plan = request(&ring, 3, 1).plan(|_| false);
    let copies: BTreeMap<_, _> =
        plan.shares().iter().map(|(node, share)| (*node, share.owned.len())).collect();
    assert_eq!(copies, ring.layout().copies(3));
}

#[test]
fn fallbacks_answer_for_owners_that_are_down() {
    let ring = ring_of(5, 64, 3, 0);
    let down = [NodeId(2), NodeId(3)];
    let request = request(&ring, 2, 1);
    let plan = request.plan(|node| down.contains(&node));
    assert_eq!(plan.check_complete(), Ok(()));
    assert_eq!(plan.shares().keys().map(|node| node.0).collect::<Vec<_>>(), [1, 4, 5]);
    assert!(plan.shares().values().any(|share| !share.as_fallback.is_empty()));
    let without = CoverageRequest { use_fallbacks: false, ..request };
    let plan = without.plan(|node| down.contains(&node));
    let short = partitions(&ring).filter(|partition| {
        let owners = ring.owners(*partition, 3);
        down.iter().all(|node| owners.contains(node))
    });
    let error = plan.check_complete().expect_err("one owner of three is up");
    assert!(error.partitions.iter().eq(short));
    assert_eq!(error.shortfall, Shortfall { share: Share::R, got: 1, needed: 2 });
    assert_eq!(
        error.to_string(),
        format!("too few replicas of partitions {} are reached", error.partitions)
    );
}

#[test]
fn replacement_by_another_ring_is_refused() {
    let ring = ring_of(4, 16, 3, 0);
    let mut plan = request(&ring, 2, 1).plan(|_| false);
    let before = plan.clone();
    let next = commit(&ring, &[join(5, 0)]);
    assert_eq!(plan.replace(NodeId(2), &request(&next, 2, 1), |_| false), None);
    assert_eq!(plan, before);
    let nothing = plan.replace(NodeId(9), &request(&ring, 2, 1), |_| false);
    assert_eq!(nothing, Some(CoverageShares::new()));
    assert_eq!(plan, before);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn plan_asks_r_replicas_of_each_partition_as_a_read_of_one_key_would(
        ring in random_ring(),
        replicas in 0..6_usize,
        local in 1..10_u64,
        down in random_nodes(6),
        use_fallbacks in any::<bool>(),
    ) {
        let request = CoverageRequest { use_fallbacks, ..request(&ring, replicas, local) };
        let plan = request.plan(|node| down.contains(&node));
        check(&request, &plan, |node| down.contains(&node));
        prop_assert_eq!(&plan, &request.plan(|node| down.contains(&node)));
        // What the local node can answer needs no request.
        if let Some(share) = plan.shares().get(&NodeId(local)) {
            let own = partitions(&ring);
            let own = own.filter(|it| ring.owners(*it, ring.n()).contains(&NodeId(local)));
            prop_assert!(share.owned.iter().eq(own));
        }
    }

    #[test]
    fn lost_nodes_are_replaced_for_their_partitions_only(
        ring in random_ring(),
        replicas in 1..4_usize,
        down in random_nodes(2),
        losses in proptest::collection::vec(2..10_u64, 1..4),
        use_fallbacks in any::<bool>(),
    ) {
        let request = CoverageRequest { use_fallbacks, ..request(&ring, replicas, 1) };
        let mut down = down;
        down.remove(&NodeId(1));
        let mut plan = request.plan(|node| down.contains(&node));
        for lost in losses.into_iter().map(NodeId) {
            let before = plan.clone();
            let added = plan.replace(lost, &request, |node| down.contains(&node));
            let added = added.expect("the same ring");
            down.insert(lost);
            let of_lost: BTreeSet<_> =
                before.shares().get(&lost).into_iter().flat_map(|it| it.partitions()).collect();
            let mut replaced = added.values().flat_map(|it| it.partitions());
            prop_assert!(replaced.all(|it| of_lost.contains(&it)));
            let mut expected = before.shares().clone();
            expected.remove(&lost);
            for (node, share) in &added {
                let all = expected.entry(*node).or_default();
                prop_assert!(share.partitions().all(|it| !all.contains(it)), "asked once");
                all.owned.extend(&share.owned);
                all.as_fallback.extend(&share.as_fallback);
            }
            prop_assert_eq!(plan.shares(), &expected);
            // Owners that were not asked before answer first, so the laws of a new plan hold.
            check_replaced(&request, &plan, |node| down.contains(&node));
        }
    }
}

/// Checks the laws of a plan with replacements: R different nodes that are up, or as many as can.
fn check_replaced(
    request: &CoverageRequest,
    plan: &CoveragePlan,
    is_down: impl Fn(NodeId) -> bool,
) {
    for partition in partitions(request.ring) {
        let owners = request.ring.owners(partition, request.copies);
        let shares = plan.shares().iter().filter(|(_, share)| share.contains(partition));
        let asked: BTreeSet<_> = shares.map(|(node, _)| *node).collect();
        let of_fetch = nodes_of_fetch(request, partition, &is_down);
        let possible = of_fetch.iter().filter(|node| !is_down(**node)).count();
        let needed = request.replicas.clamp(1, owners.len());
        match owners.iter().any(|node| !is_down(*node)) {
            true => assert_eq!(asked.len(), needed.min(possible), "{partition}: {asked:?}"),
            // Fallbacks may be left that were asked beside an owner.
            false => assert!(asked.len() < needed, "{partition}: {asked:?}"),
        }
        assert_eq!(plan.answers(partition), asked.len());
        assert_eq!(plan.incomplete().contains(partition), asked.len() < needed);
        assert!(asked.iter().all(|node| of_fetch.contains(node) && !is_down(*node)));
    }
}
