//! Moves to a slow group without other trouble: they end, and no later than they must.

use super::super::process::WriteTime;
use super::clients::ask;
use super::world::{GROUPS, World};
use base::{BucketId, Call, DirectoryCall};
use std::rc::Rc;

/// Time of a write to a slow disk: longer than a group's time may lag. A query may have to wait for
/// four of them, which is no longer than its timeout.
const SLOWER: WriteTime = (1_100_000, 1_200_000);
/// Rate of a clock that falls behind, in microseconds per simulated second.
const LATE: u64 = 800_000;
/// Time by which every node knows the masters, in microseconds.
const CALM_US: u64 = 3_000_000;
/// Time by which every move has ended, in microseconds.
const BOUND_US: u64 = 600_000_000;

/// Returns a history at rest, in which the two groups have different masters.
fn calm(seed: u64) -> Rc<World> {
    let world = World::quiet(seed);
    world.scheduler.run(CALM_US);
    let masters = || GROUPS.map(|group| world.master(group).expect("it is calm"));
    while let [(one, _), (other, group)] = masters()
        && one == other
    {
        let candidates = world.nodes.borrow().iter().map(|node| node.id).collect::<Vec<_>>();
        // Of four nodes, one has no part in the group.
        for successor in candidates.into_iter().filter(|successor| successor.0 as usize != one + 1)
        {
            let _ = world.scheduler.run_as_node(other, || group.hand_over(successor));
        }
        world.scheduler.run(CALM_US);
    }
    world
}

/// Moves the first bucket while every disk is slow. Returns the number of copies that were given
/// up: each copy has a new bucket id.
fn moves(world: Rc<World>) -> u32 {
    for node in world.nodes.borrow().iter() {
        *node.write_time.lock().expect("one thread") = SLOWER;
    }
    let (first, bucket) = (world.buckets.len() as u32 + 1, world.buckets[0].clone());
    let (asks, name) = (Rc::clone(&world), bucket.clone());
    world.scheduler.spawn(None, async move {
        let call = Call::Directory(DirectoryCall::MoveBucket { group: GROUPS[1] });
        ask(&asks, 0, &name, call, None).await; // The answer may take too long.
    });
    let is_alive = || {
        let node = world.running(0).expect("nobody dies");
        let found = node.router.locator.catalog.find(&bucket).expect("it is never dropped");
        (found.group == GROUPS[1]).then_some(found.id)
    };
    let id = loop {
        match is_alive() {
            Some(BucketId(id)) => break id,
            None => assert!(world.scheduler.now() < BOUND_US, "it does not end"),
        }
        world.scheduler.run(100_000);
    };
    world.scheduler.uninstall();
    id - first
}

#[test]
fn bucket_move_to_group_with_slow_disks_copies_once() {
    for seed in 0..3 {
        assert_eq!(moves(calm(seed)), 0, "seed {seed}");
    }
}

#[test]
fn bucket_move_to_group_with_slow_clock_copies_few_times_and_ends() {
    for seed in 0..3 {
        let world = calm(seed);
        let (master, _) = world.master(GROUPS[1]).expect("it is calm");
        let now = world.scheduler.now();
        world.scheduler.clock(master, |clock| clock.set_rate(now, LATE));
        // Three copies are given up because the group's time lags, and one more whenever the answer
        // to the query that starts a copy came after its timeout: one of 16 histories had four such
        // answers.
        let anew = moves(world);
        assert!((3..=8).contains(&anew), "seed {seed}: {anew} times");
    }
}
