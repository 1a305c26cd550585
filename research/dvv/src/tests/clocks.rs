//! Tests of each kind of clock, and of the true history beside it.

use crate::growth;
use crate::kinds::{ClockKind, Dotted, DvvWriter, Pruning, Sets, Vectors};
use crate::truth::{Truth, Writes};
use load_generator::generators::SeededRng;
use std::collections::BTreeSet;

fn writer(client: u32, now_ms: u64) -> DvvWriter {
    DvvWriter { client, now_ms }
}

const RIAK: Vectors = Vectors { pruning: Pruning::RIAK };

#[test]
fn client_vector_drops_second_blind_write_of_same_client() {
    let no_context = Default::default();
    let first = RIAK.write(&mut (), &Default::default(), &no_context, 1, writer(7, 0));
    let second = RIAK.write(&mut (), &first, &no_context, 2, writer(7, 1));
    assert_eq!(Vectors::values(&second), [1]);
    let other = RIAK.write(&mut (), &second, &no_context, 3, writer(8, 2));
    assert_eq!(Vectors::values(&other), [1, 3]);
    let read = Vectors::context(&other);
    let resolved = RIAK.write(&mut (), &other, &read, 4, writer(9, 3));
    assert_eq!((Vectors::values(&resolved), Vectors::term_bytes(&resolved)), (vec![4], 60));
}

#[test]
fn pruning_keeps_young_entries_and_small_vectors() {
    let entry_count = |apart_ms: u64, pruning| {
        let kind = Vectors { pruning };
        let mut row = Default::default();
        for client in 0..200 {
            let context = Vectors::context(&row);
            row = kind.write(
                &mut (),
                &row,
                &context,
                client + 1,
                writer(client, u64::from(client) * apart_ms),
            );
        }
        Vectors::term_bytes(&row) / 20
    };
    // Two hundred clients within twenty seconds: no entry is old enough to be pruned.
    assert_eq!(entry_count(50, Pruning::RIAK), 200);
    assert_eq!(entry_count(1_000, Pruning::RIAK), 50);
    // Above `small` and up to `big` entries only old ones are pruned.
    let between = Pruning { small: 10, big: 100, young_ms: 0, old_ms: 30_000 };
    assert_eq!(entry_count(1_000, between), 31);
    assert_eq!(entry_count(1_000, Pruning::NONE), 200);
}

#[test]
fn pruned_vector_entry_causes_false_conflict() {
    let kind = Vectors { pruning: Pruning { small: 2, big: 2, young_ms: 0, old_ms: 0 } };
    let first = kind.write(&mut (), &Default::default(), &Default::default(), 1, writer(1, 0));
    // One replica stays behind with the first write; the others go on until its entry is pruned.
    let mut ahead = first.clone();
    for client in 2..5 {
        let context = Vectors::context(&ahead);
        ahead =
            kind.write(&mut (), &ahead, &context, client, writer(client, u64::from(client) * 1000));
    }
    assert_eq!(Vectors::values(&ahead), [4]);
    assert_eq!(Vectors::values(&kind.merge(&ahead, &first)), [1, 4], "a false conflict");
    let exact = Vectors { pruning: Pruning::NONE };
    let mut unpruned = first.clone();
    for client in 2..5 {
        let context = Vectors::context(&unpruned);
        unpruned = exact.write(
            &mut (),
            &unpruned,
            &context,
            client,
            writer(client, u64::from(client) * 1000),
        );
    }
    assert_eq!(Vectors::values(&exact.merge(&unpruned, &first)), [4]);
}

#[test]
fn pruned_vector_entry_causes_lost_write() {
    let kind = Vectors { pruning: Pruning { small: 2, big: 2, young_ms: 0, old_ms: 0 } };
    let exact = Vectors { pruning: Pruning::NONE };
    let mut pruned = Default::default();
    let mut unpruned = Default::default();
    for (write, client) in (1..).zip([1, 1, 2, 3, 4]) {
        let writer = writer(client, u64::from(write) * 1000);
        pruned = kind.write(&mut (), &pruned, &Vectors::context(&pruned), write, writer);
        // A replica that got all writes by repairs, which do not prune.
        unpruned = exact.write(&mut (), &unpruned, &Vectors::context(&unpruned), write, writer);
    }
    assert_eq!((Vectors::values(&pruned), Vectors::values(&unpruned)), (vec![5], vec![5]));
    // The client reads a pruned row, which no longer counts its two writes.
    let context = Vectors::context(&pruned);
    let after = exact.write(&mut (), &unpruned, &context, 6, writer(1, 6000));
    assert_eq!(Vectors::values(&after), [5], "the new write is lost");
    assert_eq!(Vectors::values(&exact.write(&mut (), &pruned, &context, 6, writer(1, 6000))), [6]);
}

#[test]
fn shared_vector_of_siblings_resurrects_replaced_value() {
    let kind = Vectors { pruning: Pruning::NONE };
    let no_context = Default::default();
    let first = kind.write(&mut (), &Default::default(), &no_context, 1, writer(1, 0));
    let concurrent = kind.write(&mut (), &first, &no_context, 2, writer(2, 0));
    let replaced = kind.write(&mut (), &first, &Vectors::context(&first), 3, writer(3, 0));
    // Only 2 and 3 are concurrent; with a clock of its own for each value 1 would be gone.
    assert_eq!(Vectors::values(&kind.merge(&concurrent, &replaced)), [1, 2, 3]);
}

#[test]
fn late_duplicate_write_changes_nothing() {
    let mut seen = Writes::default();
    let first = Truth::default().write(&seen, 1);
    seen.add(1);
    let second = first.write(&seen, 2);
    assert_eq!(second.alive, [2]);
    assert_eq!(second.write(&Writes::default(), 1), second);
}

#[test]
fn write_set_matches_btree_set() {
    let mut rng = SeededRng::new(3, 3);
    for _ in 0..300 {
        let (mut writes, mut plain) = (Writes::default(), BTreeSet::new());
        for _ in 0..20 {
            let write = 1 + rng.below(12) as u32;
            writes.add(write);
            plain.insert(write);
            let mut other = Writes::default();
            let more = 1 + rng.below(12) as u32;
            other.add(more);
            if rng.below(4) == 0 {
                writes.union(&other);
                plain.insert(more);
            }
            assert!((1..=13).all(|write| writes.contains(write) == plain.contains(&write)));
        }
    }
}

/// Writes, merges and reads among three replicas; returns the number of steps after which the
/// replica's row differs from the truth.
fn differences<K: ClockKind>(kind: &K, seed: u64, steps: usize) -> usize {
    let mut rng = SeededRng::new(seed, 0);
    let mut vnodes = [0, 1, 2].map(|node| K::vnode(node, 40));
    let mut replicas = [0, 1, 2].map(|_| (K::Row::default(), Truth::default()));
    // Contexts that clients still hold, from reads now and earlier.
    let mut contexts: Vec<(K::Context, Writes)> = vec![Default::default()];
    let (mut write, mut wrong) = (0, 0);
    for step in 0..steps {
        let at = rng.below(3) as usize;
        match rng.below(3) {
            0 => {
                let (context, seen) = contexts[rng.below(contexts.len() as u64) as usize].clone();
                write += 1;
                let writer = writer(rng.below(5) as u32, step as u64);
                let (row, truth) = &replicas[at];
                let row = kind.write(&mut vnodes[at], row, &context, write, writer);
                replicas[at] = (row, truth.write(&seen, write));
            }
            1 => {
                let other = rng.below(3) as usize;
                let (row, truth) = &replicas[at];
                let (their, their_truth) = &replicas[other];
                replicas[at] = (kind.merge(row, their), truth.merge(their_truth));
            }
            _ => {
                let (row, truth) = &replicas[at];
                contexts.push((K::context(row), truth.seen.clone()));
            }
        }
        let (row, truth) = &replicas[at];
        wrong += usize::from(K::values(row) != truth.alive);
    }
    wrong
}

#[test]
fn dotted_clocks_match_true_history_and_client_vectors_do_not() {
    for seed in 0..200 {
        assert_eq!(differences(&Dotted, seed, 60), 0, "DVV, seed {seed}");
        assert_eq!(differences(&Sets, seed, 60), 0, "DVV sets, seed {seed}");
    }
    let kind = Vectors { pruning: Pruning { small: 2, big: 2, young_ms: 0, old_ms: 0 } };
    let wrong: usize = (0..200).map(|seed| differences(&kind, seed, 60)).sum();
    assert!(wrong > 1_000, "the judge sees nothing: {wrong}");
}

#[test]
fn vector_size_grows_with_clients_and_dotted_size_with_replicas() {
    let curves = growth::curves(300);
    let last = |name: &str| {
        let found = curves.iter().find(|(known, _)| known == name);
        found.and_then(|(_, sizes)| sizes.last().copied()).expect("there is one")
    };
    assert_eq!(last("version vectors")[0], 300 * 20);
    assert_eq!(last("version vectors, pruned")[0], 50 * 20);
    assert_eq!(last("DVV")[0], 4 * 32);
    let [terms, tight] = last("DVV sets");
    assert_eq!(terms, 3 * 32);
    assert!(tight <= 64, "{tight}");
}
