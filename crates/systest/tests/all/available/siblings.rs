//! F-43 and F-45: siblings that must not grow, and deletes concurrent with writes that they had not
//! seen.

use super::{Done, SECOND};
use std::collections::BTreeSet;
use systest::checkers::causal::judge;
use systest::report::{Figures, times};
use systest::rigs::{Cluster, Copies};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::SiblingAction;
use systest::workload::siblings::{ManualClient, ShownValues, SiblingHistory};

const KEYS: usize = 24;

/// Two clients write one key in turn, each with the context that it read before the other wrote.
pub fn explosion(cluster: &Cluster) -> Done {
    let (place, key) = ("available/trial43", "one");
    let mut figures = Figures::begin("F-43 sibling explosion");
    let [mut one, mut other] =
        ["one", "other"].map(|name| ManualClient::new(&cluster.clients(), place, name));
    let mut seen = ShownValues::default();
    let (mut most, mut widest) = (0, 0);
    for round in 0..times(150, 1_000) {
        let theirs = other.get(1 + round % 3, key, "").expect("it is read");
        assert_eq!(one.put(1 + (round + 1) % 3, key, &seen, ""), Acknowledged(()));
        seen = one.get(1 + (round + 2) % 3, key, "").expect("it is read");
        assert_eq!(other.put(1 + round % 3, key, &theirs, ""), Acknowledged(()));
        most = most.max(theirs.values.len()).max(seen.values.len());
        widest = widest.max(seen.context.as_ref().map_or(0, String::len));
    }
    assert!(most <= 2, "{most} siblings where two clients write");
    // Three actors: the context must not grow with the writes.
    assert!(widest <= 160, "a context of {widest} characters");
    figures.also("context_characters_most", widest);
    let mut history = one.history();
    history.join(other.history());
    Done::of(figures, place, history)
}

/// A node is down while keys are deleted, and while other clients write values that the delete had
/// not seen.
pub fn deletes(cluster: &mut Cluster) -> Done {
    let place = "available/trial45";
    let mut figures = Figures::begin("F-45 deletes with a node away");
    let mut hand = ManualClient::new(&cluster.clients(), place, "hand");
    let key = |at: usize| format!("d{at:02}");
    let mut seen = Vec::new();
    for at in 0..KEYS {
        assert_eq!(
            hand.put(1 + at % 3, &key(at), &ShownValues::default(), "w=all"),
            Acknowledged(())
        );
        seen.push(hand.get(1 + at % 3, &key(at), "").expect("it is read"));
    }
    for away in 1..=times(1, 3) {
        figures.faults += 1;
        cluster.kill(away);
        let here: Vec<_> = cluster.nodes().filter(|node| *node != away).collect();
        std::thread::sleep(SECOND);
        for at in 0..KEYS {
            let (one, other) = (here[at % 2], here[(at + 1) % 2]);
            let key = key(at);
            if at % 2 == 0 {
                // Another client had read the same context, and writes before or after the delete.
                let first = at % 4 == 0;
                let write = |hand: &mut ManualClient| hand.put(other, &key, &seen[at], "");
                if first {
                    assert_eq!(write(&mut hand), Acknowledged(()));
                }
                assert_eq!(hand.delete(one, &key, &seen[at], ""), Acknowledged(()));
                if !first {
                    assert_eq!(write(&mut hand), Acknowledged(()));
                }
            } else {
                assert_eq!(hand.delete(one, &key, &seen[at], ""), Acknowledged(()));
            }
        }
        cluster.begin(away);
        cluster.must_reach_all();
        hand.connect_anew();
        // Reads at the node that was down, from its own copy if possible, must not resurrect
        // anything.
        for at in 0..KEYS {
            let found = hand.get(away, &key(at), "r=1").expect("it is read");
            assert!(found.values.len() <= 1, "{found:?}");
        }
        cluster.must_be_quiet();
        for (at, seen) in seen.iter_mut().enumerate() {
            let found = hand.get(away, &key(at), "").expect("it is read");
            assert_eq!(found.values.len(), usize::from(at % 2 == 0), "{}: {found:?}", key(at));
            if found.values.is_empty() {
                assert_eq!(hand.put(1 + at % 3, &key(at), &found, "w=all"), Acknowledged(()));
            }
            *seen = hand.get(1 + at % 3, &key(at), "").expect("it is read");
        }
    }
    Done::of(figures, place, hand.history())
}

/// Positive control of the checker: buckets that keep only the newest value lose concurrent writes.
pub struct Control(Vec<(String, SiblingHistory)>);

impl Control {
    /// Writes each key by three clients at the same time.
    pub fn begin(cluster: &Cluster) -> Control {
        let mut histories = Vec::new();
        let buckets = [("newest", "last_write_wins=true"), ("single", "allow_mult=false")];
        for (bucket, property) in buckets {
            let place = format!("available/{bucket}");
            cluster.operate(&["bucket", "create", &place, property]);
            std::thread::sleep(SECOND / 2);
            let mut hand = ManualClient::new(&cluster.clients(), &place, bucket);
            for at in 0..KEYS {
                for node in 1..=3 {
                    let told = hand.put(node, &format!("k{at}"), &ShownValues::default(), "");
                    assert_eq!(told, Acknowledged(()));
                }
            }
            histories.push((place, hand.history()));
        }
        Control(histories)
    }

    /// Checks that the checker reports the lost writes: two of three for each key.
    pub fn judge(self, copies: &Copies) {
        let mut figures = Figures::begin("control: last_write_wins, allow_mult=false");
        for (place, history) in self.0 {
            let found = judge(&history.calls, &copies.of(&place));
            let written = history
                .calls
                .iter()
                .filter(|call| matches!(call.op.action, SiblingAction::Write(_)));
            figures.ok += written.count() as u64;
            let value = |words: &String| words.split(" at ").next().map(String::from);
            let lost: BTreeSet<_> = found.lost.iter().filter_map(value).collect();
            figures.lost += lost.len() as u64;
            assert_eq!(lost.len(), 2 * KEYS, "what such buckets lose is found: {found}");
        }
        figures.print();
    }
}
