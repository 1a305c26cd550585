//! An idle cluster: how often its nodes wake, and what they send. `docs/inside/idle.md` lists the
//! reasons.

use super::node::LEASE_MS;
use super::world::{GROUPS, World};
use crate::startup::start_node_loops;
use base::GroupId;
use std::rc::Rc;

/// Time by which masters are spread and rows of members are written, in seconds.
const SETTLE_S: u64 = 60;
/// Time for which the cluster is watched, in seconds.
const WATCH_S: u64 = 60;
/// Most wake-ups a second of a node by the timers of its loops: those with a period of 250 ms, and
/// all others together with them.
const LOOP_WAKE_UPS: u64 = 4;
/// Number of heartbeats a second.
const HEARTBEATS: u64 = 6 * 1_000 / LEASE_MS;

/// Counts of a node at a moment: wake-ups by timers, messages, and writes by which they leave.
fn counts(world: &World, node: usize) -> [u64; 3] {
    let others = (0..world.count).filter(|other| *other != node);
    let sent = others.map(|other| world.network.sent(node, other));
    let [messages, writes] = sent
        .map(|sent| [sent.messages, sent.writes])
        .fold([0, 0], |sum, sent| [sum[0] + sent[0], sum[1] + sent[1]]);
    [world.scheduler.wake_ups(node).instants, messages, writes]
}

/// Returns a cluster without faults and clients, with all background tasks, some time after its
/// start.
fn settled(seed: u64) -> Rc<World> {
    let world = World::quiet(seed);
    world.heal();
    for nth in 0..world.count {
        let node = world.running(nth).expect("it lives");
        world.scheduler.run_as_node(nth, || start_node_loops(&node, true));
    }
    world.scheduler.run(SETTLE_S * 1_000_000);
    world
}

/// Returns the number of other members of each group that a node leads.
fn followers(world: &World, node: usize) -> Vec<u64> {
    let led = GROUPS.into_iter().chain([GroupId::DIRECTORY]).filter_map(|group| {
        let (master, group) = world.master(group).expect("it is calm");
        (master == node).then(|| group.configuration().members().len() as u64 - 1)
    });
    led.collect()
}

/// Returns the number of groups in which a node follows a master.
fn followed(world: &World, node: usize) -> u64 {
    let groups = world.running(node).expect("it lives").router.locator.groups.all();
    let is_member = |group: &&std::sync::Arc<replication::group::Group>| {
        group.leadership.is_member() && !group.leadership.is_master()
    };
    groups.iter().filter(is_member).count() as u64
}

#[test]
fn idle_node_wakes_for_heartbeats_and_its_loops_alone() {
    for seed in 0..4 {
        let world = settled(seed);
        let ballots = |world: &World| -> Vec<_> {
            let groups = GROUPS.into_iter().chain([GroupId::DIRECTORY]);
            let ballot =
                |group| world.master(group).expect("it is calm").1.state().replica.promised();
            groups.map(ballot).collect()
        };
        let before = ballots(&world);
        let began: Vec<_> = (0..world.count).map(|node| counts(&world, node)).collect();
        world.scheduler.run(WATCH_S * 1_000_000);
        assert_eq!(before, ballots(&world), "no master changes");
        for (node, began) in began.iter().enumerate() {
            let now = counts(&world, node);
            let [wake_ups, messages, writes] = [0, 1, 2].map(|at| now[at] - began[at]);
            let followers = followers(&world, node);
            println!("seed {seed}, node {node}, {followers:?}: {wake_ups} {messages} {writes}");
            // A master's timers are those of its heartbeats: all groups have them at once.
            let beats = if followers.is_empty() { 0 } else { HEARTBEATS };
            let wake_ups_max = (beats + LOOP_WAKE_UPS) * WATCH_S + WATCH_S / 4;
            assert!(wake_ups <= wake_ups_max, "{wake_ups} wake-ups of node {node}");
            // Heartbeats to each follower, and answers to those of other masters.
            let heartbeats = followers.iter().sum::<u64>() * HEARTBEATS;
            let answers = followed(&world, node) * HEARTBEATS;
            let messages_max = (heartbeats + answers) * WATCH_S + WATCH_S;
            assert!(messages <= messages_max, "{messages} messages of node {node}");
            // The heartbeats of all groups leave in one write to each follower.
            let peers = (world.count as u64 - 1) * beats;
            let writes_max = (peers + answers) * WATCH_S + WATCH_S;
            assert!(writes <= writes_max, "{writes} writes of node {node}");
        }
        world.scheduler.uninstall();
    }
}
