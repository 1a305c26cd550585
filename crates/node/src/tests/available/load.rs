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
use dynamo::layout::{read_row, read_row_key, slot_of};
use dynamo::slots::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Clients side by side; each has keys of its own.
const CLIENTS: usize = 4;
/// Longest wait for the ring to rest and for copies to come together, on a machine with ten times
/// as much to do as it can.
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
    shaky: BTreeSet<String>,
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
        let (contexts, shaky) = (BTreeMap::new(), BTreeSet::new());
        let load = Load { newest, answers: 0, round: 0, contexts, shaky };
        load.everyone_keeps_what_the_ring_says(cluster).await;
        load
    }

    /// Writes until `done`, while not all nodes run. Readers and writers that stand in for a node
    /// need not meet at once, so nothing is read here: each client remembers what it wrote.
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

    /// Before a node stops: what clients have seen.
    pub(super) async fn look(&mut self, cluster: &Cluster) {
        let nodes: Vec<_> = cluster.nodes.iter().flatten().collect();
        for (at, key) in self.newest.keys().enumerate() {
            let seen = surely_fetch(nodes[at % nodes.len()], key).await.expect("a read");
            self.contexts.insert(key.clone(), seen.context);
        }
    }

    /// Reads and writes until `done`, and a little longer.
    pub(super) async fn use_until(&mut self, cluster: &Cluster, mut done: impl FnMut() -> bool) {
        let until = std::time::Instant::now() + REST_MAX;
        let mut last = 0;
        while last < 2 {
            assert!(std::time::Instant::now() < until, "waited in vain for the ring to rest");
            last += usize::from(done());
            self.round += 1;
            let round = self.round;
            let nodes: Vec<Node> = cluster.nodes.iter().flatten().cloned().collect();
            let shaky = |key: &String| self.shaky.contains(key);
            let all =
                self.newest.iter().map(|(key, value)| (key.clone(), value.clone(), shaky(key)));
            let all: Vec<_> = all.collect();
            let part = |which: usize| {
                let all = all.iter().skip((which + round * CLIENTS) % 7).step_by(7);
                all.skip(which).step_by(CLIENTS).take(8).cloned().collect::<Vec<_>>()
            };
            let clients = (0..CLIENTS).map(|which| client(nodes.clone(), part(which), round));
            let clients: Vec<_> = clients.map(tokio::spawn).collect();
            self.list(&nodes[round % nodes.len()]).await;
            for client in clients {
                for done in client.await.expect("it ends").expect("no answer fails") {
                    let Done { key, value, shaky } = done;
                    if shaky {
                        self.shaky.insert(key.clone());
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
                // A link broke: the node was held up for long.
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
            let seen = surely_fetch(nodes[at % nodes.len()], key).await.expect("a read");
            meets(&seen, (key, value, self.shaky.contains(key)), self.round);
        }
    }

    /// Checks that each owner has every key's newest value itself, and no other node has a row.
    pub(super) async fn everyone_keeps_what_the_ring_says(&self, cluster: &Cluster) {
        let until = std::time::Instant::now() + REST_MAX;
        while let Some(wrong) = self.wrong(cluster) {
            assert!(std::time::Instant::now() < until, "copies do not come together: {wrong}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn wrong(&self, cluster: &Cluster) -> Option<String> {
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
            for (key, value) in self.newest.iter().filter(|(key, _)| !self.shaky.contains(*key)) {
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

/// Keys that are deleted and made again.
fn is_toggled(key: &str) -> bool {
    key.ends_with('5')
}

/// Keys that every owner had at the beginning and that are never deleted: a list asks one replica
/// of each, and that one may hear of a new key a moment after its client.
fn is_lasting(key: &str) -> bool {
    !is_toggled(key) && !key.ends_with('0')
}

/// Outcome of a client's work on a key.
struct Done {
    key: String,
    value: Option<String>,
    /// True if an attempt reached fewer replicas than were asked for: it may spread later.
    shaky: bool,
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
    for (at, (key, value, mut shaky)) in part.into_iter().enumerate() {
        let node = |step: usize| &nodes[(round + at + step) % nodes.len()];
        let seen = surely_fetch(node(0), &key).await?;
        meets(&seen, (&key, &value, shaky), round);
        let deletes = is_toggled(&key) && value.is_some();
        let next = (!deletes).then(|| format!("round {round:058}"));
        let (mut context, mut step) = (seen.context, 1);
        while let Err(error) = change(node(step), &key, next.as_deref(), &context).await {
            few(&error, &key)?;
            (shaky, step) = (true, step + 1);
            context = surely_fetch(node(step), &key).await?.context;
        }
        meets(&surely_fetch(node(2), &key).await?, (&key, &next, shaky), round);
        all.push(Done { key, value: next, shaky });
    }
    Ok(all)
}

/// Checks that a key has the value that it must have. If an attempt may have spread, others may be
/// beside it.
fn meets(seen: &Siblings, (key, value, shaky): (&str, &Option<String>, bool), round: usize) {
    let expected: Vec<Bytes> = value.iter().map(|value| bytes(value)).collect();
    let found = values(seen);
    if !shaky || expected.iter().any(|value| !found.contains(value)) {
        assert_eq!(found, expected, "{key} in round {round}");
    }
}

async fn surely_fetch(node: &Node, key: &str) -> Result<Siblings> {
    let options = FetchOptions { pr: Some(Quorum::Quorum), ..FetchOptions::default() };
    loop {
        let fetch = AvailableCall::Fetch { key: bytes(key), options };
        match call(node, fetch).await {
            Ok(Body::Siblings(siblings)) => return Ok(siblings),
            Ok(other) => panic!("a read gives siblings, not {other:?}"),
            Err(error) => few(&error, key)?,
        }
    }
}

async fn change(node: &Node, key: &str, value: Option<&str>, context: &Context) -> Result<()> {
    let options = StoreOptions { pw: Some(Quorum::Quorum), ..StoreOptions::default() };
    let (key, context) = (bytes(key), Some(context.clone()));
    let asked = match value {
        None => AvailableCall::Remove { key, context, options },
        Some(value) => {
            let content = Content::plain(bytes(value));
            let store = Store { key, content, context, options, ..Store::default() };
            AvailableCall::Store(Box::new(store))
        }
    };
    call(node, asked).await.map(|_| ())
}

/// Too few owners can be had on a machine so busy that nodes are doubted, and links break: then it
/// may have happened. Any other error fails.
fn few(error: &Error, key: &str) -> Result<()> {
    match error.reason {
        Reason::ReadQuorumUnmet => Ok(()),
        _ if error.kind() == Kind::Unknown => Ok(()),
        reason => Err(Error::new(reason, format!("{key}: {}", error.text()))),
    }
}

/// The rows that a node keeps itself.
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

/// Number of rows that a node keeps, and their bytes.
pub(super) fn held(node: &Node) -> (usize, u64) {
    let rows = rows(node);
    let name = bucket().full().len() + 3;
    let bytes = rows.iter().map(|(_, key, row)| (name + key.len() + row.len()) as u64);
    (rows.len(), bytes.sum())
}

/// Number of rows that a node has received since the change began, and their bytes.
pub(super) fn moved(node: &Node) -> (u64, u64) {
    let mut transfer = base::RingTransfer { node: NodeId(0), ..base::RingTransfer::default() };
    node.router.available.moving.told(&mut transfer);
    (transfer.rows, transfer.bytes)
}

/// Returns true if every node knows that no partition moves any more, and none has leftovers.
pub(super) fn rests(cluster: &Cluster) -> bool {
    cluster.nodes.iter().flatten().all(|node| {
        let Some(ring) = node.router.locator.catalog.available.ring() else { return false };
        let mut partitions = (0..ring.partitions()).map(Partition);
        ring.pending().is_none() && partitions.all(|it| ring.leftovers(it).next().is_none())
    })
}

/// Number of copies still to be received, as one node knows it.
pub(super) fn to_come(cluster: &Cluster) -> usize {
    let first = cluster.nodes.iter().flatten().next().expect("one runs");
    let ring = first.router.locator.catalog.available.ring();
    ring.map_or(0, |ring| ring.copying(3).len())
}
