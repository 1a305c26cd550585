//! Growth of a key's clock with the number of clients that write it, each after a read; without
//! network and random numbers.

use super::kinds::{ClockKind, Dotted, DvvWriter, Pruning, Sets, Vectors};
use super::study::{partition, replicas};

/// Time between two writes, milliseconds: long enough that pruning may take effect.
const APART_MS: u64 = 1_000;

/// Returns the bytes of a key's clock after each write of `clients` clients, as Erlang terms and in
/// compact form.
pub fn curve<K: ClockKind>(kind: &K, clients: u32) -> Vec<[usize; 2]> {
    let key = 1;
    let mut vnodes = replicas(key).map(|node| K::vnode(node, partition(key)));
    let mut row = K::Row::default();
    let mut sizes = Vec::new();
    for client in 0..clients {
        let writer = DvvWriter { client, now_ms: u64::from(client) * APART_MS };
        let vnode = &mut vnodes[client as usize % replicas(key).len()];
        row = kind.write(vnode, &row, &K::context(&row), client + 1, writer);
        sizes.push([K::term_bytes(&row), K::coded_bytes(&row)]);
    }
    sizes
}

/// Returns the curves of all kinds by name.
pub fn curves(clients: u32) -> Vec<(String, Vec<[usize; 2]>)> {
    let named = |name: &str, curve| (name.to_string(), curve);
    vec![
        named("version vectors", curve(&Vectors { pruning: Pruning::NONE }, clients)),
        named("version vectors, pruned", curve(&Vectors { pruning: Pruning::RIAK }, clients)),
        named(Dotted::NAME, curve(&Dotted, clients)),
        named(Sets::NAME, curve(&Sets, clients)),
    ]
}
