//! After a crash, a node may act on an old ring in which it still owns a partition that it has
//! handed over. A write that it takes and acknowledges then is not lost. And a row that reaches a
//! node while it hands over a partition does not stay there for as long as the ring changes.

use super::clients::ask;
use super::directory::at as of;
use super::world::World;
use base::mutants::MutantList as _;
use base::{AvailableCall, BucketName, Content, Key, NodeId, Partition, Store};
use bytes::Bytes;
use logic::ring::{Rack, RingChangeRequest, point};
use runtime::mutants::Mutant;
use std::rc::Rc;
use vnode_rows::layout::row_key;

/// Story of a key with one copy, its owner, and the node that replaces the owner.
pub(super) struct Story {
    pub world: Rc<World>,
    pub place: (BucketName, Key),
    pub old: NodeId,
    pub new: NodeId,
}

impl Story {
    /// Returns the story in the first history of this kind, without faults.
    pub(super) fn begin(fits: impl Fn(&World) -> bool) -> Story {
        let quiet = |world: &Rc<World>| {
            world.few == Some(1) && !world.judge.borrow().has_ttl && fits(world)
        };
        let world = (0..).map(World::idle).find(quiet).expect("there are many");
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

    /// Replaces the old owner by the new one.
    pub(super) fn replace_owner(&self) {
        let (old, new) = (self.old, self.new);
        assert!(self.world.begin_change(RingChangeRequest::Replace {
            old,
            new,
            rack: Rack::default()
        }));
    }

    /// Returns the partition of the key.
    pub(super) fn partition(&self) -> Partition {
        let (bucket, key) = &self.place;
        self.world.decision().ring.partition(&point(bucket.full().as_bytes(), key))
    }

    pub(super) fn at(&self, node: NodeId) -> usize {
        let decision = self.world.decision();
        decision.nodes.iter().position(|it| *it == node).expect("it is known")
    }

    /// Writes the key at a node.
    pub(super) fn write(&self, node: NodeId) {
        let (world, nth, (bucket, key)) =
            (Rc::clone(&self.world), self.at(node), self.place.clone());
        let store = Store { key, content: Content::plain("v".into()), ..Store::default() };
        self.world.scheduler.spawn(None, async move {
            let answer = ask(&world, nth, bucket, AvailableCall::Store(Box::new(store))).await;
            answer.expect("an answer").expect("it takes it");
        });
    }

    /// Returns the owner of the key's only copy according to a node's ring.
    pub(super) fn owner_by_ring_of(&self, node: NodeId) -> NodeId {
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

    /// Returns a node's row of the key.
    pub(super) fn has(&self, node: NodeId) -> Option<Bytes> {
        let nth = self.at(node);
        let nodes = self.world.nodes.borrow();
        let node = nodes[nth].running().expect("it lives");
        node.status.trees.get(&row_key(&self.place.0, &self.place.1)).expect("memory")
    }
}

/// Returns the final rows of a key at two nodes: its former owner, which handed the key over,
/// crashed, forgot that, and took a write; and its current owner.
fn rows_after_stale_write() -> [Option<Bytes>; 2] {
    let story = Story::begin(|_| true);
    let Story { world, old, new, .. } = &story;
    let which = story.at(*old);
    story.replace_owner();
    world.scheduler.run(20_000_000);
    let ring = world.decision().ring;
    assert!(
        ring.pending().is_none() && ring.leftover_partitions(*old).next().is_none(),
        "all is over"
    );

    world.crash(which);
    world.nodes.borrow_mut()[which].place.delivered = 0;
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
    world.scheduler.uninstall();
    rows
}

/// Returns true if a node keeps a row that reached it after it had handed over the key, but before
/// it heard that all nodes know of the handoff, while the ring goes on changing. `falls`: the node
/// crashes just after the row has reached it.
fn stray_is_kept(crashes: bool) -> bool {
    let story = Story::begin(|world| world.lag_us > 1_000_000);
    let Story { world, old, new, .. } = &story;
    story.write(*old);
    world.scheduler.run(1_000_000);
    assert!(story.has(*old).is_some());
    story.replace_owner();
    while story.has(*old).is_some() {
        world.scheduler.run(100);
    }
    // The new owner hears of another change before it hears that the old one is confirmed.
    of(&world.directory).renew_ring();
    let last = of(&world.directory).last();
    let decision = world.decision();
    assert!(decision.ring.leftover_partitions(*old).next().is_some(), "others do not know yet");
    let nth = story.at(*new);
    world.scheduler.run_as_node(nth, || world.nodes.borrow_mut()[nth].deliver(last, &decision));
    story.write(*new);
    world.scheduler.run(50_000);
    assert!(story.has(*old).is_some(), "it was brought here");
    if crashes {
        let (nth, last) = (story.at(*old), of(&world.directory).last());
        let cleared = world.decision().ring.leftover_partitions(*old).next().is_none();
        assert!(cleared, "that nothing is left is told, and it knows that");
        world.crash(nth);
        world.nodes.borrow_mut()[nth].place.delivered = last;
        world.start(nth);
        world.scheduler.run(50_000);
        assert!(story.has(*old).is_some(), "it was on disk");
    }
    for _ in 0..8 {
        world.scheduler.run(1_000_000);
        of(&world.directory).renew_ring();
    }
    assert!(story.has(*new).is_some());
    let retained = story.has(*old).is_some();
    world.scheduler.uninstall();
    retained
}

#[test]
fn row_written_under_an_outdated_ring_reaches_current_owner() {
    let [old, new] = rows_after_stale_write();
    assert!(old.is_none() && new.is_some());
    let rows = Mutant::DropUnownedRowsUnchecked.while_active(rows_after_stale_write);
    assert_eq!(rows, [None, None], "the rule is what makes the difference");
}

#[test]
fn row_arriving_after_handoff_is_not_kept_during_ring_change() {
    for crashes in [false, true] {
        assert!(!stray_is_kept(crashes));
        let retained = Mutant::SearchLeftoversOnce.while_active(|| stray_is_kept(crashes));
        assert!(retained, "the rule is what makes the difference");
    }
}
