//! A node is called according to an older ring than the one that its caller knows by now. It does
//! not take a row as owner of a key that it no longer owns; and if it did take it, the caller keeps
//! the hint.

use super::directory::at as of;
use super::strays::Story;
use base::NodeId;
use base::mutants::Mutation as _;
use dynamo::slots::SlotSpan;
use logic::ring::point;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;

impl Story {
    /// Cuts a node off from the directory.
    fn deafens(&self, node: NodeId) {
        let (which, directory) = (self.at(node), self.world.count);
        for (from, to) in [(which, directory), (directory, which)] {
            self.world.network.cut(from, to);
        }
    }

    /// Delivers a decision of the directory to a node, whether or not it has a link to it.
    fn hears(&self, node: NodeId, at: usize) {
        let decision = of(&self.world.directory).entry(at).expect("it was decided").clone();
        let which = self.at(node);
        let world = &self.world;
        world.scheduler.run_as(which, || world.nodes.borrow_mut()[which].hear(at, &decision));
    }

    /// Cuts the link between two nodes, or restores it.
    fn cut(&self, one: NodeId, other: NodeId, apart: bool) {
        let (one, other) = (self.at(one), self.at(other));
        for (from, to) in [(one, other), (other, one)] {
            match apart {
                true => self.world.network.cut(from, to),
                false => self.world.network.mend(from, to),
            }
        }
    }
}

/// Returns true if a former owner takes a row from a comparison that started under the ring in
/// which it was an owner. Its peer has crashed, briefly knew that ring again, and then the newest
/// one, of which the former owner has not heard.
fn taken_by_a_former_owner() -> bool {
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
    story.replaces();
    world.scheduler.run(20_000_000);
    let after = world.decision().ring;
    assert!(after.pending().is_none() && after.left_at(old).next().is_none(), "all is over");
    assert!(story.has(old).is_none());

    story.deafens(first);
    story.deafens(old);
    let which = story.at(first);
    world.crash(which);
    world.nodes.borrow_mut()[which].place.heard = 0;
    world.start(which);
    let node = world.nodes.borrow()[which].running().expect("it lives").clone();
    let span = SlotSpan::new(&before, before.partition(&point));
    let pairs = node.router.available.pairs(&BTreeSet::from([3])).into_iter();
    let mut pairs = pairs.filter(|((it, _), other)| *it == span && other.node == old);
    let (copies, other) = pairs.next().expect("they were a pair");
    world.scheduler.run(1_000_000);
    let known = of(&world.directory).last();
    of(&world.directory).goes_on();
    story.hears(first, known);
    story.hears(first, known + 1);
    world.scheduler.begin(Some(which), async move {
        let _ = node.router.available.compare_copies(copies, other).await;
    });
    world.scheduler.run(500_000);
    let taken = story.has(old).is_some();
    world.scheduler.leave();
    taken
}

#[test]
fn who_was_chosen_by_an_older_ring_does_not_take_what_it_keeps_no_more() {
    assert!(!taken_by_a_former_owner());
    let taken = Mutant::SaysTheNewest.while_active(taken_by_a_former_owner);
    assert!(taken, "the rule is what makes the difference");
}

/// Returns true if the current owner of a key has the row of a hint. The hint was in flight to the
/// former owner when its sender heard that the key had been handed over; the former owner had not
/// heard.
fn comes_to_who_keeps_it() -> bool {
    let story = Story::begin(|_| true);
    let Story { world, old, new, .. } = &story;
    let placed = world.decision().ring.layout().nodes().keys().copied().collect::<Vec<_>>();
    let guest = placed.into_iter().find(|node| node != old).expect("there are three");
    story.cut(guest, *old, true);
    for node in [guest, *old] {
        story.deafens(node);
    }
    world.scheduler.run(3_000_000);
    story.write(guest);
    world.scheduler.run(1_000_000);
    assert!(story.has(guest).is_some() && story.has(*old).is_none(), "it is kept for the other");
    story.replaces();
    for node in [guest, *old] {
        story.hears(node, 1);
    }
    world.scheduler.run(20_000_000);
    assert!(world.decision().ring.pending().is_none() && story.has(*new).is_none(), "it went over");

    story.cut(guest, *old, false);
    for _ in 0..50_000 {
        if story.has(*old).is_some() {
            break;
        }
        world.scheduler.run(100);
    }
    assert!(story.has(*old).is_some() && story.has(guest).is_some(), "its answer is on its way");
    let last = of(&world.directory).last();
    story.hears(guest, last);
    world.scheduler.run(1_500_000);
    assert!(story.has(guest).is_none(), "guests keep nothing");
    let came = story.has(*new).is_some();
    world.scheduler.leave();
    came
}

#[test]
fn a_hint_stays_until_who_keeps_the_key_by_now_has_the_row() {
    assert!(comes_to_who_keeps_it());
    let came = Mutant::HintGoesAnywhere.while_active(comes_to_who_keeps_it);
    assert!(!came, "the rule is what makes the difference");
}
