//! A fallback that becomes the owner of a key keeps the row when its hint has been delivered.

use super::strays::Story;
use super::world::World;
use base::Properties;
use base::mutants::Mutation as _;
use dynamo::replica::ReceivedRow;
use dynamo::vnode_ops::{KeyRef, WritePolicy};
use logic::ring::RingWish;
use runtime::mutants::Mutant;
use std::cell::Cell;

/// Number of histories to try: the hint must be delivered before the fallback's vnode hears that it
/// owns the key.
const TRIED: u64 = 12;

/// Returns true if the next owner still has a key's row when it hears that its partition has
/// arrived. `None`: it heard that before the hint was delivered.
fn has_it_still(world: u64) -> Option<bool> {
    let skipped = Cell::new(0);
    let fits = |world: &World| world.lag_us > 1_000_000 && world.count > 4;
    let story = Story::begin(|it| fits(it) && skipped.replace(skipped.get() + 1) == world);
    let Story { world, old, .. } = &story;
    story.write(*old);
    world.scheduler.run(1_000_000);
    let row = story.has(*old).expect("it owns it");
    assert!(world.begin_change(RingWish::Leave { node: *old }));
    let partition = story.partition();
    while world.decision().ring.owners(partition, 1) == [*old] {
        world.scheduler.run(100);
    }
    let next = world.decision().ring.owners(partition, 1)[0];
    assert!(story.has(next).is_some(), "it came");
    let which = story.at(next);
    world.scheduler.run_as(which, || {
        let nodes = world.nodes.borrow();
        let key_ref = KeyRef::new(story.place.0.clone(), story.place.1.clone());
        let policy = WritePolicy::of(&Properties::available());
        let brought = ReceivedRow { key_ref, policy, hint: Some(*old), row };
        let node = nodes[which].running().expect("it lives");
        node.router.available.take(0, &brought).expect("it takes it");
    });
    let kept = || {
        let nodes = world.nodes.borrow();
        let kept =
            nodes[story.at(next)].running().expect("it lives").router.available.vnode_store.kept();
        kept.get(old).is_some_and(|kept| kept.rows > 0)
    };
    world.scheduler.run(20_000);
    let mut went_home = false;
    while story.owner_as_heard_by(next) != next {
        went_home = !kept();
        world.scheduler.run(1_000);
    }
    let has = story.has(next).is_some();
    world.scheduler.leave();
    went_home.then_some(has)
}

#[test]
fn what_went_home_stays_with_who_owns_it_next() {
    let tried: Vec<_> = (0..TRIED).filter_map(has_it_still).collect();
    assert!(!tried.is_empty() && tried.iter().all(|has| *has), "{tried:?}");
    let tried = || (0..TRIED).filter_map(has_it_still).collect::<Vec<_>>();
    let tried = Mutant::GuestsForget.while_active(tried);
    assert!(tried.contains(&false), "the rule is what makes the difference");
}
