//! A node that has fallen goes by a ring of long ago, in which it still keeps what it has let go
//! of: what it takes and acknowledges then, and nobody else has, is not lost. And what a node is
//! brought while it lets go of a partition does not stay there for as long as the ring changes.

use super::clients::ask;
use super::directory::at as of;
use super::world::World;
use base::mutants::Mutation as _;
use base::{AvailableCall, BucketName, Content, Key, NodeId, Partition, Store};
use bytes::Bytes;
use dynamo::layout::row_key;
use logic::ring::{Rack, RingWish, point};
use runtime::mutants::Mutant;
use std::rc::Rc;

/// A key with one copy, who has it, and who is to have it.
pub(super) struct Story {
    pub world: Rc<World>,
    pub place: (BucketName, Key),
    pub old: NodeId,
    pub new: NodeId,
}

impl Story {
    /// The first world of those that fit in which nothing is wrong.
    pub(super) fn begin(fits: impl Fn(&World) -> bool) -> Story {
        let quiet =
            |world: &Rc<World>| world.few == Some(1) && !world.judge.borrow().mortal && fits(world);
        let world = (0..).map(World::still).find(quiet).expect("there are many");
        world.network.heal();
        world.begin();
        world.scheduler.run(2_000_000);
        let place = world.place(0);
        let decision = world.decision();
        let partition = decision.ring.partition(&point(place.0.full().as_bytes(), &place.1));
        let old = decision.ring.owners(partition, 1)[0];
        let new =
            decision.nodes.iter().find(|node| !decision.ring.layout().nodes().contains_key(node));
        let new = *new.expect("one is spare");
        Story { world, place, old, new }
    }

    /// One takes the place of the other.
    pub(super) fn replaces(&self) {
        let (old, new) = (self.old, self.new);
        assert!(self.world.begin_change(RingWish::Replace { old, new, rack: Rack::default() }));
    }

    /// Where the key lies.
    pub(super) fn partition(&self) -> Partition {
        let (bucket, key) = &self.place;
        self.world.decision().ring.partition(&point(bucket.full().as_bytes(), key))
    }

    pub(super) fn at(&self, node: NodeId) -> usize {
        let decision = self.world.decision();
        decision.nodes.iter().position(|it| *it == node).expect("it is known")
    }

    /// A client writes at a node.
    pub(super) fn write(&self, node: NodeId) {
        let (world, which, (bucket, key)) =
            (Rc::clone(&self.world), self.at(node), self.place.clone());
        let store = Store { key, content: Content::plain("v".into()), ..Store::default() };
        self.world.scheduler.begin(None, async move {
            let answer = ask(&world, which, bucket, AvailableCall::Store(Box::new(store))).await;
            answer.expect("an answer").expect("it takes it");
        });
    }

    /// Who owns the key's only copy, as a node has heard.
    pub(super) fn owner_as_heard_by(&self, node: NodeId) -> NodeId {
        let nodes = self.world.nodes.borrow();
        let ring = nodes[self.at(node)]
            .running()
            .expect("it lives")
            .router
            .locator
            .catalog
            .available
            .ring();
        ring.expect("a ring").owners(self.partition(), 1)[0]
    }

    /// What a node has of the key.
    pub(super) fn has(&self, node: NodeId) -> Option<Bytes> {
        let which = self.at(node);
        let nodes = self.world.nodes.borrow();
        let node = nodes[which].running().expect("it lives");
        node.status.trees.get(&row_key(&self.place.0, &self.place.1)).expect("memory")
    }
}

/// What two nodes have of a key in the end: one that kept its only copy, let it go, fell, forgot
/// that, and took a write; and the one that keeps it now.
fn taken_by_a_ring_of_long_ago() -> [Option<Bytes>; 2] {
    let story = Story::begin(|_| true);
    let Story { world, old, new, .. } = &story;
    let which = story.at(*old);
    story.replaces();
    world.scheduler.run(20_000_000);
    let ring = world.decision().ring;
    assert!(ring.pending().is_none() && ring.left_at(*old).next().is_none(), "all is over");

    world.crash(which);
    world.nodes.borrow_mut()[which].place.heard = 0;
    let directory = world.count;
    for (from, to) in [(which, directory), (directory, which)] {
        world.network.cut(from, to);
    }
    world.start(which);
    world.scheduler.run(1_000_000);
    story.write(*old);
    world.scheduler.run(500_000);
    assert!(story.has(*old).is_some() && story.has(*new).is_none(), "nobody else has it");
    world.network.heal();
    world.scheduler.run(20_000_000);
    let rows = [story.has(*old), story.has(*new)];
    world.scheduler.leave();
    rows
}

/// Whether a node keeps what it was brought when it had let go of a key and had not heard yet that
/// others know, while the ring goes on changing; it may fall in the moment in which it was brought
/// it.
fn kept_while_the_ring_changes(falls: bool) -> bool {
    let story = Story::begin(|world| world.lag_us > 1_000_000);
    let Story { world, old, new, .. } = &story;
    story.write(*old);
    world.scheduler.run(1_000_000);
    assert!(story.has(*old).is_some());
    story.replaces();
    while story.has(*old).is_some() {
        world.scheduler.run(100);
    }
    // Who has the key now hears of a change elsewhere before it hears of that.
    of(&world.directory).goes_on();
    let last = of(&world.directory).last();
    let decision = world.decision();
    assert!(decision.ring.left_at(*old).next().is_some(), "others do not know yet");
    let which = story.at(*new);
    world.scheduler.run_as(which, || world.nodes.borrow_mut()[which].hear(last, &decision));
    story.write(*new);
    world.scheduler.run(50_000);
    assert!(story.has(*old).is_some(), "it was brought here");
    if falls {
        let (which, last) = (story.at(*old), of(&world.directory).last());
        let cleared = world.decision().ring.left_at(*old).next().is_none();
        assert!(cleared, "that nothing is left is told, and it knows that");
        world.crash(which);
        world.nodes.borrow_mut()[which].place.heard = last;
        world.start(which);
        world.scheduler.run(50_000);
        assert!(story.has(*old).is_some(), "it was on disk");
    }
    for _ in 0..8 {
        world.scheduler.run(1_000_000);
        of(&world.directory).goes_on();
    }
    assert!(story.has(*new).is_some());
    let kept = story.has(*old).is_some();
    world.scheduler.leave();
    kept
}

#[test]
fn what_was_taken_by_a_ring_of_long_ago_goes_to_who_keeps_it_now() {
    let [old, new] = taken_by_a_ring_of_long_ago();
    assert!(old.is_none() && new.is_some());
    let rows = Mutant::DropsStrays.while_active(taken_by_a_ring_of_long_ago);
    assert_eq!(rows, [None, None], "the rule is what makes the difference");
}

#[test]
fn what_is_brought_to_who_has_just_let_go_does_not_stay() {
    for falls in [false, true] {
        assert!(!kept_while_the_ring_changes(falls));
        let kept = Mutant::LooksOnce.while_active(|| kept_while_the_ring_changes(falls));
        assert!(kept, "the rule is what makes the difference");
    }
}
