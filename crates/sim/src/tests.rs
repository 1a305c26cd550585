//! Tests of the engine itself.

use crate::{Counts, EventQueue, FaultProfile, FaultyNetwork, Inbox, NetworkEnd, Posting};
use crate::{Scheduler, SimClock, run_seeds};
use base::NodeId;
use runtime::world;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NODES: usize = 2;

fn scheduler() -> Rc<Scheduler> {
    let clocks = [SimClock::new(5, 1_000_000), SimClock::new(0, 500_000)];
    Scheduler::install(7, clocks.to_vec())
}

#[test]
fn simultaneous_events_run_in_scheduling_order() {
    let mut queue = EventQueue::default();
    for (delay, event) in [(3, 'c'), (1, 'a'), (3, 'd'), (2, 'b')] {
        queue.schedule_after(delay, event);
    }
    let events: String = std::iter::from_fn(|| queue.next_until(3)).collect();
    assert_eq!((events.as_str(), queue.now()), ("abcd", 3));
    queue.schedule_at(5, 'e');
    queue.schedule_at(5, 'f');
    assert_eq!((queue.next_until(4), queue.now()), (None, 4));
    queue.postpone_first();
    assert_eq!(queue.next_until(5), Some('f'));
}

#[test]
fn node_sleeps_by_its_own_clock_and_not_while_paused() {
    let (scheduler, woke) = (scheduler(), Rc::new(RefCell::new(Vec::new())));
    for node in 0..NODES {
        let (notes, at) = (Rc::clone(&woke), Rc::clone(&scheduler));
        scheduler.spawn(Some(node), async move {
            world::sleep(Duration::from_micros(100)).await;
            notes.borrow_mut().push((node, at.now(), world::nanoseconds()));
        });
    }
    scheduler.pause(0, 300);
    scheduler.run(1_000);
    assert_eq!(*woke.borrow(), [(1, 200, 100_000), (0, 400, 405_000)]);
    scheduler.uninstall();
}

#[derive(Default)]
struct Received(Mutex<Vec<u32>>);

impl Inbox<u32> for Received {
    fn deliver(&self, _from: NodeId, _incarnation: u64, message: u32) {
        self.0.lock().expect("one thread").push(message);
    }
    fn connected(&self, _node: NodeId, _incarnation: u64) {}
    fn broken(&self, _node: NodeId) {}
}

#[test]
fn message_arrives_once_unless_link_is_cut_or_receiver_restarts() {
    let (scheduler, received) = (scheduler(), Arc::new(Received::default()));
    let network = FaultyNetwork::new(NODES, FaultProfile::calm());
    let begin = |node: usize, incarnation| {
        let inbox = received.clone();
        let id = NodeId(node as u64);
        network.start_node(node, NetworkEnd { node: id, incarnation, process: incarnation, inbox });
    };
    (0..NODES).for_each(|node| begin(node, 1));
    scheduler.spawn(None, network.clone().run());
    scheduler.run(1_000);
    let send = |message| {
        let link = network.link(0, NodeId(1)).expect("they are linked");
        network.send(&Posting { link, may_repeat: true, may_be_stale: true }, &message);
    };
    send(1);
    scheduler.run(1_000);
    network.cut_for([(0, 1)].into_iter(), 1_000);
    send(2);
    scheduler.run(2_000);
    send(3);
    network.stop_node(1);
    begin(1, 2);
    scheduler.run(200_000);
    send(4);
    scheduler.run(1_000);
    assert_eq!(*received.0.lock().expect("one thread"), [1, 4]);
    scheduler.uninstall();
}

#[test]
fn seed_run_result_is_independent_of_thread_count() {
    let history = |seed| (seed * seed, Counts::from([("seeds", 1), ("sum", seed)]));
    let (digest, counts) = run_seeds(0..10, 1, history);
    assert_eq!((digest, counts.clone()), run_seeds(0..10, 3, history));
    assert_eq!(counts, Counts::from([("seeds", 10), ("sum", 45)]));
    assert_ne!(digest, run_seeds(1..11, 1, history).0);
}
