//! Tests of each kind of clock, and of the true history beside it.

use crate::growth;
use crate::kinds::{ClockKind, Dotted, DvvWriter, Pruning, Sets, Vectors};
use crate::truth::{Truth, Writes};
use bench::Dice;
use std::collections::BTreeSet;

fn by(client: u32, now_ms: u64) -> DvvWriter {
    DvvWriter { client, now_ms }
}

const RIAK: Vectors = Vectors { pruning: Pruning::RIAK };

#[test]
fn a_client_that_writes_blindly_twice_is_taken_for_its_first_write() {
    let nobody = Default::default();
    let first = RIAK.write(&mut (), &Default::default(), &nobody, 1, by(7, 0));
    let again = RIAK.write(&mut (), &first, &nobody, 2, by(7, 1));
    assert_eq!(Vectors::values(&again), [1]);
    let other = RIAK.write(&mut (), &again, &nobody, 3, by(8, 2));
    assert_eq!(Vectors::values(&other), [1, 3]);
    let read = Vectors::context(&other);
    let settled = RIAK.write(&mut (), &other, &read, 4, by(9, 3));
    assert_eq!((Vectors::values(&settled), Vectors::term_bytes(&settled)), (vec![4], 60));
}

#[test]
fn pruning_keeps_what_is_young_and_what_is_few() {
    let sized = |apart_ms: u64, pruning| {
        let kind = Vectors { pruning };
        let mut row = Default::default();
        for client in 0..200 {
            let context = Vectors::context(&row);
            row = kind.write(
                &mut (),
                &row,
                &context,
                client + 1,
                by(client, u64::from(client) * apart_ms),
            );
        }
        Vectors::term_bytes(&row) / 20
    };
    // Two hundred clients within twenty seconds: no entry is old enough to be pruned.
    assert_eq!(sized(50, Pruning::RIAK), 200);
    assert_eq!(sized(1_000, Pruning::RIAK), 50);
    // Above `small` and up to `big` entries only old ones are pruned.
    let between = Pruning { small: 10, big: 100, young_ms: 0, old_ms: 30_000 };
    assert_eq!(sized(1_000, between), 31);
    assert_eq!(sized(1_000, Pruning::NONE), 200);
}

#[test]
fn a_pruned_entry_makes_related_values_look_concurrent() {
    let kind = Vectors { pruning: Pruning { small: 2, big: 2, young_ms: 0, old_ms: 0 } };
    let first = kind.write(&mut (), &Default::default(), &Default::default(), 1, by(1, 0));
    // One replica stays behind with the first write; the others go on until its entry is pruned.
    let mut ahead = first.clone();
    for client in 2..5 {
        let context = Vectors::context(&ahead);
        ahead = kind.write(&mut (), &ahead, &context, client, by(client, u64::from(client) * 1000));
    }
    assert_eq!(Vectors::values(&ahead), [4]);
    assert_eq!(Vectors::values(&kind.merge(&ahead, &first)), [1, 4], "a false conflict");
    let exact = Vectors { pruning: Pruning::NONE };
    let mut whole = first.clone();
    for client in 2..5 {
        let context = Vectors::context(&whole);
        whole =
            exact.write(&mut (), &whole, &context, client, by(client, u64::from(client) * 1000));
    }
    assert_eq!(Vectors::values(&exact.merge(&whole, &first)), [4]);
}

#[test]
fn a_pruned_entry_makes_a_new_write_look_old() {
    let kind = Vectors { pruning: Pruning { small: 2, big: 2, young_ms: 0, old_ms: 0 } };
    let exact = Vectors { pruning: Pruning::NONE };
    let mut pruned = Default::default();
    let mut whole = Default::default();
    for (write, client) in (1..).zip([1, 1, 2, 3, 4]) {
        let by = by(client, u64::from(write) * 1000);
        pruned = kind.write(&mut (), &pruned, &Vectors::context(&pruned), write, by);
        // A replica that got all writes by repairs, which do not prune.
        whole = exact.write(&mut (), &whole, &Vectors::context(&whole), write, by);
    }
    assert_eq!((Vectors::values(&pruned), Vectors::values(&whole)), (vec![5], vec![5]));
    // The client reads a pruned row, which no longer counts its two writes.
    let context = Vectors::context(&pruned);
    let after = exact.write(&mut (), &whole, &context, 6, by(1, 6000));
    assert_eq!(Vectors::values(&after), [5], "the new write is lost");
    assert_eq!(Vectors::values(&exact.write(&mut (), &pruned, &context, 6, by(1, 6000))), [6]);
}

#[test]
fn one_vector_for_several_values_brings_replaced_ones_back() {
    let kind = Vectors { pruning: Pruning::NONE };
    let nobody = Default::default();
    let first = kind.write(&mut (), &Default::default(), &nobody, 1, by(1, 0));
    let beside = kind.write(&mut (), &first, &nobody, 2, by(2, 0));
    let replaced = kind.write(&mut (), &first, &Vectors::context(&first), 3, by(3, 0));
    // Only 2 and 3 are concurrent; with a clock of its own for each value 1 would be gone.
    assert_eq!(Vectors::values(&kind.merge(&beside, &replaced)), [1, 2, 3]);
}

#[test]
fn a_write_that_comes_late_does_not_come_back() {
    let mut seen = Writes::default();
    let first = Truth::default().write(&seen, 1);
    seen.add(1);
    let second = first.write(&seen, 2);
    assert_eq!(second.alive, [2]);
    assert_eq!(second.write(&Writes::default(), 1), second);
}

#[test]
fn the_truth_is_that_of_plain_sets() {
    let mut dice = Dice::new(3, 3);
    for _ in 0..300 {
        let (mut writes, mut plain) = (Writes::default(), BTreeSet::new());
        for _ in 0..20 {
            let write = 1 + dice.below(12) as u32;
            writes.add(write);
            plain.insert(write);
            let mut other = Writes::default();
            let more = 1 + dice.below(12) as u32;
            other.add(more);
            if dice.below(4) == 0 {
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
    let mut dice = Dice::new(seed, 0);
    let mut vnodes = [0, 1, 2].map(|node| K::vnode(node, 40));
    let mut replicas = [0, 1, 2].map(|_| (K::Row::default(), Truth::default()));
    // Contexts that clients still hold, from reads now and earlier.
    let mut held: Vec<(K::Context, Writes)> = vec![Default::default()];
    let (mut write, mut wrong) = (0, 0);
    for step in 0..steps {
        let at = dice.below(3) as usize;
        match dice.below(3) {
            0 => {
                let (context, seen) = held[dice.below(held.len() as u64) as usize].clone();
                write += 1;
                let by = by(dice.below(5) as u32, step as u64);
                let (row, truth) = &replicas[at];
                let row = kind.write(&mut vnodes[at], row, &context, write, by);
                replicas[at] = (row, truth.write(&seen, write));
            }
            1 => {
                let other = dice.below(3) as usize;
                let (row, truth) = &replicas[at];
                let (their, true_of_them) = &replicas[other];
                replicas[at] = (kind.merge(row, their), truth.merge(true_of_them));
            }
            _ => {
                let (row, truth) = &replicas[at];
                held.push((K::context(row), truth.seen.clone()));
            }
        }
        let (row, truth) = &replicas[at];
        wrong += usize::from(K::values(row) != truth.alive);
    }
    wrong
}

#[test]
fn dots_tell_the_truth_and_client_vectors_do_not() {
    for seed in 0..200 {
        assert_eq!(differences(&Dotted, seed, 60), 0, "DVV, seed {seed}");
        assert_eq!(differences(&Sets, seed, 60), 0, "DVV sets, seed {seed}");
    }
    let kind = Vectors { pruning: Pruning { small: 2, big: 2, young_ms: 0, old_ms: 0 } };
    let wrong: usize = (0..200).map(|seed| differences(&kind, seed, 60)).sum();
    assert!(wrong > 1_000, "the judge sees nothing: {wrong}");
}

#[test]
fn clocks_grow_with_clients_or_with_replicas() {
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
