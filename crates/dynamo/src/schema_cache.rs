//! Schema of available buckets on this node: their properties, and the ring, from this node's copy
//! of the metadata rows. A lookup is local.

use super::contexts::ContextKey;
use super::owners_table::OwnersTable;
use base::FeedMode;
use base::{BucketName, ClusterSecret, Consistency, Partition, Properties};
use logic::ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use vnode_rows::slots::{SLOTS, Slot, SlotSpan};

/// See the head of this file.
pub struct SchemaCache {
    schema: RwLock<KnownSchema>,
    /// Number of changes of some bucket's number of copies. Changed under the lock.
    copies_epoch: AtomicU64,
}

struct KnownSchema {
    types: BTreeMap<String, Arc<Properties>>,
    /// Buckets whose properties differ from their type's.
    custom: BTreeMap<BucketName, Arc<Properties>>,
    /// The ring, with the owners of its partitions.
    owners: Option<Arc<OwnersTable>>,
    /// Properties of the type `available`, if no row overrides them.
    built_in: Arc<Properties>,
    /// Key that seals contexts. `None`: the cluster has no secret, or this node lacks it.
    context_key: Option<Arc<ContextKey>>,
}

impl Default for SchemaCache {
    fn default() -> SchemaCache {
        let schema = KnownSchema {
            types: BTreeMap::new(),
            custom: BTreeMap::new(),
            owners: None,
            built_in: Arc::new(Properties::available()),
            context_key: None,
        };
        SchemaCache { schema: RwLock::new(schema), copies_epoch: AtomicU64::new(0) }
    }
}

impl KnownSchema {
    /// Returns the properties of an available type. `None`: it is not one.
    fn kind(&self, kind: &str) -> Option<&Arc<Properties>> {
        let found = match self.types.get(kind) {
            None if kind == BucketName::AVAILABLE => Some(&self.built_in),
            found => found,
        };
        found.filter(|properties| properties.consistency == Consistency::Available)
    }

    fn find(&self, name: &BucketName) -> Option<&Arc<Properties>> {
        let kind = self.kind(name.kind())?;
        Some(self.custom.get(name).unwrap_or(kind))
    }
}

fn n_val(properties: Option<&Arc<Properties>>) -> Option<u8> {
    properties.map(|properties| properties.replication.n_val)
}

impl SchemaCache {
    /// Returns the properties of a bucket. `None`: it is not an available one.
    pub fn find(&self, name: &BucketName) -> Option<Arc<Properties>> {
        self.schema.read().expect("no one panics while holding it").find(name).cloned()
    }

    /// Returns the number of changes of some bucket's number of copies: what was read before one of
    /// them says nothing about the rows that a node keeps now.
    pub fn copies_epoch(&self) -> u64 {
        self.copies_epoch.load(Ordering::Acquire)
    }

    /// Returns the number of copies for each type's and each single bucket's keys.
    fn copies(&self) -> Vec<(String, u8)> {
        let schema = self.schema.read().expect("no one panics while holding it");
        let built_in = [(BucketName::AVAILABLE.to_string(), &schema.built_in)];
        let types = schema.types.iter().map(|(kind, properties)| (kind.clone(), properties));
        let custom = schema.custom.iter().map(|(name, it)| (name.full().to_string(), it));
        let all = built_in.into_iter().chain(types).chain(custom);
        let available =
            all.filter(|(_, properties)| properties.consistency == Consistency::Available);
        available.map(|(name, properties)| (name, properties.replication.n_val)).collect()
    }

    /// Returns the different numbers of copies that buckets have.
    pub fn n_vals(&self) -> BTreeSet<u8> {
        self.copies().into_iter().map(|(_, copies)| copies).collect()
    }

    /// Returns the types with feeds of changes, and the single buckets with feeds.
    pub(super) fn with_feeds(&self) -> (Vec<String>, Vec<BucketName>) {
        let schema = self.schema.read().expect("no one panics while holding it");
        let has_feed = |properties: &Properties| {
            properties.feed != FeedMode::Off && properties.consistency == Consistency::Available
        };
        let types = schema.types.iter().filter(|(_, properties)| has_feed(properties));
        let custom = schema.custom.iter().filter(|(_, properties)| has_feed(properties));
        let types = types.map(|(kind, _)| kind.clone()).collect();
        (types, custom.map(|(name, _)| name.clone()).collect())
    }

    /// Returns the epoch of the last change of a slot's owners or receivers.
    pub fn change_epoch_at(&self, slot: Slot) -> u64 {
        self.change_epoch_in(slot.0..slot.0 + 1)
    }

    /// Returns the epoch of the last change of any of these slots.
    pub fn change_epoch_in(&self, slots: Range<u32>) -> u64 {
        let schema = self.schema.read().expect("no one panics while holding it");
        let Some(owners) = &schema.owners else { return 0 };
        let change_epochs = owners.change_epochs();
        let partition = |slot: u32| slot as usize * change_epochs.len() / SLOTS as usize;
        let partitions = partition(slots.start)..=partition(slots.end - 1);
        change_epochs.get(partitions).and_then(|all| all.iter().max().copied()).unwrap_or(0)
    }

    /// Returns the ring. `None`: there is none yet.
    pub fn ring(&self) -> Option<Arc<Ring>> {
        let schema = self.schema.read().expect("no one panics while holding it");
        schema.owners.as_ref().map(|owners| owners.ring().clone())
    }

    /// Returns the owners of partitions by the ring. `None`: there is no ring yet.
    pub fn owners(&self) -> Option<Arc<OwnersTable>> {
        self.schema.read().expect("no one panics while holding it").owners.clone()
    }

    /// Returns the epoch of the ring. 0: there is no ring yet.
    pub fn ring_epoch(&self) -> u64 {
        let schema = self.schema.read().expect("no one panics while holding it");
        schema.owners.as_ref().map_or(0, |owners| owners.ring().epoch())
    }

    /// Returns the key that seals contexts.
    pub(super) fn context_key(&self) -> Option<Arc<ContextKey>> {
        self.schema.read().expect("no one panics while holding it").context_key.clone()
    }

    /// Sets the cluster's secret, from which the key of contexts is derived. `is_required`: every
    /// member has it. A key that is required stays required: the applied rows may be older than the
    /// file that this node started with.
    pub fn set_secret(&self, secret: &ClusterSecret, is_required: bool) {
        let key = ContextKey::new(secret, is_required);
        let mut schema = self.schema.write().expect("no one panics while holding it");
        if !schema.context_key.as_ref().is_some_and(|known| known.is_newer_than(&key)) {
            schema.context_key = Some(Arc::new(key));
        }
    }

    /// Replaces the whole schema, except the key of contexts.
    pub fn replace_all(
        &self,
        types: BTreeMap<String, Arc<Properties>>,
        custom: BTreeMap<BucketName, Arc<Properties>>,
        ring: Option<Ring>,
    ) {
        let mut schema = self.schema.write().expect("no one panics while holding it");
        schema.types = types;
        schema.custom = custom;
        self.copies_epoch.fetch_add(1, Ordering::Release);
        schema.owners = ring.map(|ring| {
            let change_epochs = change_epochs(None, &ring, &[]);
            Arc::new(OwnersTable::new(ring, change_epochs))
        });
    }

    /// Adopts a decided ring from another node, unless a newer one is in force. The directory's row
    /// may arrive later, and changes nothing then.
    pub(super) fn adopt(&self, ring: Ring) {
        self.set_ring(Some(ring));
    }

    /// Sets the ring, unless a newer one is in force.
    pub fn set_ring(&self, ring: Option<Ring>) {
        let n_vals = self.n_vals();
        let mut guard = self.schema.write().expect("no one panics while holding it");
        let schema = &mut *guard;
        let current_epoch = schema.owners.as_ref().map_or(0, |owners| owners.ring().epoch());
        if ring.as_ref().is_some_and(|ring| ring.epoch() < current_epoch) {
            return;
        }
        let before = schema.owners.as_ref();
        let before = before.map(|before| (&**before.ring(), before.change_epochs()));
        let n_vals: Vec<_> = n_vals.into_iter().map(usize::from).collect();
        schema.owners = ring.map(|ring| {
            let change_epochs = change_epochs(before, &ring, &n_vals);
            Arc::new(OwnersTable::new(ring, change_epochs))
        });
    }

    /// Sets the properties of a bucket type. `None`: removes it.
    pub fn set_type(&self, kind: &str, properties: Option<Arc<Properties>>) {
        let mut schema = self.schema.write().expect("no one panics while holding it");
        let before = n_val(schema.kind(kind));
        match properties {
            Some(properties) => schema.types.insert(kind.into(), properties),
            None => schema.types.remove(kind),
        };
        if n_val(schema.kind(kind)) != before {
            self.copies_epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets the properties of one bucket. `None`: it has those of its type again.
    pub fn set_custom(&self, name: BucketName, properties: Option<Arc<Properties>>) {
        let mut schema = self.schema.write().expect("no one panics while holding it");
        let before = n_val(schema.find(&name));
        match properties {
            Some(properties) => schema.custom.insert(name.clone(), properties),
            None => schema.custom.remove(&name),
        };
        if n_val(schema.find(&name)) != before {
            self.copies_epoch.fetch_add(1, Ordering::Release);
        }
    }
}

/// Returns for each partition of a ring the epoch of the last change of its owners or receivers. A
/// partition that was split or merged without such a change keeps its epoch.
fn change_epochs(before: Option<(&Ring, &[u64])>, ring: &Ring, n_vals: &[usize]) -> Vec<u64> {
    let since = |span: SlotSpan| {
        let Some((before, change_epochs)) = before else { return ring.epoch() };
        let same = |former: &Partition| {
            n_vals.iter().all(|n| {
                before.owners(*former, *n) == ring.owners(span.partition, *n)
                    && before.receivers(*former, *n) == ring.receivers(span.partition, *n)
            })
        };
        let epoch_if_same = |former: Partition| {
            change_epochs.get(former.0 as usize).copied().filter(|_| same(&former))
        };
        let all: Option<Vec<u64>> = span.in_ring(before).map(epoch_if_same).collect();
        all.and_then(|all| all.into_iter().max()).unwrap_or(ring.epoch())
    };
    SlotSpan::all(ring).map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_epoch_changes_with_every_number_of_copies_and_nothing_else() {
        let schema = SchemaCache::default();
        let with_copies = |n_val| {
            let mut properties = Properties::available();
            properties.replication.n_val = n_val;
            Some(Arc::new(properties))
        };
        let bucket = |name| BucketName::new("available", name).expect("a name");
        let mut epoch = schema.copies_epoch();
        let mut has_changed = || {
            let now = schema.copies_epoch();
            std::mem::replace(&mut epoch, now) != now
        };
        let default = Properties::available().replication.n_val;
        schema.set_custom(bucket("b"), with_copies(default));
        assert!(!has_changed(), "as its type");
        schema.set_custom(bucket("b"), with_copies(default - 1));
        assert!(has_changed());
        schema.set_custom(bucket("b"), None);
        assert!(has_changed());
        schema.set_type("other", with_copies(2));
        assert!(has_changed());
        schema.set_type("other", with_copies(2));
        assert!(!has_changed());
        schema.set_type("other", None);
        assert!(has_changed());
    }
}
