//! Tests of the life of an index: reports in any order, moves, clears, and rings that change.

use super::super::rows::tests::definition;
use super::*;
use base::{MemberDescription, Membership};
use logic::ring::{Rack, RingChangeRequest, plan};

fn index(state: DirectoryState) -> DirectoryIndex {
    DirectoryIndex { definition: definition(7, "a"), state, complete_at: None }
}

fn building(done: u64, total: u64) -> ReportedState {
    ReportedState::Building(BuildProgress { done, total })
}

/// Returns the index behind an effect. `None`: its row is removed.
fn after(index: &DirectoryIndex, effect: RowEffect) -> Option<DirectoryIndex> {
    match effect {
        RowEffect::Keep => Some(index.clone()),
        RowEffect::Put(after) => {
            assert_ne!(after, *index, "what does not change is not written");
            Some(after)
        }
        RowEffect::Delete => None,
    }
}

fn states() -> [DirectoryState; 4] {
    let failed = DirectoryState::Failed("two keys".into());
    [DirectoryState::begin(), DirectoryState::Ready, failed, DirectoryState::Dropping]
}

fn reports() -> [ReportedState; 4] {
    let failed = ReportedState::Failed("three keys".into());
    [building(1, 2), ReportedState::Complete(2), failed, ReportedState::Removed]
}

#[test]
fn directory_follows_the_group_until_the_index_is_dropped() {
    for state in states() {
        let before = index(state.clone());
        for report in reports() {
            let found = after(&before, before.on_group_report(&report));
            let expected = match (&state, &report) {
                (DirectoryState::Dropping, ReportedState::Removed) => None,
                (DirectoryState::Dropping, _) | (_, ReportedState::Removed) => Some(state.clone()),
                (_, ReportedState::Building(progress)) => {
                    Some(DirectoryState::Building { progress: *progress, nodes: BTreeMap::new() })
                }
                (_, ReportedState::Complete(_)) => Some(DirectoryState::Ready),
                (_, ReportedState::Failed(cause)) => Some(DirectoryState::Failed(cause.clone())),
            };
            assert_eq!(found.as_ref().map(|index| &index.state), expected.as_ref(), "{report:?}");
            if let Some(found) = found {
                let again = found.on_group_report(&report);
                assert_eq!(again, RowEffect::Keep, "a repeated {report:?} changes nothing");
            }
        }
    }
}

#[test]
fn cause_of_a_failure_is_cut_at_a_character() {
    let cause = "é".repeat(INDEX_CAUSE_BYTES_MAX);
    let before = index(DirectoryState::begin());
    let RowEffect::Put(failed) = before.on_group_report(&ReportedState::Failed(cause)) else {
        panic!("it fails")
    };
    let DirectoryState::Failed(kept) = &failed.state else { panic!("{failed:?}") };
    assert_eq!(kept.len(), INDEX_CAUSE_BYTES_MAX);
    let key = super::super::rows::index_key(&base::BucketName::default(), "a");
    let row = super::super::rows::write_index(&failed);
    assert_eq!(super::super::rows::read_index(&key, &row), Ok(failed));
}

#[test]
fn moved_index_is_ready_only_if_the_target_reported_it_for_this_move() {
    let (target, former) = (BucketId(9), BucketId(8));
    for state in states() {
        for (reports, is_complete) in [
            (vec![], false),
            (vec![(target, ReportedState::Complete(1))], true),
            (vec![(former, ReportedState::Complete(1))], false),
            (vec![(target, ReportedState::Complete(1)), (target, building(0, 1))], false),
            (vec![(target, building(0, 1)), (target, ReportedState::Complete(1))], true),
        ] {
            let mut moving = index(state.clone());
            for (place, report) in &reports {
                let effect = moving.on_target_report(*place, report);
                moving = after(&moving, effect).expect("the target removes no row");
                assert_eq!(moving.state, state, "until the move ends the source counts");
            }
            let moved = after(&moving, moving.on_moved(target)).expect("it stays");
            let expected = match &state {
                DirectoryState::Dropping => DirectoryState::Dropping,
                _ if is_complete => DirectoryState::Ready,
                DirectoryState::Failed(_) => state.clone(),
                _ => DirectoryState::begin(),
            };
            assert_eq!((moved.state, moved.complete_at), (expected, None), "{reports:?}");
        }
    }
}

#[test]
fn cleared_index_begins_anew_and_a_dropped_one_is_gone() {
    for state in states() {
        let before = index(state.clone());
        let found = after(&before, before.on_clear()).map(|index| index.state);
        let is_dropped = state == DirectoryState::Dropping;
        assert_eq!(found, (!is_dropped).then(DirectoryState::begin), "{state:?}");
    }
}

fn cluster(nodes: &[u64]) -> ClusterDescription {
    let member = |node: &u64| MemberDescription {
        node: NodeId(*node),
        name: format!("n{node}"),
        peer: String::new(),
        client: String::new(),
        incarnation: 0,
        membership: Membership::Member,
    };
    let members = nodes.iter().map(member).collect();
    ClusterDescription { members, ..ClusterDescription::default() }
}

fn ring(nodes: u64, partitions: u32, n: usize) -> Ring {
    let mut ring = Ring::initial(NodeId(1), Rack::default(), partitions, n);
    let join = |node| RingChangeRequest::Join { node: NodeId(node), rack: Rack::default() };
    let joins: Vec<_> = (2..=nodes).map(join).collect();
    if !joins.is_empty() {
        ring = change(&ring, &joins);
    }
    ring
}

/// Returns the ring after these changes, all copies transferred.
fn change(ring: &Ring, changes: &[RingChangeRequest]) -> Ring {
    let planned = plan(ring, changes, ring.n(), &BTreeSet::new()).expect("a safe plan");
    let mut changed = ring.commit(&planned).expect("made for this ring");
    for partition in (0..changed.partitions()).map(Partition) {
        changed = changed.arrive(partition, &[changed.n()]).unwrap_or(changed);
    }
    changed
}

/// Law: exactly those sets of nodes cover a ring of which any quorum read of any partition can be
/// answered.
#[test]
fn covering_sets_answer_a_quorum_of_every_partition() {
    for (nodes, partitions, n) in
        [(1, 8, 3), (2, 8, 3), (3, 8, 3), (5, 16, 3), (6, 8, 2), (4, 8, 1)]
    {
        let ring = ring(nodes, partitions, n);
        for set in 0..1_u32 << nodes {
            let complete: BTreeSet<_> =
                (1..=nodes).filter(|node| set >> (node - 1) & 1 == 1).map(NodeId).collect();
            let mut is_answered = true;
            for partition in (0..partitions).map(Partition) {
                let owners = ring.owners(partition, n);
                let quorum = owners.len() / 2 + 1;
                let answers = owners.into_iter().filter(|owner| complete.contains(owner));
                is_answered &= answers.count() >= quorum;
            }
            let is_covered = is_covered_by(&ring, n, &complete);
            assert_eq!(is_covered, is_answered, "{complete:?} of {nodes} nodes, {n} copies");
        }
    }
}

/// Reports of nodes about an index, against a ring and its members.
struct Reports {
    index: DirectoryIndex,
    ring: Ring,
    members: ClusterDescription,
}

impl Reports {
    fn new(ring: Ring, members: &[u64]) -> Reports {
        Reports { index: index(DirectoryState::begin()), ring, members: cluster(members) }
    }

    fn report(&mut self, node: u64, state: &ReportedState) -> &DirectoryState {
        let covers = |nodes: &BTreeSet<NodeId>| is_covered_by(&self.ring, self.ring.n(), nodes);
        let effect = self.index.on_node_report(NodeId(node), state, &self.members, covers);
        self.index = after(&self.index, effect).expect("a node removes no row");
        &self.index.state
    }

    fn is_ready(&self) -> bool {
        self.index.state == DirectoryState::Ready
    }
}

#[test]
fn available_index_is_ready_although_a_node_is_dead() {
    let mut reports = Reports::new(ring(4, 8, 3), &[1, 2, 3, 4]);
    let complete = ReportedState::Complete(10);
    for node in [1, 2] {
        reports.report(node, &building(3, 10));
        reports.report(node, &complete);
        assert!(!reports.is_ready(), "some partition has one complete owner");
    }
    assert_eq!(reports.index.describe().state.name(), "building");
    reports.report(3, &complete);
    assert!(reports.is_ready(), "node 4 never reports");
    reports.report(4, &building(1, 10));
    assert!(reports.is_ready(), "it stays ready: node 4 itself says what it can't answer");
}

#[test]
fn progress_is_the_sum_over_members_and_forgets_nodes_that_left() {
    let mut reports = Reports::new(ring(4, 8, 3), &[1, 2, 3, 4]);
    reports.report(1, &building(3, 10));
    reports.report(2, &ReportedState::Complete(5));
    let progress = |reports: &Reports| match reports.index.describe().state {
        base::index::IndexState::Building(progress) => (progress.done, progress.total),
        state => panic!("{state:?}"),
    };
    assert_eq!(progress(&reports), (8, 15));
    reports.members = cluster(&[1, 3, 4]);
    reports.report(1, &building(4, 10));
    assert_eq!(progress(&reports), (4, 10), "node 2 left, and its rows with it");
    reports.report(2, &ReportedState::Complete(5));
    assert_eq!(progress(&reports), (4, 10), "it is no member any more");
    for (report, what) in [
        (ReportedState::Failed("x".into()), "a node has nothing that could fail"),
        (ReportedState::Removed, "and removes only what is not listed"),
    ] {
        reports.report(1, &report);
        assert_eq!(progress(&reports), (4, 10), "{what}");
    }
}

#[test]
fn repeated_report_finds_the_ring_that_a_change_left() {
    let mut reports = Reports::new(ring(4, 8, 3), &[1, 2, 3, 4]);
    for node in [1, 2] {
        reports.report(node, &ReportedState::Complete(1));
    }
    assert!(!reports.is_ready(), "some partition has one complete owner");
    let leave = RingChangeRequest::Leave { node: NodeId(3) };
    reports.ring = change(&reports.ring, &[leave]);
    reports.members = cluster(&[1, 2, 4]);
    assert!(!reports.is_ready(), "the row itself does not change with the ring");
    reports.report(2, &ReportedState::Complete(1));
    assert!(reports.is_ready(), "so nodes repeat their reports until they read `ready`");
}

#[test]
fn resize_of_the_ring_asks_for_no_new_reports() {
    for (resize, partitions) in [(RingChangeRequest::Halve, 8), (RingChangeRequest::Double, 32)] {
        let mut reports = Reports::new(ring(3, 16, 3), &[1, 2, 3]);
        reports.report(1, &ReportedState::Complete(1));
        reports.ring = change(&reports.ring, &[resize]);
        assert_eq!(reports.ring.partitions(), partitions);
        reports.report(2, &ReportedState::Complete(1));
        assert!(reports.is_ready(), "the nodes are the same: {partitions}");
    }
}
