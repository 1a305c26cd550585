//! Clients that use a bucket while the ring changes, and know what they must find.

use super::{bucket, call, remove, store, values};
use crate::Node;
use crate::tests::bytes;
use crate::tests::many::Cluster;
use base::{
    AvailableCall, Body, Content, Context, Error, FetchOptions, Key, Kind, NodeId, Partition,
    Quorum, Reason, Result, Siblings, Store, StoreOptions,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;
use vnode_rows::layout::{read_row, read_row_key, slot_of};
use vnode_rows::slots::Slot;

/// Number of concurrent clients; each has keys of its own.
const CLIENTS: usize = 4;
/// Maximum wait for the ring to settle and for copies to become equal, on an overloaded machine.
const REST_MAX: Duration = Duration::from_secs(180);

/// Load of clients, with the values that they must find.
pub(super) struct Load {
    /// Newest value of each key. `None`: it was deleted.
    newest: BTreeMap<String, Option<String>>,
    /// Number of correct answers.
    pub answers: usize,
    round: usize,
    contexts: BTreeMap<String, Context>,
    /// Keys with an attempt that may have spread later.
    uncertain: BTreeSet<String>,
}

impl Load {
    /// Writes `count` keys and deletes a tenth of them. All nodes run, and all owners of a key have
    /// it in the end: a list asks one of them, and a write is acknowledged before the last of them
    /// has stored it.
    pub(super) async fn fill(cluster: &Cluster, count: usize) -> Load {
        let mut newest = BTreeMap::new();
        let nodes: Vec<_> = cluster.nodes.iter().flatten().collect();
        for number in 0..count {
            let (key, node) = (format!("k{number:04}"), nodes[number % nodes.len()]);
            let value = format!("first {number:058}");
            store(node, &key, &value, None).await.expect("a write");
            newest.insert(key.clone(), Some(value));
            if number % 10 == 0 {
                remove(node, &key, None).await.expect("a delete");
                newest.insert(key, None);
            }
        }
        let (contexts, uncertain) = (BTreeMap::new(), BTreeSet::new());
        let load = Load { newest, answers: 0, round: 0, contexts, uncertain };
        load.check_placement(cluster).await;
        load
    }

    /// Returns the keys that have a value.
    pub(super) fn living_keys(&self) -> BTreeSet<Key> {
        let living = self.newest.iter().filter(|(_, value)| value.is_some());
        living.map(|(key, _)| bytes(key)).collect()
    }

    /// Writes until `done`, while not all nodes run. Readers and writers that use fallbacks need
    /// not meet at once, so nothing is read here: each client keeps the context of its own writes.
    pub(super) async fn write_until(&mut self, cluster: &Cluster, mut done: impl FnMut() -> bool) {
        let until = std::time::Instant::now() + REST_MAX;
        let nodes: Vec<_> = cluster.nodes.iter().flatten().collect();
        let all = self.newest.clone().into_iter();
        let mut mine: Vec<(String, Context)> = Vec::new();
        for (at, (key, _)) in all.filter(|(_, value)| value.is_some()).enumerate() {
            if let Some(context) = self.contexts.remove(&key) {
                let node = nodes[at % nodes.len()];
                let value = format!("alone {at:058}");
                let context = store(node, &key, &value, Some(&context)).await.expect("a write");
                self.newest.insert(key.clone(), Some(value));
                mine.push((key, context));
            }
        }
        while !done() {
            assert!(std::time::Instant::now() < until, "waited in vain");
            for (at, (key, context)) in mine.iter_mut().enumerate().take(20) {
                self.round += 1;
                let (node, value) = (nodes[at % nodes.len()], format!("round {:058}", self.round));
                *context = store(node, key, &value, Some(context)).await.expect("a write");
                self.newest.insert(key.clone(), Some(value));
            }
        }
        self.contexts.extend(mine);
    }

    /// Reads the contexts of all keys, before a node stops.
    pub(super) async fn read_contexts(&mut self, cluster: &Cluster) {
        let nodes: Vec<_> = cluster.nodes.iter().flatten().collect();
        for (at, key) in self.newest.keys().enumerate() {
            let fetched = fetch_quorum(nodes[at % nodes.len()], key).await.expect("a read");
            self.contexts.insert(key.clone(), fetched.context);
        }
    }

    /// Reads and writes until `done`, and two rounds longer.
    pub(super) async fn use_until(&mut self, cluster: &Cluster, mut done: impl FnMut() -> bool) {
        let until = std::time::Instant::now() + REST_MAX;
        let mut last = 0;
        while last < 2 {
            assert!(std::time::Instant::now() < until, "waited in vain for the ring to rest");
            last += usize::from(done());
            self.round += 1;
            let round = self.round;
            let nodes: Vec<Node> = cluster.nodes.iter().flatten().cloned().collect();
            let uncertain = |key: &String| self.uncertain.contains(key);
            let all =
                self.newest.iter().map(|(key, value)| (key.clone(), value.clone(), uncertain(key)));
            let all: Vec<_> = all.collect();
            let part = |nth: usize| {
                let all = all.iter().skip((nth + round * CLIENTS) % 7).step_by(7);
                all.skip(nth).step_by(CLIENTS).take(8).cloned().collect::<Vec<_>>()
            };
            let clients = (0..CLIENTS).map(|nth| client(nodes.clone(), part(nth), round));
            let clients: Vec<_> = clients.map(tokio::spawn).collect();
            self.list(&nodes[round % nodes.len()]).await;
            for client in clients {
                for done in client.await.expect("it ends").expect("no answer fails") {
                    let Done { key, value, uncertain } = done;
                    if uncertain {
                        self.uncertain.insert(key.clone());
                    }
                    self.newest.insert(key, value);
                    self.answers += 3;
                }
            }
        }
    }

    /// Checks that keys which existed from the beginning and are never deleted are on every list.
    async fn list(&mut self, node: &Node) {
        let until = std::time::Instant::now() + REST_MAX;
        let listed = loop {
            match call(node, AvailableCall::Keys { after: None, rows_max: 10_000 }).await {
                Ok(Body::Keys(listed)) => break listed,
                Ok(other) => panic!("keys are listed, not {other:?}"),
                // A link broke: the node was delayed for long.
                Err(error) if matches!(error.kind(), Kind::Unknown | Kind::Unavailable) => {
                    assert!(std::time::Instant::now() < until, "no list: {}", error.text());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("a list: {}", error.text()),
            }
        };
        assert!(!listed.more);
        let listed: BTreeSet<Key> = listed.keys.into_iter().collect();
        for key in self.newest.keys().filter(|key| is_lasting(key)) {
            assert!(listed.contains(&bytes(key)), "`{key}` is missing on a list");
        }
        self.answers += 1;
    }

    /// Checks that every key has its newest value at every node.
    pub(super) async fn check(&self, cluster: &Cluster) {
        let nodes: Vec<_> = cluster.nodes.iter().flatten().collect();
        for (at, (key, value)) in self.newest.iter().enumerate() {
            let fetched = fetch_quorum(nodes[at % nodes.len()], key).await.expect("a read");
            check_value(&fetched, (key, value, self.uncertain.contains(key)), self.round);
        }
    }

    /// Checks that each owner has every key's newest value itself, and no other node has a row.
    pub(super) async fn check_placement(&self, cluster: &Cluster) {
        let until = std::time::Instant::now() + REST_MAX;
        while let Some(wrong) = self.placement_error(cluster) {
            assert!(std::time::Instant::now() < until, "copies do not come together: {wrong}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn placement_error(&self, cluster: &Cluster) -> Option<String> {
        let first = cluster.nodes.iter().flatten().next().expect("one runs");
        let ring = first.router.locator.catalog.available.ring().expect("a ring");
        for node in cluster.nodes.iter().flatten() {
            let rows = rows(node);
            for (slot, key, _) in &rows {
                let owners = ring.owners(slot.partition(&ring), 3);
                if !owners.contains(&node.cluster.links.node) {
                    return Some(format!(
                        "{key:?} is kept by a guest, {}",
                        node.cluster.links.node
                    ));
                }
            }
            let has: BTreeMap<_, _> = rows.iter().map(|(_, key, row)| (key, row)).collect();
            for (key, value) in self.newest.iter().filter(|(key, _)| !self.uncertain.contains(*key))
            {
                let owners =
                    node.router.available.key_owners(&bucket(), &bytes(key), 3).expect("a ring");
                if !owners.replicas.primaries.contains(&node.cluster.links.node) {
                    continue;
                }
                let row = has.get(&bytes(key)).map(|row| read_row(row).expect("it reads"));
                let row = row.unwrap_or_default();
                let living = row.values().filter(|value| !value.is_tombstone());
                let living: Vec<Bytes> =
                    living.map(|it| it.sibling(None).expect("it reads").content.value).collect();
                if living != value.iter().map(|value| bytes(value)).collect::<Vec<_>>() {
                    let node = node.cluster.links.node;
                    return Some(format!("{key} is at {node}: {living:?}, not {value:?}"));
                }
            }
        }
        None
    }
}

/// Returns true for keys that are deleted and created again.
fn is_toggled(key: &str) -> bool {
    key.ends_with('5')
}

/// Returns true for keys that every owner had at the beginning and that are never deleted: a
/// listing asks one replica of each, which may receive a new key after its client got the answer.
fn is_lasting(key: &str) -> bool {
    !is_toggled(key) && !key.ends_with('0')
}

/// Outcome of a client's work on a key.
struct Done {
    key: String,
    value: Option<String>,
    /// True if an attempt reached fewer replicas than were asked for: it may spread later.
    uncertain: bool,
}

/// Reads the expected value, writes or deletes, and reads again elsewhere. Uses a quorum of the
/// key's owners themselves: on a busy machine a fallback may stand in for a slow owner at any time,
/// and readers find its writes only later.
async fn client(
    nodes: Vec<Node>,
    part: Vec<(String, Option<String>, bool)>,
    round: usize,
) -> Result<Vec<Done>> {
    let mut all = Vec::new();
    for (at, (key, value, mut uncertain)) in part.into_iter().enumerate() {
        let node = |step: usize| &nodes[(round + at + step) % nodes.len()];
        let fetched = fetch_quorum(node(0), &key).await?;
        check_value(&fetched, (&key, &value, uncertain), round);
        let deletes = is_toggled(&key) && value.is_some();
        let next = (!deletes).then(|| format!("round {round:058}"));
        let (mut context, mut step) = (fetched.context, 1);
        while let Err(error) = change(node(step), &key, next.as_deref(), &context).await {
            ignore_quorum_loss(&error, &key)?;
            (uncertain, step) = (true, step + 1);
            context = fetch_quorum(node(step), &key).await?.context;
        }
        check_value(&fetch_quorum(node(2), &key).await?, (&key, &next, uncertain), round);
        all.push(Done { key, value: next, uncertain });
    }
    Ok(all)
}

/// Checks that a key has the expected value. If an attempt may have spread, other values may be
/// beside it.
fn check_value(
    seen: &Siblings,
    (key, value, uncertain): (&str, &Option<String>, bool),
    round: usize,
) {
    let expected: Vec<Bytes> = value.iter().map(|value| bytes(value)).collect();
    let found = values(seen);
    if !uncertain || expected.iter().any(|value| !found.contains(value)) {
        assert_eq!(found, expected, "{key} in round {round}");
    }
}

async fn fetch_quorum(node: &Node, key: &str) -> Result<Siblings> {
    let options = FetchOptions { pr: Some(Quorum::Quorum), ..FetchOptions::default() };
    loop {
        let fetch = AvailableCall::Fetch { key: bytes(key), options };
        match call(node, fetch).await {
            Ok(Body::Siblings(siblings)) => return Ok(siblings),
            Ok(other) => panic!("a read gives siblings, not {other:?}"),
            Err(error) => ignore_quorum_loss(&error, key)?,
        }
    }
}

async fn change(node: &Node, key: &str, value: Option<&str>, context: &Context) -> Result<()> {
    let options = StoreOptions { pw: Some(Quorum::Quorum), ..StoreOptions::default() };
    let (key, context) = (bytes(key), Some(context.clone()));
    let request = match value {
        None => AvailableCall::Remove { key, context, options },
        Some(value) => {
            let content = Content::plain(bytes(value));
            let store = Store { key, content, context, options, ..Store::default() };
            AvailableCall::Store(Box::new(store))
        }
    };
    call(node, request).await.map(|_| ())
}

/// Ignores errors of a machine so busy that nodes are suspected and links break: the write may have
/// happened. Any other error fails.
fn ignore_quorum_loss(error: &Error, key: &str) -> Result<()> {
    match error.reason {
        Reason::ReadQuorumUnmet => Ok(()),
        _ if error.kind() == Kind::Unknown => Ok(()),
        reason => Err(Error::new(reason, format!("{key}: {}", error.text()))),
    }
}

/// Returns the rows that a node stores itself.
fn rows(node: &Node) -> Vec<(Slot, Key, Bytes)> {
    let snapshot = node.status.trees.snapshot();
    let low = Bound::Included(Bytes::copy_from_slice(&(1_u32 << 31).to_be_bytes()));
    let rows = snapshot.range(low, Bound::Unbounded, false);
    let rows = rows.map(|row| row.expect("it reads"));
    let read = |(key, row): (Bytes, Bytes)| {
        let slot = slot_of(&key)?;
        read_row_key(&key).map(|(_, key)| (slot, key, row))
    };
    rows.filter_map(read).collect()
}

/// Returns the number of rows that a node stores, and their bytes.
pub(super) fn stored_rows(node: &Node) -> (usize, u64) {
    let rows = rows(node);
    let name = bucket().full().len() + 3;
    let bytes = rows.iter().map(|(_, key, row)| (name + key.len() + row.len()) as u64);
    (rows.len(), bytes.sum())
}

/// Returns the number of rows that a node has received since the change began, and their bytes.
pub(super) fn received_rows(node: &Node) -> (u64, u64) {
    let mut transfer = base::RingTransfer { node: NodeId(0), ..base::RingTransfer::default() };
    node.router.available.handoff_tracker.fill_transfer(&mut transfer);
    (transfer.rows, transfer.bytes)
}

/// Returns true if no partition moves any more according to every node, and none has leftovers.
pub(super) fn is_ring_settled(cluster: &Cluster) -> bool {
    cluster.nodes.iter().flatten().all(|node| {
        let Some(ring) = node.router.locator.catalog.available.ring() else { return false };
        let mut partitions = (0..ring.partitions()).map(Partition);
        ring.pending().is_none() && partitions.all(|it| ring.leftovers(it).next().is_none())
    })
}

/// Returns the number of copies still to be received, according to one node.
pub(super) fn copies_to_receive(cluster: &Cluster) -> usize {
    let first = cluster.nodes.iter().flatten().next().expect("one runs");
    let ring = first.router.locator.catalog.available.ring();
    ring.map_or(0, |ring| ring.pending_copies(3).len())
}
