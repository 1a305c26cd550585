//! A fallback that becomes the owner of a key keeps the row when its hint has been delivered.

use super::strays::Story;
use super::world::World;
use base::Properties;
use base::mutants::MutantList as _;
use dynamo::replica::ReceivedRow;
use dynamo::vnode_ops::{KeyRef, WritePolicy};
use logic::ring::RingChangeRequest;
use runtime::mutants::Mutant;
use std::cell::Cell;

/// Number of histories to try: the hint must be delivered before the fallback's vnode hears that it
/// owns the key.
const HISTORIES: u64 = 12;

/// Returns true if the next owner still has a key's row when it hears that its partition has
/// arrived. `None`: it heard that before the hint was delivered.
fn row_survives(world: u64) -> Option<bool> {
    let skipped = Cell::new(0);
    let is_large = |world: &World| world.lag_us > 1_000_000 && world.count > 4;
    let story = Story::begin(|it| is_large(it) && skipped.replace(skipped.get() + 1) == world);
    let Story { world, old, .. } = &story;
    story.write(*old);
    world.scheduler.run(1_000_000);
    let row = story.has(*old).expect("it owns it");
    assert!(world.begin_change(RingChangeRequest::Leave { node: *old }));
    let partition = story.partition();
    while world.decision().ring.owners(partition, 1) == [*old] {
        world.scheduler.run(100);
    }
    let next = world.decision().ring.owners(partition, 1)[0];
    assert!(story.has(next).is_some(), "it came");
    let nth = story.at(next);
    world.scheduler.run_as_node(nth, || {
        let nodes = world.nodes.borrow();
        let key_ref = KeyRef::new(story.place.0.clone(), story.place.1.clone());
        let policy = WritePolicy::from_properties(&Properties::available());
        let received = ReceivedRow { key_ref, policy, hint: Some(*old), row };
        let node = nodes[nth].running().expect("it lives");
        node.router.available.merge_received(0, &received).expect("it takes it");
    });
    let retained = || {
        let nodes = world.nodes.borrow();
        let retained = nodes[story.at(next)]
            .running()
            .expect("it lives")
            .router
            .available
            .vnode_store
            .pending_hints();
        retained.get(old).is_some_and(|retained| retained.rows > 0)
    };
    world.scheduler.run(20_000);
    let mut hint_delivered = false;
    while story.owner_by_ring_of(next) != next {
        hint_delivered = !retained();
        world.scheduler.run(1_000);
    }
    let has = story.has(next).is_some();
    world.scheduler.uninstall();
    hint_delivered.then_some(has)
}

#[test]
fn handed_off_row_is_kept_by_fallback_that_becomes_owner() {
    let tried: Vec<_> = (0..HISTORIES).filter_map(row_survives).collect();
    assert!(!tried.is_empty() && tried.iter().all(|has| *has), "{tried:?}");
    let tried = || (0..HISTORIES).filter_map(row_survives).collect::<Vec<_>>();
    let tried = Mutant::DropHintsAsFutureOwner.while_active(tried);
    assert!(tried.contains(&false), "the rule is what makes the difference");
}
