//! Schema of available buckets on this node: their properties, and the ring, from this node's copy
//! of the metadata rows. A lookup is local.

use super::slots::{SLOTS, Slot, SlotSpan};
use base::{BucketName, Consistency, Partition, Properties};
use logic::ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, RwLock};

/// See the head of this file.
pub struct SchemaCache {
    told: RwLock<KnownSchema>,
}

struct KnownSchema {
    types: BTreeMap<String, Arc<Properties>>,
    /// Buckets whose properties differ from their type's.
    custom: BTreeMap<BucketName, Arc<Properties>>,
    ring: Option<Arc<Ring>>,
    /// Epoch since which each partition has its owners and receivers, as far as this node knows.
    changed: Vec<u64>,
    /// Properties of the type `available`, if no row overrides them.
    built_in: Arc<Properties>,
}

impl Default for SchemaCache {
    fn default() -> SchemaCache {
        let (types, custom, ring) = (BTreeMap::new(), BTreeMap::new(), None);
        let built_in = Arc::new(Properties::available());
        let changed = Vec::new();
        SchemaCache { told: RwLock::new(KnownSchema { types, custom, ring, changed, built_in }) }
    }
}

impl SchemaCache {
    /// The properties of a bucket, if it is an available one.
    pub fn find(&self, name: &BucketName) -> Option<Arc<Properties>> {
        let told = self.told.read().expect("no one panics while holding it");
        let kind = match told.types.get(name.kind()) {
            Some(kind) => kind,
            None if name.kind() == BucketName::AVAILABLE => &told.built_in,
            None => return None,
        };
        let available = kind.consistency == Consistency::Available;
        available.then(|| told.custom.get(name).unwrap_or(kind).clone())
    }

    /// Returns the number of copies for each type's and each single bucket's keys, in a stable
    /// order. The hash trees depend on it.
    pub fn copies(&self) -> Vec<(String, u8)> {
        let told = self.told.read().expect("no one panics while holding it");
        let built_in = [(BucketName::AVAILABLE.to_string(), &told.built_in)];
        let types = told.types.iter().map(|(kind, properties)| (kind.clone(), properties));
        let custom = told.custom.iter().map(|(name, it)| (name.full().to_string(), it));
        let all = built_in.into_iter().chain(types).chain(custom);
        let available =
            all.filter(|(_, properties)| properties.consistency == Consistency::Available);
        available.map(|(name, properties)| (name, properties.replication.n_val)).collect()
    }

    /// Returns the different numbers of copies that buckets have.
    pub fn numbers(&self) -> BTreeSet<u8> {
        self.copies().into_iter().map(|(_, copies)| copies).collect()
    }

    /// Since which epoch of the ring a slot has the owners and receivers that it has.
    pub fn changed_at(&self, slot: Slot) -> u64 {
        self.changed_in(slot.0..slot.0 + 1)
    }

    /// Since which epoch all of these slots have.
    pub fn changed_in(&self, slots: Range<u32>) -> u64 {
        let told = self.told.read().expect("no one panics while holding it");
        let partition = |slot: u32| slot as usize * told.changed.len() / SLOTS as usize;
        let partitions = partition(slots.start)..=partition(slots.end - 1);
        told.changed.get(partitions).and_then(|all| all.iter().max().copied()).unwrap_or(0)
    }

    /// Returns the ring. `None`: there is none yet.
    pub fn ring(&self) -> Option<Arc<Ring>> {
        self.told.read().expect("no one panics while holding it").ring.clone()
    }

    /// Exactly this is in force.
    pub fn fill(
        &self,
        types: BTreeMap<String, Arc<Properties>>,
        custom: BTreeMap<BucketName, Arc<Properties>>,
        ring: Option<Ring>,
    ) {
        let mut told = self.told.write().expect("no one panics while holding it");
        told.types = types;
        told.custom = custom;
        told.changed = ring.iter().flat_map(|ring| changed(None, ring, &[])).collect();
        told.ring = ring.map(Arc::new);
    }

    /// Learns a decided ring from another node. It is in force here, too, unless a newer one is.
    /// The directory's row may come later, and changes nothing then.
    pub(super) fn learn(&self, ring: Ring) {
        self.set_ring(Some(ring));
    }

    /// Changes the ring, unless a newer one is in force.
    pub fn set_ring(&self, ring: Option<Ring>) {
        let numbers = self.numbers();
        let mut guard = self.told.write().expect("no one panics while holding it");
        let told = &mut *guard;
        let known = told.ring.as_ref().map_or(0, |known| known.epoch());
        if ring.as_ref().is_some_and(|ring| ring.epoch() < known) {
            return;
        }
        let before = told.ring.as_ref().map(|before| (&**before, &told.changed[..]));
        let numbers: Vec<_> = numbers.into_iter().map(usize::from).collect();
        let after = ring.iter().flat_map(|ring| changed(before, ring, &numbers)).collect();
        told.changed = after;
        told.ring = ring.map(Arc::new);
    }

    /// Changes the properties of a bucket type; none: it is gone.
    pub fn set_type(&self, kind: &str, properties: Option<Arc<Properties>>) {
        let mut told = self.told.write().expect("no one panics while holding it");
        match properties {
            Some(properties) => told.types.insert(kind.into(), properties),
            None => told.types.remove(kind),
        };
    }

    /// Changes the properties of a bucket that has others than its type; none: it has its type's.
    pub fn set_custom(&self, name: BucketName, properties: Option<Arc<Properties>>) {
        let mut told = self.told.write().expect("no one panics while holding it");
        match properties {
            Some(properties) => told.custom.insert(name, properties),
            None => told.custom.remove(&name),
        };
    }
}

/// Returns the epoch since which each partition of a ring has its owners and receivers, also if it
/// was half of a partition before, or two.
fn changed(before: Option<(&Ring, &[u64])>, ring: &Ring, numbers: &[usize]) -> Vec<u64> {
    let since = |span: SlotSpan| {
        let Some((before, changed)) = before else { return ring.epoch() };
        let same = |was: &Partition| {
            numbers.iter().all(|n| {
                before.owners(*was, *n) == ring.owners(span.partition, *n)
                    && before.receivers(*was, *n) == ring.receivers(span.partition, *n)
            })
        };
        let known = |was: Partition| changed.get(was.0 as usize).copied().filter(|_| same(&was));
        let all: Option<Vec<u64>> = span.in_ring(before).map(known).collect();
        all.and_then(|all| all.into_iter().max()).unwrap_or(ring.epoch())
    };
    SlotSpan::all(ring).map(since).collect()
}
