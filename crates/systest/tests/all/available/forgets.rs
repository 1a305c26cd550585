//! F-44, the long form: a node loses the rows it wrote while it keeps hints for a node that is
//! down, and after the rows it deleted have been reaped.

use super::{COPIES, Done, PACE, SECOND, compare, judge_all};
use std::time::{Duration, Instant};
use systest::report::{Figures, long, skipped};
use systest::rigs::{Cluster, Options, Scratch, experiment, wait};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{ManualClient, ShownValues};

/// Number of keys of each kind: many enough that every node owns some and keeps hints for others.
const KEYS: usize = 40;
/// Kinds of keys, by the context of their second write: none, that of an old read, that of a read
/// just before.
const KINDS: [&str; 3] = ["blind", "known", "fresh"];
/// Node that loses its rows, and the node that is down meanwhile.
const FORGETS: usize = 2;
const AWAY: usize = 4;
/// Tombstones are confirmed twice, 150 s apart, page by page, before they are reaped.
const GONE_AFTER: Duration = Duration::from_secs(200);

#[test]
fn what_is_forgotten_in_a_handoff_and_after_deletes_are_gone_is_never_lost() {
    let name = "F-44 forgotten in a handoff, and after deletes are gone";
    if !long() {
        return skipped(name, "waits until tombstones are gone: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-forgets");
    let mut options = Options::of(4);
    // Anti-entropy is off; otherwise it would restore the lost rows before the next write.
    options.words.extend(["--anti-entropy-interval-ms", "0"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.share_ring();
    let trials = vec![in_a_handoff(&mut cluster), after_deletes(&mut cluster)];
    compare(&mut cluster, PACE);
    cluster.must_be_quiet();
    judge_all(&cluster.copies(COPIES), trials);
}

fn key(kind: &str, at: usize) -> String {
    format!("{kind}-{at:02}")
}

/// Writes every key through the node that will lose them; returns the contents that were read after
/// each write.
fn write_all(hand: &mut ManualClient) -> Vec<ShownValues> {
    let mut known = Vec::new();
    for kind in KINDS {
        for at in 0..KEYS {
            let (key, mut seen) = (key(kind, at), ShownValues::default());
            for _ in 0..1 + at % 3 {
                assert_eq!(hand.put(FORGETS, &key, &seen, ""), Acknowledged(()), "{key}");
                seen = hand.get(FORGETS, &key, "").expect("it is read");
            }
            known.push(seen);
        }
    }
    known
}

/// Writes every key once more through that node.
fn write_again(hand: &mut ManualClient, known: &[ShownValues]) {
    for (kind, known) in KINDS.iter().zip(known.chunks(KEYS)) {
        for (at, known) in known.iter().enumerate() {
            let key = key(kind, at);
            let seen = match *kind {
                "blind" => ShownValues::default(),
                "known" => known.clone(),
                _ => hand.get(FORGETS, &key, "").expect("it is read"),
            };
            assert_eq!(hand.put(FORGETS, &key, &seen, ""), Acknowledged(()), "{key}");
        }
    }
}

/// Removes the rows of that node; returns their number.
fn forget(cluster: &mut Cluster, place: &str) -> usize {
    assert_eq!(cluster.stop(FORGETS), Some(0));
    let lost = cluster.lose(FORGETS, place, |_| true);
    cluster.begin(FORGETS);
    lost
}

/// While one node is down, a node that wrote rows, and keeps hints of some for it, loses its own
/// rows and writes on; then it dies with these hints.
fn in_a_handoff(cluster: &mut Cluster) -> Done {
    let place = "available/handed";
    let mut figures = Figures::begin("F-44 rows lost in a handoff, then written");
    let mut hand = ManualClient::new(&cluster.clients(), place, "hand");
    cluster.kill(AWAY);
    std::thread::sleep(3 * SECOND);
    let known = write_all(&mut hand);
    let kept = cluster.hints();
    let lost = forget(cluster, place);
    hand.connect_anew();
    wait("a node that serves", || hand.get(FORGETS, "probe", "").map(|_| ()));
    write_again(&mut hand, &known);
    cluster.kill(FORGETS);
    cluster.begin(FORGETS);
    figures.faults += 3;
    cluster.begin(AWAY);
    cluster.must_settle();
    cluster.must_reach_all();
    wait("hints at home", || match cluster.hints() {
        0.0 => Ok(()),
        left => Err(left.to_string()),
    });
    figures.also("hints", kept);
    figures.also("rows_taken_away", lost);
    assert!(kept > 0.0 && lost > 0, "{kept} hints, {lost} rows lost");
    Done::of(figures, place, hand.history())
}

/// Deletes rows, which are reaped. Half of them are written anew before the node that wrote them
/// loses all its rows, and writes with its old contexts.
fn after_deletes(cluster: &mut Cluster) -> Done {
    let place = "available/reaped";
    let mut figures = Figures::begin("F-44 rows lost after deletes are gone, then written");
    let mut hand = ManualClient::new(&cluster.clients(), place, "hand");
    let known = write_all(&mut hand);
    for (kind, known) in KINDS.iter().zip(known.chunks(KEYS)) {
        for (at, seen) in known.iter().enumerate() {
            assert_eq!(hand.delete(FORGETS, &key(kind, at), seen, "w=all"), Acknowledged(()));
        }
    }
    let begun = Instant::now();
    std::thread::sleep(GONE_AFTER);
    let left = cluster.copies(COPIES).of(place).len();
    figures.also("left_of_deleted", left);
    figures.also("looked_after_ms", begun.elapsed().as_millis());
    assert_eq!(left, 0, "tombstones did not go");
    cluster.must_reach_all();
    hand.connect_anew();
    for kind in KINDS {
        for at in (0..KEYS).step_by(2) {
            let key = key(kind, at);
            assert_eq!(
                hand.put(FORGETS, &key, &ShownValues::default(), "w=all"),
                Acknowledged(()),
                "{key}"
            );
        }
    }
    let lost = forget(cluster, place);
    figures.faults += 1;
    figures.also("rows_taken_away", lost);
    assert!(lost > 0, "nothing was there to be lost");
    cluster.must_settle();
    cluster.must_reach_all();
    hand.connect_anew();
    write_again(&mut hand, &known);
    Done::of(figures, place, hand.history())
}
