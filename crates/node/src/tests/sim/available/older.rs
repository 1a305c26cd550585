//! A node is called according to an older ring than the one that its caller knows by now. It does
//! not take a row as owner of a key that it no longer owns; and if it did take it, the caller keeps
//! the hint.

use super::directory::at as of;
use super::strays::Story;
use base::NodeId;
use base::mutants::MutantList as _;
use logic::ring::point;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use vnode_rows::slots::SlotSpan;

impl Story {
    /// Cuts a node off from the directory.
    fn cut_from_directory(&self, node: NodeId) {
        let (nth, directory) = (self.at(node), self.world.count);
        for (from, to) in [(nth, directory), (directory, nth)] {
            self.world.network.cut(from, to);
        }
    }

    /// Delivers a decision of the directory to a node, whether or not it has a link to it.
    fn deliver_decision(&self, node: NodeId, at: usize) {
        let decision = of(&self.world.directory).entry(at).expect("it was decided").clone();
        let nth = self.at(node);
        let world = &self.world;
        world.scheduler.run_as_node(nth, || world.nodes.borrow_mut()[nth].deliver(at, &decision));
    }

    /// Cuts the link between two nodes, or restores it.
    fn cut(&self, one: NodeId, other: NodeId, is_cut: bool) {
        let (one, other) = (self.at(one), self.at(other));
        for (from, to) in [(one, other), (other, one)] {
            match is_cut {
                true => self.world.network.cut(from, to),
                false => self.world.network.mend(from, to),
            }
        }
    }
}

/// Returns true if a former owner takes a row from a comparison that started under the ring in
/// which it was an owner. Its peer has crashed, briefly knew that ring again, and then the newest
/// one, of which the former owner has not heard.
fn former_owner_accepts_row() -> bool {
    let mut story = Story::begin(|_| true);
    story.place = story.world.place(1);
    let point = point(story.place.0.full().as_bytes(), &story.place.1);
    let before = story.world.decision().ring;
    let owners = before.owners(before.partition(&point), 3);
    story.old = owners[2];
    let Story { world, old, .. } = &story;
    let (first, old) = (owners[0], *old);
    story.write(first);
    world.scheduler.run(1_000_000);
    assert!(story.has(first).is_some() && story.has(old).is_some());
    story.replace_owner();
    world.scheduler.run(20_000_000);
    let after = world.decision().ring;
    assert!(
        after.pending().is_none() && after.leftover_partitions(old).next().is_none(),
        "all is over"
    );
    assert!(story.has(old).is_none());

    story.cut_from_directory(first);
    story.cut_from_directory(old);
    let nth = story.at(first);
    world.crash(nth);
    world.nodes.borrow_mut()[nth].place.delivered = 0;
    world.start(nth);
    let node = world.nodes.borrow()[nth].running().expect("it lives").clone();
    let span = SlotSpan::new(&before, before.partition(&point));
    let pairs = node.router.available.comparison_pairs(&BTreeSet::from([3])).into_iter();
    let mut pairs = pairs.filter(|((it, _), other)| *it == span && other.node == old);
    let (copies, other) = pairs.next().expect("they were a pair");
    world.scheduler.run(1_000_000);
    let known = of(&world.directory).last();
    of(&world.directory).renew_ring();
    story.deliver_decision(first, known);
    story.deliver_decision(first, known + 1);
    world.scheduler.spawn(Some(nth), async move {
        let _ = node.router.available.compare_copies(copies, other).await;
    });
    world.scheduler.run(500_000);
    let accepted = story.has(old).is_some();
    world.scheduler.uninstall();
    accepted
}

#[test]
fn former_owner_refuses_row_sent_under_an_older_ring() {
    assert!(!former_owner_accepts_row());
    let accepted = Mutant::SendNewestRingEpoch.while_active(former_owner_accepts_row);
    assert!(accepted, "the rule is what makes the difference");
}

/// Returns true if the current owner of a key has the row of a hint. The hint was in flight to the
/// former owner when its sender heard that the key had been handed over; the former owner had not
/// heard.
fn hint_reaches_current_owner() -> bool {
    let story = Story::begin(|_| true);
    let Story { world, old, new, .. } = &story;
    let placed = world.decision().ring.layout().nodes().keys().copied().collect::<Vec<_>>();
    let fallback = placed.into_iter().find(|node| node != old).expect("there are three");
    story.cut(fallback, *old, true);
    for node in [fallback, *old] {
        story.cut_from_directory(node);
    }
    world.scheduler.run(3_000_000);
    story.write(fallback);
    world.scheduler.run(1_000_000);
    assert!(story.has(fallback).is_some() && story.has(*old).is_none(), "it is kept for the other");
    story.replace_owner();
    for node in [fallback, *old] {
        story.deliver_decision(node, 1);
    }
    world.scheduler.run(20_000_000);
    assert!(world.decision().ring.pending().is_none() && story.has(*new).is_none(), "it went over");

    story.cut(fallback, *old, false);
    for _ in 0..50_000 {
        if story.has(*old).is_some() {
            break;
        }
        world.scheduler.run(100);
    }
    assert!(story.has(*old).is_some() && story.has(fallback).is_some(), "its answer is on its way");
    let last = of(&world.directory).last();
    story.deliver_decision(fallback, last);
    world.scheduler.run(1_500_000);
    assert!(story.has(fallback).is_none(), "guests keep nothing");
    let arrived = story.has(*new).is_some();
    world.scheduler.uninstall();
    arrived
}

#[test]
fn hint_stays_until_current_owner_has_the_row() {
    assert!(hint_reaches_current_owner());
    let arrived = Mutant::DeleteHintDespiteOtherOwners.while_active(hint_reaches_current_owner);
    assert!(!arrived, "the rule is what makes the difference");
}
