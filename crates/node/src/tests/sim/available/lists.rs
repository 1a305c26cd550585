//! Lists of keys while nodes that take part are lost, and while the ring changes.

use super::clients::{ask, bucket, key};
use super::directory;
use super::passing::{Answers, quiet, start_call};
use super::world::World;
use crate::Node;
use base::mutants::MutantList as _;
use base::{AvailableCall, Body, Content, Key, NodeId, Reply, Store};
use logic::ring::{Rack, RingChangeRequest};
use runtime::mutants::Mutant;
use sim::{Counts, FaultTarget as _, is_long};
use std::cell::RefCell;
use std::rc::Rc;

const KEYS: usize = 40;

/// Returns a quiet cluster with [`KEYS`] keys, a node that keeps no copy of the first key, and that
/// key's first owner.
fn filled() -> (Rc<World>, usize, usize) {
    let (world, non_owner, owner) = quiet();
    write_keys(&world);
    world.scheduler.run(500_000);
    (world, non_owner, owner)
}

fn write_keys(world: &Rc<World>) {
    for number in 0..KEYS {
        let (key, content) = (key(number), Content::plain("v".into()));
        let store = Store { key, content, ..Store::default() };
        start_call(world, number % world.count, AvailableCall::Store(Box::new(store)));
    }
}

fn list() -> AvailableCall {
    AvailableCall::Keys { after: None, rows_max: 1_000 }
}

/// Returns the time of an answer, and the number of keys that it lists.
fn listed(answers: &Answers) -> (u64, usize) {
    let (when, answer) = answers.take().pop().expect("an answer");
    match answer.expect("in time") {
        Ok(Reply { body: Body::Keys(keys), .. }) => (when, keys.keys.len()),
        other => panic!("keys are listed, not {other:?}"),
    }
}

#[test]
fn listing_completes_though_a_node_crashes() {
    for other in 1..4 {
        for after_us in [0, 50, 150, 300, 600, 1_200] {
            let (world, non_owner, _) = filled();
            let lost = (non_owner + other) % world.count;
            let answers = start_call(&world, non_owner, list());
            world.scheduler.run(after_us);
            world.crash(lost);
            world.scheduler.run(900_000);
            assert_eq!(listed(&answers).1, KEYS, "{lost} ends after {after_us} us");
            world.scheduler.uninstall();
        }
    }
}

#[test]
fn listing_completes_before_link_to_a_cut_off_node_breaks() {
    let (world, non_owner, owner) = filled();
    for (from, to) in [(non_owner, owner), (owner, non_owner)] {
        world.network.cut(from, to);
    }
    let began = world.scheduler.now();
    let answers = start_call(&world, non_owner, list());
    world.scheduler.run(960_000);
    let (when, keys) = listed(&answers);
    assert!(world.network.is_linked(non_owner, owner));
    assert_eq!((keys, when - began < 950_000), (KEYS, true), "after {} us", when - began);
    world.scheduler.uninstall();
}

/// Returns the seeds of clusters whose ring can change and whose values do not
/// expire.
fn changing_seeds() -> impl Iterator<Item = u64> {
    (0..).filter(|seed| {
        let world = World::idle(*seed);
        world.moves && !world.judge.borrow().has_ttl
    })
}

/// Returns a quiet cluster with [`KEYS`] keys at all of their owners.
fn settled(seed: u64) -> Rc<World> {
    let world = World::idle(seed);
    world.network.heal();
    world.begin();
    world.scheduler.run(2_000_000);
    write_keys(&world);
    // Until all owners have them.
    world.scheduler.run(3_000_000);
    world
}

fn expected_keys() -> Vec<Key> {
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    keys.sort_unstable();
    keys
}

/// Runs work of a node to its end, and returns its result.
fn run_at<T: 'static>(
    world: &Rc<World>,
    nth: usize,
    work: impl AsyncFnOnce(Node) -> T + 'static,
) -> T {
    let node = world.nodes.borrow()[nth].running().expect("it lives").clone();
    let result = Rc::new(RefCell::new(None));
    let cell = Rc::clone(&result);
    world.scheduler.spawn(Some(nth), async move {
        cell.replace(Some(work(node).await));
    });
    while result.borrow().is_none() {
        world.scheduler.run(100_000);
    }
    result.take().expect("it has ended")
}

/// Returns the keys that a list finds if, after its first page, a node is replaced, all partitions
/// go over, and their former owner removes them.
fn listed_across_replacement(seed: u64, old: usize) -> Vec<Key> {
    let world = settled(seed);
    let ring = world.decision().ring;
    let nodes = world.decision().nodes;
    let is_placed = |node: &NodeId| ring.layout().nodes().contains_key(node);
    let new = *nodes.iter().find(|node| !is_placed(node)).expect("one is spare");
    let (mut list, mut names) = run_at(&world, 0, async |node| {
        let mut list = node.router.available.stream_keys(&bucket(), None).expect("a ring");
        let (names, more) = list.next_page(3).await.expect("all are up");
        assert!(more);
        (list, names)
    });
    let (old, rack) = (nodes[old], Rack::default());
    assert!(world.begin_change(RingChangeRequest::Replace { old, new, rack }));
    world.scheduler.run(30_000_000);
    assert_eq!(world.ring_work(), None);
    let (rest, more) = run_at(&world, 0, async move |_| {
        let page = list.next_page(1_000).await;
        page.expect("all are up")
    });
    assert!(!more);
    names.extend(rest);
    world.scheduler.uninstall();
    names
}

#[test]
fn list_across_a_change_of_the_ring_finds_each_key_once() {
    let seed = changing_seeds().find(|seed| World::idle(*seed).count > 4).expect("there are many");
    let list = |old| listed_across_replacement(seed, old);
    for old in 0..4 {
        assert_eq!(list(old), expected_keys(), "node {old} is replaced");
    }
    let misses = |old| Mutant::SendNewestRingEpoch.while_active(|| list(old)).len() < KEYS;
    assert!((1..4).any(misses), "the rule is what makes the difference");
}

/// Lists all keys again and again, each page at a random node, until the trouble ends.
async fn list_repeatedly(world: Rc<World>) {
    let expected = expected_keys();
    while world.injects_faults() {
        let mut found: Vec<Key> = Vec::new();
        let rows_max = world.scheduler.draw(|chance| chance.between(1, 50)) as usize;
        loop {
            let nth = world.scheduler.draw(|chance| chance.index(world.count));
            let call = AvailableCall::Keys { after: found.last().cloned(), rows_max };
            let answer = ask(&world, nth, bucket(), call).await;
            let Some(Ok(Reply { body: Body::Keys(page), .. })) = answer else {
                world.journal.count("list in vain");
                let pause = world.scheduler.draw(|chance| chance.between(1_000, 100_000));
                world.scheduler.sleep_us(pause).await;
                if !world.injects_faults() {
                    return;
                }
                continue;
            };
            found.extend(page.keys);
            if !page.more {
                break;
            }
            let pause = world.scheduler.draw(|chance| chance.between(1_000, 60_000));
            world.scheduler.sleep_us(pause).await;
        }
        assert_eq!(found, expected, "each key once");
        world.journal.count("list");
    }
}

/// Crashes one node after the other until the trouble ends. A node knows afterwards what it knew of
/// the directory.
async fn crash_repeatedly(world: Rc<World>) {
    while world.injects_faults() {
        let (nth, down_us, up_us) = world.scheduler.draw(|chance| {
            let (down_us, up_us) = (10_000, 1_500_000);
            let nth = chance.index(world.count);
            (nth, chance.between(down_us, up_us), chance.between(down_us, up_us))
        });
        let known = world.nodes.borrow()[nth].place.delivered;
        world.crash(nth);
        world.nodes.borrow_mut()[nth].place.delivered = known;
        world.journal.count("crash");
        world.scheduler.sleep_us(down_us).await;
        world.start(nth);
        world.scheduler.sleep_us(up_us).await;
    }
}

/// Returns the counts of a history of lists.
fn list_history(seed: u64) -> Counts {
    let world = settled(seed);
    for _ in 0..2 {
        world.scheduler.spawn(None, list_repeatedly(Rc::clone(&world)));
    }
    world.scheduler.spawn(None, crash_repeatedly(Rc::clone(&world)));
    world.scheduler.spawn(None, directory::changes(Rc::clone(&world)));
    world.scheduler.run(20_000_000);
    world.has_faults.set(false);
    world.scheduler.run(5_000_000);
    world.scheduler.uninstall();
    world.journal.outcome().1
}

#[test]
fn keys_are_listed_once_while_nodes_crash_and_the_ring_changes() {
    let mut counts = Counts::new();
    let histories = if is_long() { 500 } else { 10 };
    for history in changing_seeds().take(histories).map(list_history) {
        for (name, count) in history {
            *counts.entry(name).or_default() += count;
        }
    }
    println!("{counts:?}");
    let required = ["list", "crash", "ring join", "ring leave", "ring replace", "ring double"];
    for name in required.into_iter().chain(["ring halve", "ring change called off"]) {
        assert!(counts.get(name).is_some_and(|count| *count > 0), "{name}: {counts:?}");
    }
}
