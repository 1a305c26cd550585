//! F-43 and F-45: siblings that must not grow, and deletes concurrent with writes that they had not
//! seen.

use super::{FinishedTrial, SECOND};
use std::collections::BTreeSet;
use systest::checkers::causal::judge;
use systest::cluster::{Cluster, Copies};
use systest::report::{Figures, short_or_long};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::SiblingAction;
use systest::workload::siblings::{ManualClient, ReadValues, SiblingHistory};

const KEYS: usize = 24;

/// Two clients write one key in turn, each with the context that it read before the other wrote.
pub fn interleave_writes(cluster: &Cluster) -> FinishedTrial {
    let (bucket_path, key) = ("available/trial43", "one");
    let mut figures = Figures::start("F-43 sibling explosion");
    let [mut one, mut other] = ["one", "other"]
        .map(|name| ManualClient::new(&cluster.client_addresses(), bucket_path, name));
    let mut one_read = ReadValues::default();
    let (mut most_siblings, mut largest_context) = (0, 0);
    for round in 0..short_or_long(150, 1_000) {
        let other_read = other.get(1 + round % 3, key, "").expect("it is read");
        assert_eq!(one.put(1 + (round + 1) % 3, key, &one_read, ""), Acknowledged(()));
        one_read = one.get(1 + (round + 2) % 3, key, "").expect("it is read");
        assert_eq!(other.put(1 + round % 3, key, &other_read, ""), Acknowledged(()));
        most_siblings = most_siblings.max(other_read.values.len()).max(one_read.values.len());
        largest_context = largest_context.max(one_read.context.as_ref().map_or(0, String::len));
    }
    assert!(most_siblings <= 2, "{most_siblings} siblings where two clients write");
    // Three actors: the context must not grow with the writes.
    assert!(largest_context <= 160, "a context of {largest_context} characters");
    figures.add("context_characters_most", largest_context);
    let mut history = one.history();
    history.join(other.history());
    FinishedTrial::new(figures, bucket_path, history)
}

/// A node is down while keys are deleted, and while other clients write values that the delete had
/// not seen.
pub fn delete_concurrently(cluster: &mut Cluster) -> FinishedTrial {
    let bucket_path = "available/trial45";
    let mut figures = Figures::start("F-45 deletes with a node away");
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "hand");
    let key = |at: usize| format!("d{at:02}");
    let mut seen = Vec::new();
    for at in 0..KEYS {
        assert_eq!(
            client.put(1 + at % 3, &key(at), &ReadValues::default(), "w=all"),
            Acknowledged(())
        );
        seen.push(client.get(1 + at % 3, &key(at), "").expect("it is read"));
    }
    for down in 1..=short_or_long(1, 3) {
        figures.faults += 1;
        cluster.kill(down);
        let live_nodes: Vec<_> = cluster.nodes().filter(|node| *node != down).collect();
        std::thread::sleep(SECOND);
        for at in 0..KEYS {
            let (one, other) = (live_nodes[at % 2], live_nodes[(at + 1) % 2]);
            let key = key(at);
            if at % 2 == 0 {
                // Another client had read the same context, and writes before or after the delete.
                let before_delete = at % 4 == 0;
                let write = |client: &mut ManualClient| client.put(other, &key, &seen[at], "");
                if before_delete {
                    assert_eq!(write(&mut client), Acknowledged(()));
                }
                assert_eq!(client.delete(one, &key, &seen[at], ""), Acknowledged(()));
                if !before_delete {
                    assert_eq!(write(&mut client), Acknowledged(()));
                }
            } else {
                assert_eq!(client.delete(one, &key, &seen[at], ""), Acknowledged(()));
            }
        }
        cluster.start_node(down);
        cluster.must_suspect_none();
        client.drop_connections();
        // Reads at the node that was down, from its own copy if possible, must not resurrect
        // anything.
        for at in 0..KEYS {
            let read_values = client.get(down, &key(at), "r=1").expect("it is read");
            assert!(read_values.values.len() <= 1, "{read_values:?}");
        }
        cluster.must_finish_repair();
        for (at, seen) in seen.iter_mut().enumerate() {
            let read_values = client.get(down, &key(at), "").expect("it is read");
            assert_eq!(
                read_values.values.len(),
                usize::from(at % 2 == 0),
                "{}: {read_values:?}",
                key(at)
            );
            if read_values.values.is_empty() {
                assert_eq!(
                    client.put(1 + at % 3, &key(at), &read_values, "w=all"),
                    Acknowledged(())
                );
            }
            *seen = client.get(1 + at % 3, &key(at), "").expect("it is read");
        }
    }
    FinishedTrial::new(figures, bucket_path, client.history())
}

/// Positive control of the checker: buckets that keep only the newest value lose concurrent writes.
pub struct Control(Vec<(String, SiblingHistory)>);

impl Control {
    /// Writes each key by three clients at the same time.
    pub fn start(cluster: &Cluster) -> Control {
        let mut histories = Vec::new();
        let buckets = [("newest", "last_write_wins=true"), ("single", "allow_mult=false")];
        for (bucket, property) in buckets {
            let bucket_path = format!("available/{bucket}");
            cluster.run_tool(&["bucket", "create", &bucket_path, property]);
            std::thread::sleep(SECOND / 2);
            let mut client = ManualClient::new(&cluster.client_addresses(), &bucket_path, bucket);
            for at in 0..KEYS {
                for node in 1..=3 {
                    let outcome = client.put(node, &format!("k{at}"), &ReadValues::default(), "");
                    assert_eq!(outcome, Acknowledged(()));
                }
            }
            histories.push((bucket_path, client.history()));
        }
        Control(histories)
    }

    /// Checks that the checker reports the lost writes: two of three for each key.
    pub fn judge(self, copies: &Copies) {
        let mut figures = Figures::start("control: last_write_wins, allow_mult=false");
        for (bucket_path, history) in self.0 {
            let findings = judge(&history.calls, &copies.of_bucket(&bucket_path));
            let written = history
                .calls
                .iter()
                .filter(|call| matches!(call.op.action, SiblingAction::Write(_)));
            figures.ok += written.count() as u64;
            let value_of = |finding: &String| finding.split(" at ").next().map(String::from);
            let lost: BTreeSet<_> = findings.lost.iter().filter_map(value_of).collect();
            figures.lost += lost.len() as u64;
            assert_eq!(lost.len(), 2 * KEYS, "what such buckets lose is found: {findings}");
        }
        figures.print();
    }
}
