//! What goes wrong, and when; and who sends buckets from group to group meanwhile.

use super::super::links;
use super::clients::ask;
use super::mate::{QUICK, SLOW};
use super::world::{GROUPS, World};
use base::{BucketId, Call, DirectoryCall, GroupId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The directory forgets a bucket that has left after so long, microseconds.
const FORGET_US: u64 = 1_000_000;

/// One after the other, until the trouble ends.
pub(super) async fn happen(world: Rc<World>) {
    let stage = Rc::clone(&world.stage);
    stage.rest(1_500_000).await;
    while world.is_troubled() {
        let which = victim(&world);
        let time = stage.dice(|dice| dice.between(20_000, 2_500_000));
        let kind = stage.dice(|dice| dice.below(11));
        let name = one(&world, kind, which, time);
        world.tell(|| format!("fault: {name} {which} for {time} us"));
        world.add(name, 1);
        stage.rest(stage.dice(|dice| dice.between(50_000, 1_500_000))).await;
    }
}

/// Often a master: there it hurts most.
fn victim(world: &Rc<World>) -> usize {
    let group =
        [GroupId::DIRECTORY, GROUPS[0], GROUPS[1]][world.stage.dice(|dice| dice.below(3)) as usize];
    match world.master(group) {
        Some((master, _)) if world.stage.dice(|dice| dice.often(600)) => master,
        _ => world.stage.dice(|dice| dice.below(world.count as u64)) as usize,
    }
}

fn one(world: &Rc<World>, kind: u64, which: usize, time: u64) -> &'static str {
    let stage = &world.stage;
    match kind {
        0..=2 => {
            world.crash(which);
            starts_in(world, which, time);
            "crash"
        }
        3 => {
            stage.pause(which, time);
            "pause"
        }
        4 => {
            (0..world.count).for_each(|other| cut(world, which, other, time));
            (0..world.count).for_each(|other| cut(world, other, which, time));
            "isolated"
        }
        5 => {
            let other = stage.dice(|dice| dice.below(world.count as u64)) as usize;
            cut(world, which, other, time);
            "one way cut"
        }
        6 => {
            split(world, stage.dice(|dice| dice.next()), time);
            "split"
        }
        7 => {
            let mates = world.mates.borrow();
            let mut takes = mates[which].disk_takes.lock().expect("one thread");
            *takes = if *takes == QUICK { SLOW } else { QUICK };
            "slow disk"
        }
        8 => {
            hand_over(world, which);
            "hand over"
        }
        9 if stage.dice(|dice| dice.often(300)) => {
            for which in 0..world.count {
                world.crash(which);
                starts_in(world, which, time);
            }
            "all crash"
        }
        _ => {
            world.mates.borrow()[which].flush();
            "flush"
        }
    }
}

fn cut(world: &Rc<World>, from: usize, to: usize, time: u64) {
    links::at(&world.hub).cut(from, to);
    let (hub, stage) = (world.hub.clone(), Rc::clone(&world.stage));
    world.stage.begin(None, async move {
        stage.rest(time).await;
        links::at(&hub).mend(from, to);
    });
}

fn split(world: &Rc<World>, half: u64, time: u64) {
    let side = |which: usize| half >> which & 1;
    for from in 0..world.count {
        for to in (0..world.count).filter(|to| side(*to) != side(from)) {
            cut(world, from, to, time);
        }
    }
}

fn starts_in(world: &Rc<World>, which: usize, time: u64) {
    let world = Rc::clone(world);
    Rc::clone(&world.stage).begin(None, async move {
        world.stage.rest(time).await;
        world.start(which);
    });
}

fn hand_over(world: &Rc<World>, to: usize) {
    let group = GROUPS[world.stage.dice(|dice| dice.below(2)) as usize];
    let heir = world.mates.borrow()[to].node;
    if let Some((master, group)) = world.master(group) {
        // It may be no voter, or level too late.
        let _ = world.stage.within(master, || group.hand_over(heir));
    }
}

/// Sends buckets from group to group, and calls some of them back, until the trouble ends.
pub(super) async fn send_away(world: Rc<World>) {
    let stage = Rc::clone(&world.stage);
    while world.is_troubled() {
        stage.rest(stage.dice(|dice| dice.between(100_000, 1_500_000))).await;
        let which = stage.dice(|dice| dice.below(world.count as u64)) as usize;
        let bucket = &world.buckets[stage.dice(|d| d.below(world.buckets.len() as u64)) as usize];
        let back = stage.dice(|dice| dice.often(150));
        let (call, name) = match GROUPS[stage.dice(|dice| dice.below(2)) as usize] {
            _ if back => (DirectoryCall::CancelMove, "called back"),
            group => (DirectoryCall::MoveBucket { group }, "sent"),
        };
        let answer = ask(&world, which, bucket, Call::Directory(call), None).await;
        world.tell(|| format!("{bucket} {name}: {answer:?}"));
        world.add(name, answer.is_some_and(|answer| answer.is_ok()).into());
    }
}

/// The directory forgets what left it, as the housekeeper has it do; and where buckets live is
/// noted.
pub(super) async fn keep_house(world: Rc<World>) {
    let mut seen = BTreeMap::<BucketId, u64>::new();
    loop {
        world.stage.rest(20_000).await;
        let Some((master, _)) = world.master(GroupId::DIRECTORY) else { continue };
        let Some(node) = world.running(master).filter(|_| !world.stage.is_paused(master)) else {
            continue;
        };
        for name in &world.buckets {
            let incarnations = node.router.locator.catalog.find(name).expect("it is never dropped");
            world.incarnation_id.borrow_mut().insert(incarnations.id);
        }
        let now = world.stage.now();
        world.stage.within(master, || {
            for (bucket, _) in node.router.directory.dropped().expect("memory") {
                if now >= *seen.entry(bucket).or_insert(now) + FORGET_US {
                    let _ = node.router.directory.forget_dropped(bucket); // Its lease may be over.
                }
            }
        });
    }
}
