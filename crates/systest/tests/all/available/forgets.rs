//! F-44, as it takes its time: a node forgets what it wrote while it keeps rows for one that is
//! away, and after what it deleted is gone for good.

use super::{COPIES, Done, PACE, SECOND, compare, judge_all};
use std::time::{Duration, Instant};
use systest::attentive::{Hand, ShownValues};
use systest::checkers::causal::CallAnswer;
use systest::report::{Figures, long, skipped};
use systest::rigs::{Cluster, Options, Scratch, experiment, wait};

/// Keys of each kind: many enough that every node owns some and keeps some for another.
const KEYS: usize = 40;
/// How each is written again: knowing nothing, knowing what was there before, knowing what is
/// there.
const KINDS: [&str; 3] = ["blind", "known", "fresh"];
/// Who forgets, and who is away meanwhile.
const FORGETS: usize = 2;
const AWAY: usize = 4;
/// Tombstones are asked about twice, 150 s apart, page by page.
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
    // Else what is forgotten is there again before it is written.
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

/// Writes every key through the node that is to forget them; gives what was seen of each then.
fn write_all(hand: &mut Hand) -> Vec<ShownValues> {
    let mut known = Vec::new();
    for kind in KINDS {
        for at in 0..KEYS {
            let (key, mut seen) = (key(kind, at), ShownValues::default());
            for _ in 0..1 + at % 3 {
                assert_eq!(hand.put(FORGETS, &key, &seen, ""), CallAnswer::Done, "{key}");
                seen = hand.get(FORGETS, &key, "").expect("it is read");
            }
            known.push(seen);
        }
    }
    known
}

/// Writes every key there once more.
fn write_again(hand: &mut Hand, known: &[ShownValues]) {
    for (kind, known) in KINDS.iter().zip(known.chunks(KEYS)) {
        for (at, known) in known.iter().enumerate() {
            let key = key(kind, at);
            let seen = match *kind {
                "blind" => ShownValues::default(),
                "known" => known.clone(),
                _ => hand.get(FORGETS, &key, "").expect("it is read"),
            };
            assert_eq!(hand.put(FORGETS, &key, &seen, ""), CallAnswer::Done, "{key}");
        }
    }
}

/// The node that forgets; gives how many rows it lost.
fn forget(cluster: &mut Cluster, place: &str) -> usize {
    assert_eq!(cluster.stop(FORGETS), Some(0));
    let lost = cluster.lose(FORGETS, place, |_| true);
    cluster.begin(FORGETS);
    lost
}

/// While one is away, a node that wrote rows, and keeps some of them for it, forgets its own and
/// writes on; then it dies with what it keeps in its hands.
fn in_a_handoff(cluster: &mut Cluster) -> Done {
    let place = "available/handed";
    let mut figures = Figures::begin("F-44 rows lost in a handoff, then written");
    let mut hand = Hand::new(&cluster.clients(), place, "hand");
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
    Done::of(figures, place, hand.witnessed())
}

/// Rows are deleted, and go for good. Half of them were written anew when the node that wrote them
/// forgets all it has, and writes with what it knew when it began.
fn after_deletes(cluster: &mut Cluster) -> Done {
    let place = "available/reaped";
    let mut figures = Figures::begin("F-44 rows lost after deletes are gone, then written");
    let mut hand = Hand::new(&cluster.clients(), place, "hand");
    let known = write_all(&mut hand);
    for (kind, known) in KINDS.iter().zip(known.chunks(KEYS)) {
        for (at, seen) in known.iter().enumerate() {
            assert_eq!(hand.delete(FORGETS, &key(kind, at), seen, "w=all"), CallAnswer::Done);
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
                CallAnswer::Done,
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
    Done::of(figures, place, hand.witnessed())
}
