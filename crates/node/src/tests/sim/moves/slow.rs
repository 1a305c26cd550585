//! Moves to a group that is slow, without other trouble: they end, and no later than they must.

use super::super::process::WriteTime;
use super::clients::ask;
use super::world::{GROUPS, World};
use base::{BucketId, Call, DirectoryCall};
use std::rc::Rc;

/// A sync takes longer than a group's time may be behind; four, which a question may have to wait
/// for, take no longer than that is asked.
const SLOWER: WriteTime = (1_100_000, 1_200_000);
/// How fast a clock goes that falls behind on the way, in millionths.
const LATE: u64 = 800_000;
/// By then everyone knows who is master, microseconds.
const CALM_US: u64 = 3_000_000;
/// By then every move has ended, microseconds.
const BOUND_US: u64 = 600_000_000;

/// A world at rest, in which the two groups have masters of their own.
fn calm(seed: u64) -> Rc<World> {
    let world = World::quiet(seed);
    world.scheduler.run(CALM_US);
    let masters = || GROUPS.map(|group| world.master(group).expect("it is calm"));
    while let [(one, _), (other, group)] = masters()
        && one == other
    {
        let heirs = world.nodes.borrow().iter().map(|node| node.id).collect::<Vec<_>>();
        // Of four nodes one has no part in the group.
        for heir in heirs.into_iter().filter(|heir| heir.0 as usize != one + 1) {
            let _ = world.scheduler.run_as(other, || group.hand_over(heir));
        }
        world.scheduler.run(CALM_US);
    }
    world
}

/// Has the first bucket moved while every disk is slow. The number it has then, counted from the
/// one that the move began with.
fn moves(world: Rc<World>) -> u32 {
    for node in world.nodes.borrow().iter() {
        *node.disk_takes.lock().expect("one thread") = SLOWER;
    }
    let (first, bucket) = (world.buckets.len() as u32 + 1, world.buckets[0].clone());
    let (asks, name) = (Rc::clone(&world), bucket.clone());
    world.scheduler.begin(None, async move {
        let call = Call::Directory(DirectoryCall::MoveBucket { group: GROUPS[1] });
        ask(&asks, 0, &name, call, None).await; // The answer may take too long.
    });
    let lives = || {
        let node = world.running(0).expect("nobody dies");
        let found = node.router.locator.catalog.find(&bucket).expect("it is never dropped");
        (found.group == GROUPS[1]).then_some(found.id)
    };
    let id = loop {
        match lives() {
            Some(BucketId(id)) => break id,
            None => assert!(world.scheduler.now() < BOUND_US, "it does not end"),
        }
        world.scheduler.run(100_000);
    };
    world.scheduler.leave();
    id - first
}

#[test]
fn a_bucket_that_moves_to_a_group_with_slow_disks_is_copied_once() {
    for seed in 0..3 {
        assert_eq!(moves(calm(seed)), 0, "seed {seed}");
    }
}

#[test]
fn a_bucket_that_moves_to_a_group_whose_time_falls_behind_is_copied_a_few_times_and_arrives() {
    for seed in 0..3 {
        let world = calm(seed);
        let (master, _) = world.master(GROUPS[1]).expect("it is calm");
        let now = world.scheduler.now();
        world.scheduler.clock(master, |clock| clock.set_rate(now, LATE));
        // Three copies are given up for the time that fell behind, and one more each time that the
        // answer to the question that begins a copy came after its asker had given up waiting for
        // it: of 16 histories one saw that four times.
        let anew = moves(world);
        assert!((3..=8).contains(&anew), "seed {seed}: {anew} times");
    }
}
