//! Metadata of the cluster: buckets, bucket types, members, placement. Ordinary rows of group 0,
//! changed by sequences whose assertions make them safe.
//!
//! Promises: a call changes all its rows or none; the catalog is a function of the rows that were
//! applied, on every node.
//! Never: gives a dropped bucket's space back, or moves a group (`node` does): here only the rows
//! change. Imports `transport`.
//! Read next: `rows.rs`, then `buckets.rs` and `members.rs`.

pub mod access;
mod admission;
mod available;
mod buckets;
pub mod catalog;
mod draft;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod groups;
pub mod incarnations;
pub mod index;
pub mod levels;
mod members;
mod moves;
mod replacement_plan;
mod replacements;
mod ring;
mod ring_names;
pub mod rows;
pub mod secret;
mod staged;
mod token_uses;
mod witnesses;

use base::codec::Reader;
use base::request::{OnMissing, SequenceMode};
use base::{
    Body, BucketId, BucketName, ClusterDescription, ClusterId, DirectoryCall, Error, GroupId,
    IndexCall, Key, LogIndex, MemberDescription, NodeId, Page, Properties, Range, Read, Reason,
    Reply, Result, RingCall, TokenDigest, Update, Value,
};
use bytes::Bytes;
use catalog::Catalog;
use index::rows::{INDEXES, NEXT_INDEX};
pub use members::no_such_group;
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read;
use replication::seals::BOOKKEEPING_BUCKET;
pub use ring::read_ring;
pub use ring_names::describe_ring;
use rows::{
    BUCKETS, CLUSTER, CUSTOM, DROPPED, GROUPS, INCARNATIONS, MEMBERS, RING, TYPES, bucket_key,
    dropped_key, read_bucket, type_key,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Most attempts of a change while others change the directory at the same time.
const ATTEMPTS_MAX: usize = 16;

/// Access of the directory to group 0.
pub struct Directory {
    /// Group 0.
    pub group: Arc<Group>,
    /// Catalog of the buckets and members that are applied at this node.
    pub catalog: Arc<Catalog>,
    cluster: ClusterId,
    rows: Bucket,
    /// Lock that makes changes of this node sequential, which saves attempts.
    change_lock: tokio::sync::Mutex<()>,
    /// Names of members that lacked an offered secret when this node last checked as master.
    members_without_secret: Mutex<Vec<String>>,
}

/// Result of planning a call: an answer at once, or a change.
enum CallPlan {
    Answer(Body),
    Change(Vec<Update>),
    /// Change whose client gets this answer.
    ChangeWithAnswer(Vec<Update>, Body),
}

impl Directory {
    /// Creates the directory. Applied rows fill the catalog, present ones and later ones.
    pub fn new(group: Arc<Group>, catalog: Arc<Catalog>) -> Result<Directory> {
        let rows = Bucket::new(BOOKKEEPING_BUCKET, group.id, Properties::default());
        let cluster = catalog.cluster().cluster;
        let _ = group.observer.set(catalog.clone()); // No other code sets it.
        let (change_lock, members_without_secret) = (tokio::sync::Mutex::new(()), Mutex::default());
        let directory =
            Directory { group, catalog, cluster, rows, change_lock, members_without_secret };
        directory.load().map(|()| directory)
    }

    fn load(&self) -> Result<()> {
        let mut incarnations = BTreeMap::new();
        self.for_each_row(INCARNATIONS, |key, value| {
            incarnations.extend(incarnations::node_of(key).zip(Some(incarnations::read(value)?)));
            Ok(())
        })?;
        // Incarnations are filled before the members: readers of members need them.
        self.catalog.fill_incarnations(incarnations);
        self.catalog.fill_secret(self.secret()?);
        self.catalog.fill_levels(self.level_row()?);
        let mut buckets = Vec::new();
        self.for_each_row(BUCKETS, |key, value| {
            buckets.push(read_bucket(key, Some(value))?);
            Ok(())
        })?;
        self.catalog.fill(buckets, self.describe_cluster()?);
        let (mut types, mut custom) = (BTreeMap::new(), BTreeMap::new());
        self.for_each_row(TYPES, |key, value| {
            let kind = rows::type_of(key).map(String::from);
            types.extend(kind.zip(Some(Arc::new(rows::properties_of(value)?))));
            Ok(())
        })?;
        self.for_each_row(CUSTOM, |key, value| {
            let name = rows::custom_of(key);
            custom.extend(name.zip(Some(Arc::new(rows::properties_of(value)?))));
            Ok(())
        })?;
        for prefix in access::PREFIXES {
            self.for_each_row(prefix, |key, value| {
                self.catalog.access.apply(key, Some(value)).map(|_| ())
            })?;
        }
        self.for_each_row(INDEXES, |key, value| {
            self.catalog.indexes.apply(key, Some(value)).map(|_| ())
        })?;
        let next_index = self.get(&Bytes::from_static(NEXT_INDEX))?;
        self.catalog.indexes.apply(NEXT_INDEX, next_index.as_ref())?;
        let ring = self.get(&Bytes::from_static(RING))?;
        let ring = ring.map(|value| read_ring(&value)).transpose()?;
        self.catalog.available.replace_all(types, custom, ring);
        Ok(())
    }

    /// Creates what every cluster has, if it does not exist: the default type and bucket, this node
    /// as founder and first member, and its sole replicas of these groups. `token`: lets nodes join
    /// a cluster that is founded now.
    pub async fn open(
        &self,
        founder: &MemberDescription,
        lease_ms: u64,
        groups: &[GroupId],
        token: Option<TokenDigest>,
    ) -> Result<()> {
        let default = BucketName::default();
        // The cluster's row is written last: a founding that was interrupted begins again.
        let is_founded = self.get(&Bytes::from_static(CLUSTER))?.is_some();
        if !is_founded && self.get(&type_key(default.kind()))?.is_none() {
            self.execute(&default, DirectoryCall::CreateType(Vec::new())).await?;
        }
        if !is_founded && self.get(&bucket_key(&default))?.is_none() {
            self.execute(&default, DirectoryCall::CreateBucket(Vec::new())).await?;
        }
        self.change(|| self.plan_founding(founder, lease_ms, groups, token)).await?;
        self.change(|| self.plan_first_ring(founder.node)).await.map(|_| ())
    }

    /// Executes a directory call.
    pub async fn execute(&self, name: &BucketName, call: DirectoryCall) -> Result<Reply> {
        let is_join = |call: &DirectoryCall| match call {
            DirectoryCall::Cluster(call) => call.is_join(),
            _ => false,
        };
        // Without the lock: a description does not wait for a change that is undecided for long.
        let is_description = matches!(
            call,
            DirectoryCall::DescribeBucket
                | DirectoryCall::ListBuckets { .. }
                | DirectoryCall::ListTypes
                | DirectoryCall::Index(IndexCall::List | IndexCall::Describe { .. })
        );
        if is_description
            && self.group.leadership.is_master()
            && let CallPlan::Answer(body) = self.plan(name, &call)?
        {
            return Ok(Reply::new(self.group.applied.visible_index(), body));
        }
        let (index, mut body) = self.change(|| self.plan(name, &call)).await?;
        if body == Body::Done && is_join(&call) {
            let cluster = Box::new(self.describe_cluster()?);
            // A joining node needs the secret with which members sign their greetings. A secret
            // that is only offered arrives with the directory's rows, as at every member.
            body = match self.secret()?.filter(|row| row.is_required) {
                Some(row) => Body::Joined(cluster, row.secret),
                None => Body::Cluster(cluster),
            };
        }
        Ok(Reply::new(index, body))
    }

    /// Executes a call on the ring. `down`: nodes that can't be reached now.
    pub async fn execute_ring(&self, call: &RingCall, down: &BTreeSet<NodeId>) -> Result<Reply> {
        let (index, body) = self.change(|| self.plan_ring(call, down)).await?;
        Ok(Reply::new(index, body))
    }

    /// Claims the ring. `admit` is called just before each proposal, and refuses it by an error.
    pub async fn claim_ring(&self, admit: impl Fn() -> Result<()>) -> Result<Reply> {
        let plan = || {
            // Checked before every attempt: a claim that waited for the lock may be too late.
            admit()?;
            self.plan_ring(&RingCall::Claim, &BTreeSet::new())
        };
        let (index, body) = self.change(plan).await?;
        Ok(Reply::new(index, body))
    }

    /// Removes a leaving member, which has no replicas any more, from the directory.
    pub async fn remove_member(&self, node: NodeId) -> Result<()> {
        self.change(|| self.plan_removal(node)).await.map(|_| ())
    }

    /// Reduces the cluster to this member, which has replicas of these groups: all others are
    /// removed, and it becomes the only voter of each group.
    pub async fn reduce_to(&self, own: NodeId, groups: &[GroupId]) -> Result<()> {
        self.change(|| self.draft()?.reduce_to(own, groups)).await.map(|_| ())
    }

    /// Plans a change and submits it; retries if the rows changed in between.
    async fn change(&self, plan: impl Fn() -> Result<CallPlan>) -> Result<(LogIndex, Body)> {
        let _lock = self.change_lock.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            if !self.group.leadership.is_master() {
                return Err(Error::new(Reason::NotMaster, "None"));
            }
            let (steps, body) = match plan()? {
                CallPlan::Answer(body) => return Ok((self.group.applied.visible_index(), body)),
                CallPlan::Change(steps) => (steps, Body::Done),
                CallPlan::ChangeWithAnswer(steps, body) => (steps, body),
            };
            let sequence = Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
            let (ticket, stamp, outcome) = self.group.submit(&self.rows, &sequence, None)?;
            if let Some(ticket) = ticket {
                self.group.wait_applied(ticket).await?;
            }
            match outcome {
                Ok(_) => return Ok((stamp.index, body)),
                Err(error) if error.reason == Reason::AssertionFailed => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(Reason::MetadataChanged, "the directory keeps changing: repeat"))
    }

    /// Returns the dropped buckets whose space is not freed yet, in the order of their numbers.
    pub fn dropped_buckets(&self) -> Result<Vec<(BucketId, GroupId)>> {
        let mut dropped = Vec::new();
        self.for_each_row(DROPPED, |key, value| {
            let id = key.get(2..6).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
            let group = Reader::new(value).u32("group").ok();
            dropped.extend(id.zip(group).map(|(id, group)| (BucketId(id), GroupId(group))));
            Ok(())
        })?;
        Ok(dropped)
    }

    /// Removes the row of a dropped bucket whose space is freed.
    pub fn remove_dropped_row(&self, bucket: BucketId) -> Result<()> {
        let delete = Update::Delete { key: dropped_key(bucket), missing: OnMissing::Skip };
        self.group.submit(&self.rows, &delete, None).map(|_| ())
    }

    /// Returns members and placement as applied here.
    fn describe_cluster(&self) -> Result<ClusterDescription> {
        let row = self.get(&Bytes::from_static(CLUSTER))?;
        let row = row.map(|value| rows::read_cluster(&value)).transpose()?.unwrap_or_default();
        let mut cluster = ClusterDescription {
            cluster: self.cluster,
            founder: row.founder,
            lease_ms: row.lease_ms,
            changes: row.changes,
            level: self.level_row()?.level,
            ..ClusterDescription::default()
        };
        self.for_each_row(MEMBERS, |key, value| {
            cluster.members.push(rows::read_member(key, value)?);
            Ok(())
        })?;
        self.for_each_row(GROUPS, |key, value| {
            cluster.groups.push(rows::read_group(key, value)?);
            Ok(())
        })?;
        Ok(cluster)
    }

    /// Calls a function with every row under a prefix, in order.
    fn for_each_row(
        &self,
        prefix: &'static [u8],
        mut visit: impl FnMut(&Key, &Value) -> Result<()>,
    ) -> Result<()> {
        let mut range = Range::prefix(Bytes::from_static(prefix));
        loop {
            let page = self.page(&range)?;
            for entry in &page.entries {
                let value = entry.row.as_ref().map(|row| row.value.clone()).unwrap_or_default();
                visit(&entry.key, &value)?;
            }
            match page.entries.last() {
                Some(last) if page.more => range = range.after(last.key.clone()),
                _ => return Ok(()),
            }
        }
    }

    fn get(&self, key: &Key) -> Result<Option<Value>> {
        match read::read(&self.group, &self.rows, &Read::Get(key.clone()))?.body {
            Body::Row(row) => Ok(row.map(|row| row.value)),
            _ => unreachable!("a get gives a row"),
        }
    }

    fn page(&self, range: &Range) -> Result<Page> {
        match read::read(&self.group, &self.rows, &Read::Range(range.clone()))?.body {
            Body::Page(page) => Ok(page),
            _ => unreachable!("a range gives a page"),
        }
    }
}
