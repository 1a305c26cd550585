//! Catalog: this node's copy of the buckets and members that the metadata group (group 0) has
//! decided; a function of its applied rows.

use super::access::AccessTable;
use super::incarnations::{self, IncarnationRecord};
use super::index::IndexTable;
use super::levels::{self, LevelRow};
use super::ring::read_ring;
use super::rows::{
    self, BUCKETS, CLUSTER, CUSTOM, GROUPS, INCARNATIONS, LEVEL, MEMBERS, RING, SECRET, TYPES,
};
use super::secret::{self, SecretRow};
use base::error::corrupt;
use base::{
    BucketDescription, BucketId, BucketName, ClusterDescription, FeedMode, GroupId, IncarnationId,
    MemberDescription, NodeId, Properties, Result, Value,
};
use bytes::Bytes;
use dynamo::schema_cache::SchemaCache;
use replica_state::layout::StoredRow;
use replication::bucket::Bucket;
use replication::group::Observer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};
use tokio::sync::watch;

/// Buckets by name, members and placement.
pub struct Catalog {
    buckets: RwLock<BTreeMap<BucketName, Arc<Bucket>>>,
    /// Buckets that are moving to another group.
    moving: watch::Sender<BTreeSet<BucketName>>,
    /// Counted buckets, by group; one that moves is counted in both groups.
    counted: watch::Sender<BTreeSet<(GroupId, BucketId)>>,
    /// Buckets with a feed, by group and number there.
    fed: watch::Sender<BTreeMap<(GroupId, BucketId), BucketName>>,
    /// Members and placement by the applied rows.
    applied_cluster: Mutex<ClusterDescription>,
    /// Incarnation of each member that was admitted last.
    incarnations: Mutex<BTreeMap<NodeId, IncarnationId>>,
    /// Users, roles and tokens by the applied rows.
    pub access: AccessTable,
    /// Declared indexes by the applied rows.
    pub indexes: IndexTable,
    /// Secret of the cluster by the applied rows.
    secret: Mutex<Option<SecretRow>>,
    /// Feature levels by the applied rows.
    levels: Mutex<LevelRow>,
    /// Ring and properties of available buckets.
    pub available: Arc<SchemaCache>,
    /// Newest description that this node knows. While a node catches up, it is the one that it got
    /// when it joined or had before it stopped, so that it still finds the members that can help
    /// it.
    cluster: watch::Sender<Arc<ClusterDescription>>,
}

impl Catalog {
    /// Returns a catalog without buckets, with the cluster that this node knew last.
    pub fn new(known: ClusterDescription) -> Catalog {
        let applied_cluster =
            ClusterDescription { cluster: known.cluster, ..ClusterDescription::default() };
        Catalog {
            buckets: RwLock::default(),
            moving: watch::Sender::default(),
            counted: watch::Sender::default(),
            fed: watch::Sender::default(),
            applied_cluster: Mutex::new(applied_cluster),
            incarnations: Mutex::default(),
            access: AccessTable::default(),
            indexes: IndexTable::default(),
            secret: Mutex::default(),
            levels: Mutex::default(),
            available: Arc::default(),
            cluster: watch::Sender::new(Arc::new(known)),
        }
    }

    /// Returns the bucket of this name.
    #[inline]
    pub fn find(&self, name: &BucketName) -> Option<Arc<Bucket>> {
        self.buckets.read().expect("no one panics while holding it").get(name).cloned()
    }

    /// Returns the buckets of a group, by id.
    pub fn of_group(&self, group: GroupId) -> BTreeMap<BucketId, BucketName> {
        let buckets = self.buckets.read().expect("no one panics while holding it");
        let in_group = buckets.iter().filter(|(_, bucket)| bucket.group == group);
        in_group.map(|(name, bucket)| (bucket.id, name.clone())).collect()
    }

    /// Returns a bucket that this group keeps, or that moves there. `None`: there is none.
    pub fn any_bucket_of(&self, group: GroupId) -> Option<BucketName> {
        let buckets = self.buckets.read().expect("no one panics while holding it");
        let is_in_group = |bucket: &Arc<Bucket>| {
            bucket.group == group || bucket.moving.is_some_and(|moving| moving.group == group)
        };
        buckets.iter().find(|(_, bucket)| is_in_group(bucket)).map(|(name, _)| name.clone())
    }

    /// Returns the number of buckets.
    pub fn bucket_count(&self) -> usize {
        self.buckets.read().expect("no one panics while holding it").len()
    }

    /// Returns members and placement.
    pub fn cluster(&self) -> Arc<ClusterDescription> {
        self.cluster.borrow().clone()
    }

    /// Returns members and placement as a watch, for callers that wait for a change.
    pub fn watch_cluster(&self) -> watch::Receiver<Arc<ClusterDescription>> {
        self.cluster.subscribe()
    }

    /// Returns the member of this id.
    pub fn member(&self, node: NodeId) -> Option<MemberDescription> {
        self.cluster.borrow().member(node).cloned()
    }

    /// Returns the incarnation of a member that was admitted last.
    pub fn incarnation_id(&self, node: NodeId) -> Option<IncarnationId> {
        self.incarnations.lock().expect("no one panics while holding it").get(&node).copied()
    }

    /// Returns a member's incarnation record by the applied rows. `None`: there is no such member.
    pub fn record(&self, node: NodeId) -> Option<IncarnationRecord> {
        // In the order in which the rows are written: of two changes the incarnation is never the
        // older.
        let applied_cluster = self.applied_cluster.lock().expect("no one panics while holding it");
        let number = applied_cluster.member(node)?.incarnation;
        Some(IncarnationRecord { number, incarnation_id: self.incarnation_id(node) })
    }

    /// Sets the incarnations on record.
    pub fn fill_incarnations(&self, incarnations: BTreeMap<NodeId, IncarnationId>) {
        *self.incarnations.lock().expect("no one panics while holding it") = incarnations;
    }

    /// Returns the cluster's secret. `None`: it has none, or this node has not applied its row yet.
    pub fn secret(&self) -> Option<SecretRow> {
        self.secret.lock().expect("no one panics while holding it").clone()
    }

    /// Sets the cluster's secret.
    pub fn fill_secret(&self, row: Option<SecretRow>) {
        if let Some(SecretRow { secret, is_required }) = &row {
            self.available.set_secret(secret, *is_required);
        }
        *self.secret.lock().expect("no one panics while holding it") = row;
    }

    /// Returns the feature levels by the applied rows.
    pub fn levels(&self) -> LevelRow {
        self.levels.lock().expect("no one panics while holding it").clone()
    }

    /// Sets the feature levels.
    pub fn fill_levels(&self, row: LevelRow) {
        let level = row.level;
        *self.levels.lock().expect("no one panics while holding it") = row;
        self.update_cluster(|cluster| cluster.level = level);
    }

    /// Applies a row of the directory, in the order of the log. `None`: the row was removed.
    fn apply(&self, key: &[u8], value: Option<&Value>) -> Result<()> {
        if key.starts_with(BUCKETS) {
            let bucket = value.map(|value| rows::read_bucket(key, Some(value))).transpose()?;
            if let Some(name) = rows::bucket_name(key) {
                self.replace(&name, bucket);
            }
        } else if key == RING {
            self.available.set_ring(value.map(|value| read_ring(value)).transpose()?);
        } else if let Some(kind) = rows::type_of(key).filter(|_| key.starts_with(TYPES)) {
            self.available.set_type(kind, properties(value)?);
        } else if key.starts_with(CUSTOM) {
            let properties = properties(value)?;
            if let Some(name) = rows::custom_of(key) {
                self.available.set_custom(name, properties);
            }
        } else if key.starts_with(INCARNATIONS) {
            let incarnation_id = value.map(|value| incarnations::read(value)).transpose()?;
            if let Some(node) = incarnations::node_of(key) {
                let mut incarnations =
                    self.incarnations.lock().expect("no one panics while holding it");
                incarnations.remove(&node);
                incarnations.extend(incarnation_id.map(|incarnation_id| (node, incarnation_id)));
            }
        } else if key.starts_with(MEMBERS) {
            let member = value.map(|value| rows::read_member(key, value)).transpose()?;
            let node = rows::member_of(key);
            self.update_cluster(|cluster| {
                cluster.members.retain(|known| Some(known.node) != node);
                cluster.members.extend(member);
                cluster.members.sort_unstable_by_key(|member| member.node);
            });
        } else if key.starts_with(GROUPS) {
            let placement = value.map(|value| rows::read_group(key, value)).transpose()?;
            let group = rows::group_of(key);
            self.update_cluster(|cluster| {
                cluster.groups.retain(|known| Some(known.group) != group);
                cluster.groups.extend(placement);
                cluster.groups.sort_unstable_by_key(|placement| placement.group);
            });
        } else if key == LEVEL {
            self.fill_levels(
                value.map_or_else(|| Ok(LevelRow::default()), |row| levels::read(row))?,
            );
        } else if self.access.apply(key, value)? {
            // It was a row of users and roles.
        } else if self.indexes.apply(key, value)? {
            // It was a row of an index.
        } else if key == SECRET {
            self.fill_secret(value.map(|value| secret::read(value)).transpose()?);
        } else if key == CLUSTER {
            let row = value.map(|value| rows::read_cluster(value)).transpose()?.unwrap_or_default();
            self.update_cluster(|cluster| {
                cluster.founder = row.founder;
                cluster.lease_ms = row.lease_ms;
                cluster.changes = row.changes;
            });
        }
        Ok(())
    }

    fn update_cluster(&self, change: impl FnOnce(&mut ClusterDescription)) {
        let mut applied_cluster =
            self.applied_cluster.lock().expect("no one panics while holding it");
        change(&mut applied_cluster);
        self.cluster.send_if_modified(|cluster| {
            let newer = applied_cluster.changes >= cluster.changes && *applied_cluster != **cluster;
            if newer {
                *cluster = Arc::new(applied_cluster.clone());
            }
            newer
        });
    }

    /// Replaces all buckets, members and placement.
    pub fn fill(&self, buckets: Vec<BucketDescription>, cluster: ClusterDescription) {
        let removed: Vec<_> = {
            let listed: BTreeSet<_> = buckets.iter().map(|bucket| &bucket.name).collect();
            let cached = self.buckets.read().expect("no one panics while holding it");
            cached.keys().filter(|name| !listed.contains(name)).cloned().collect()
        };
        for name in removed {
            self.replace(&name, None);
        }
        for bucket in buckets {
            self.replace(&bucket.name.clone(), Some(bucket));
        }
        self.update_cluster(|applied_cluster| *applied_cluster = cluster);
    }

    /// Replaces a bucket. `None`: removes it. The former one is retired, unless it is the same.
    pub fn replace(&self, name: &BucketName, bucket: Option<BucketDescription>) {
        let mut buckets = self.buckets.write().expect("no one panics while holding it");
        let replaced = match bucket {
            Some(bucket) => {
                if buckets.get(name).is_some_and(|known| known.matches(&bucket)) {
                    return;
                }
                let BucketDescription { id, group, properties, moving, .. } = bucket;
                let digest = name.digest();
                let bucket = Bucket::new(id, group, properties).with_digest(digest, moving);
                buckets.insert(name.clone(), Arc::new(bucket))
            }
            None => buckets.remove(name),
        };
        let is_moving = buckets.get(name).is_some_and(|bucket| bucket.moving.is_some());
        self.moving.send_if_modified(|moving| match is_moving {
            true => {
                moving.insert(name.clone());
                true
            }
            false => moving.remove(name),
        });
        let former = replaced.as_ref().map(|bucket| counted_places(bucket)).unwrap_or_default();
        let present = buckets.get(name).map(|bucket| counted_places(bucket)).unwrap_or_default();
        if former != present {
            self.counted.send_modify(|counted| {
                counted.retain(|place| !former.contains(place));
                counted.extend(present);
            });
        }
        let former = replaced.as_ref().and_then(|bucket| fed_place(bucket));
        let present = buckets.get(name).and_then(|bucket| fed_place(bucket));
        // Also if what the feed keeps has changed.
        if former.is_some() || present.is_some() {
            self.fed.send_modify(|fed| {
                if let Some(place) = former {
                    fed.remove(&place);
                }
                fed.extend(present.map(|place| (place, name.clone())));
            });
        }
        if let Some(replaced) = replaced {
            replaced.retire();
        }
    }

    /// Returns the moving buckets as a watch, for callers that wait for a change.
    pub fn watch_moving(&self) -> watch::Receiver<BTreeSet<BucketName>> {
        self.moving.subscribe()
    }

    /// Returns the counted buckets by group as a watch, for callers that wait for a change.
    pub fn watch_counted(&self) -> watch::Receiver<BTreeSet<(GroupId, BucketId)>> {
        self.counted.subscribe()
    }

    /// Returns the buckets with a feed, by group and number there, as a watch, for callers that
    /// wait for a change.
    pub fn watch_fed(&self) -> watch::Receiver<BTreeMap<(GroupId, BucketId), BucketName>> {
        self.fed.subscribe()
    }

    /// Calls a function with every bucket.
    pub fn for_each_bucket(&self, visit: impl FnMut(&Arc<Bucket>)) {
        self.buckets.read().expect("no one panics while holding it").values().for_each(visit);
    }

    /// Counts the buckets of each group that has some, including those that move there.
    pub fn counts(&self) -> BTreeMap<GroupId, usize> {
        let mut counts = BTreeMap::new();
        for bucket in self.buckets.read().expect("no one panics while holding it").values() {
            let group = bucket.moving.map_or(bucket.group, |moving| moving.group);
            *counts.entry(group).or_default() += 1;
        }
        counts
    }

    /// Returns at most `max` names of buckets whose updates are acknowledged unsynced, in order.
    pub fn interval_buckets(&self, max: usize) -> Vec<String> {
        let buckets = self.buckets.read().expect("no one panics while holding it");
        let interval = |bucket: &Arc<Bucket>| bucket.properties.sync == base::SyncPolicy::Interval;
        let names = buckets.iter().filter(|(_, bucket)| interval(bucket));
        names.take(max).map(|(name, _)| name.full().to_string()).collect()
    }
}

/// Returns the groups that keep counts of a bucket, with its number in each.
fn counted_places(bucket: &Bucket) -> Vec<(GroupId, BucketId)> {
    let target = bucket.moving.map(|moving| (moving.group, moving.id));
    let places = std::iter::once((bucket.group, bucket.id)).chain(target);
    places.filter(|_| bucket.properties.counted).collect()
}

/// Returns the group of a bucket with a feed, and its number there.
fn fed_place(bucket: &Bucket) -> Option<(GroupId, BucketId)> {
    (bucket.properties.feed != FeedMode::Off).then_some((bucket.group, bucket.id))
}

fn properties(value: Option<&Value>) -> Result<Option<Arc<Properties>>> {
    Ok(value.map(|value| rows::properties_of(value)).transpose()?.map(Arc::new))
}

impl Observer for Catalog {
    fn changed(&self, key: &[u8], row: Option<&Bytes>) {
        let value = row.map(|row| StoredRow::read(row).map(|row| row.value).map_err(corrupt));
        let applied = value.transpose().and_then(|value| self.apply(key, value.as_ref()));
        if let Err(error) = applied {
            // The row is in the store nevertheless, and the next start reports the error, too.
            tracing::error!(target: "node", %error, "a row of the directory");
        }
    }
}

#[cfg(test)]
mod tests;
