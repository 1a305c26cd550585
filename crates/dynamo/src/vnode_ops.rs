//! Operations of a vnode on a key: a client's write, the merge of another replica's state, a read.

use super::contexts::client_context;
use super::data_type::Change;
use super::row_change::RowTransition;
use super::vnode_store::{VnodeStore, VnodeStoreState};
use base::dots::DotContext;
use base::error::corrupt;
use base::limits::{SIBLINGS_BYTES_MAX, SIBLINGS_WARN};
use base::{
    Actor, BucketName, Consistency, Error, Key, NodeId, Partition, Properties, Reason, Result,
    SyncPolicy,
};
use bytes::Bytes;
use logic::causal::Minter;
use logic::ring::Ring;
use runtime::mutants::Mutant;
use runtime::world;
use vnode_rows::batch::KeyChanges;
use vnode_rows::layout::{
    Row, StoredValue, has_live_value, hint_key, read_row, record_key, row_key_in, write_row,
};
use vnode_rows::slots::Slot;

/// Maximum size of a row merged from other replicas, as a multiple of the limit for a client's
/// write.
const MERGE_SIZE_FACTOR: usize = 2;

/// A key with its slot.
#[derive(Clone, Debug)]
pub struct KeyRef {
    /// Slot of the ring in which the key lies.
    pub slot: Slot,
    /// Bucket that holds it.
    pub bucket: BucketName,
    /// The key itself.
    pub key: Key,
}

impl KeyRef {
    /// Finds the slot of a key.
    pub fn new(bucket: BucketName, key: Key) -> KeyRef {
        KeyRef { slot: Slot::for_key(&bucket, &key), bucket, key }
    }

    /// Returns the partition that holds it.
    pub fn partition(&self, ring: &Ring) -> Partition {
        self.slot.partition(ring)
    }

    /// Key of its row in the store.
    pub fn row_key(&self) -> Bytes {
        row_key_in(self.slot, &self.bucket, &self.key)
    }

    /// Returns the tree key of its hint for a node.
    pub(super) fn hint_key(&self, primary: NodeId) -> Bytes {
        hint_key(self.slot, primary, &self.bucket, &self.key)
    }
}

/// Rules of a bucket's properties for a vnode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePolicy {
    /// True if a write is acknowledged only after a sync.
    pub sync: bool,
    /// True if only the newest of several values is kept.
    pub keep_newest_only: bool,
    /// True if a write replaces all existing values.
    pub last_write_wins: bool,
    /// Maximum number of siblings of a key.
    pub siblings_max: usize,
}

impl WritePolicy {
    /// Takes the rules from a bucket's properties.
    pub fn from_properties(properties: &Properties) -> WritePolicy {
        debug_assert!(properties.consistency == Consistency::Available);
        let replication = &properties.replication;
        WritePolicy {
            sync: properties.sync == SyncPolicy::Sync,
            keep_newest_only: !replication.allow_mult || replication.last_write_wins,
            last_write_wins: replication.last_write_wins,
            siblings_max: replication.siblings_max.into(),
        }
    }

    /// Removes expired values and, if the bucket requires it, all but the newest.
    pub fn resolve(self, row: Row) -> Row {
        let now = world::unix_ms();
        let row = row.remove_if(|value| value.has_expired(now));
        if !self.keep_newest_only || row.size() < 2 {
            return row;
        }
        row.lww(|a, b| (a.written_ms(), a) <= (b.written_ms(), b))
    }
}

/// Versions that a write has seen.
#[derive(Clone, Debug)]
pub enum SeenVersions {
    /// None: it replaces nothing.
    Nothing,
    /// The versions of this context.
    Context(DotContext<Actor>),
    /// All versions of the vnode: the write overwrites them.
    Everything,
}

/// Condition of a write.
#[derive(Clone, Debug)]
pub enum WriteCondition {
    /// Unconditionally.
    Always,
    /// The key has no value.
    Absent,
    /// The key has no version that this context has not seen.
    Unchanged(DotContext<Actor>),
}

/// Content of a write.
#[derive(Clone, Debug)]
pub enum WriteContent {
    /// A value.
    Value(StoredValue),
    /// Change of the key's data type.
    Change(Change),
}

/// A client's write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Value, or change of a data type.
    pub content: WriteContent,
    /// Versions of the key that the client had seen.
    pub seen: SeenVersions,
    /// Condition of the write.
    pub condition: WriteCondition,
}

/// A write that was evaluated.
pub struct EvaluatedWrite {
    /// Ticket: reached once the write is as durable as the bucket requires.
    pub ticket: u64,
    /// The new row, encoded for the other replicas.
    pub bytes: Bytes,
    /// The new row.
    pub row: Row,
    /// Context for a client that does not receive the row: the versions that it had seen, and its
    /// own write.
    pub context: DotContext<Actor>,
}

impl VnodeStore {
    /// Warns about a key with many siblings. The log never holds keys: the hash identifies one only
    /// to a reader who knows it.
    fn warn_of_siblings(&self, key_ref: &KeyRef, siblings: usize) {
        if let Some(left_out) = self.many_siblings.try_acquire() {
            let key_hash = format!("{:016x}", base::codec::checksum(&key_ref.key, 0));
            let bucket = &key_ref.bucket;
            tracing::warn!(
                target: "node", %bucket, key_hash, siblings, left_out, "a key has many siblings"
            );
        }
    }

    /// Returns true if a warning about many siblings was logged recently.
    pub fn has_many_siblings(&self) -> bool {
        self.many_siblings.is_recent()
    }

    /// Applies a client's write under this vnode's next dot. `hint`: the owner for which this node
    /// is the fallback.
    pub fn write(
        &self,
        key_ref: &KeyRef,
        write: Write,
        policy: WritePolicy,
        hint: Option<NodeId>,
    ) -> Result<EvaluatedWrite> {
        let key = key_ref.row_key();
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let (_, current) = self.newest(state, &key)?;
        let local = self.row(current.as_ref())?;
        check_condition(&write.condition, &local)?;
        let before = self.minter(state, key_ref.slot)?;
        let seen = match write.seen {
            _ if policy.last_write_wins => local.join(),
            SeenVersions::Nothing if Mutant::OverwriteWithoutContext.is_active() => local.join(),
            SeenVersions::Nothing => DotContext::empty(),
            SeenVersions::Context(context) => context,
            SeenVersions::Everything => local.join(),
        };
        let (size, mut minter) = (local.size(), before);
        let had_headers = local.values().any(StoredValue::has_headers);
        let written = match &write.content {
            WriteContent::Value(value) => {
                minter.write(local, &seen, value.clone(), world::random_u64())
            }
            WriteContent::Change(change) => change.write(&mut minter, local, &seen)?,
        };
        let row = policy.resolve(written.clock);
        // A write that does not raise the number of siblings is always accepted: it is the only way
        // to reduce them.
        if row.size() > policy.siblings_max && row.size() > size {
            return Err(too_many(key_ref, policy.siblings_max));
        }
        let bytes = write_row(&row);
        if bytes.len() > SIBLINGS_BYTES_MAX {
            return Err(too_large(key_ref, bytes.len(), SIBLINGS_BYTES_MAX));
        }
        if row.size() >= SIBLINGS_WARN && size < SIBLINGS_WARN {
            self.warn_of_siblings(key_ref, row.size());
        }
        let mut changes = Vec::with_capacity(3);
        self.push_record_and_hint(state, &mut changes, key_ref, (before, minter), hint)?;
        let may_be_tagged = had_headers || row.values().any(StoredValue::has_headers);
        let (before, after) = (current.as_ref(), Some(bytes.clone()));
        let transition = RowTransition { key, before, after, may_be_tagged };
        self.change_row(state, transition, &mut changes);
        // Stored only here, after the last possible failure: a refused write uses no dot.
        state.minters.insert(key_ref.slot, minter);
        let ticket = self.log_changes(state, changes, policy.sync);
        // Not the row's whole context: with that, the client's next write would drop siblings that
        // it has not read.
        let context = seen.with_dot(written.dot.id, written.dot.count);
        Ok(EvaluatedWrite { ticket, bytes, row, context })
    }

    /// Merges another replica's row; returns the ticket. `hint`: the owner for which this node is
    /// the fallback.
    pub fn merge(
        &self,
        key_ref: &KeyRef,
        incoming: Row,
        policy: WritePolicy,
        hint: Option<NodeId>,
    ) -> Result<u64> {
        let key = key_ref.row_key();
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let (index, current) = self.newest(state, &key)?;
        let local = self.row(current.as_ref())?;
        let before = self.minter(state, key_ref.slot)?;
        let mut minter = before;
        let had_headers = local.values().any(StoredValue::has_headers);
        let local = if Mutant::OverwriteInsteadOfMerge.is_active() { Row::empty() } else { local };
        let (clock, doubt) = minter.merge(local, incoming, world::random_u64());
        if let Some(doubt) = doubt {
            tracing::info!(
                target: "node", slot = key_ref.slot.0, ?doubt, actor = %minter.actor(),
                "a vnode continues with a new actor id"
            );
        }
        let row = policy.resolve(clock);
        let bytes = write_row(&row);
        let bytes_max = MERGE_SIZE_FACTOR * SIBLINGS_BYTES_MAX;
        if bytes.len() > bytes_max {
            return Err(too_large(key_ref, bytes.len(), bytes_max));
        }
        // No change. The answer still waits for the batch that holds the row, and for a sync of it:
        // the row may have been stored unsynced, and the sender may drop its own copy after this
        // answer.
        if current.as_ref() == Some(&bytes) && minter == before && hint.is_none() {
            return Ok(if policy.sync { self.sync_ticket(state, index) } else { index });
        }
        let mut changes = Vec::with_capacity(3);
        self.push_record_and_hint(state, &mut changes, key_ref, (before, minter), hint)?;
        let may_be_tagged = had_headers || row.values().any(StoredValue::has_headers);
        let (before, after) = (current.as_ref(), Some(bytes));
        let transition = RowTransition { key, before, after, may_be_tagged };
        let feeds = state.feeds.set.take_if(|_| Mutant::MergeWithoutFeedEntry.is_active());
        self.change_row(state, transition, &mut changes);
        if feeds.is_some() {
            state.feeds.set = feeds;
        }
        state.minters.insert(key_ref.slot, minter);
        Ok(self.log_changes(state, changes, policy.sync))
    }

    /// Adds a hint: the row of this key must be sent to that node as well.
    pub(super) fn add_hint(&self, key_ref: &KeyRef, node: NodeId) -> Result<()> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let hint = key_ref.hint_key(node);
        let is_absent = self.newest(state, &key_ref.row_key())?.1.is_none();
        // A hint refers to the row that is stored when it is delivered, so one is enough.
        if is_absent || self.newest(state, &hint)?.1.is_some() {
            return Ok(());
        }
        if let Some(nodes) = &mut state.hinted_nodes {
            nodes.insert(node);
        }
        state.pending_hints.add(node, world::milliseconds());
        self.change(state, [(hint, Some(Bytes::new()))], false);
        Ok(())
    }

    /// Removes expired values. Their dots stay in the row's context.
    pub(super) fn expire(&self, key_ref: &KeyRef, policy: WritePolicy) -> Result<()> {
        let key = key_ref.row_key();
        let mut guard = self.admit()?;
        let (_, current) = self.newest(&guard, &key)?;
        let Some(current) = current else { return Ok(()) };
        let resolved = write_row(&policy.resolve(read_row(&current).map_err(corrupt)?));
        if resolved != current {
            let transition = RowTransition::of_bytes(key, Some(&current), Some(resolved));
            self.change_row_alone(&mut guard, transition, policy.sync);
        }
        Ok(())
    }

    fn push_record_and_hint(
        &self,
        state: &mut VnodeStoreState,
        changes: &mut KeyChanges,
        key_ref: &KeyRef,
        (before, minter): (Minter, Minter),
        hint: Option<NodeId>,
    ) -> Result<()> {
        let record = minter.record();
        if record != before.record() {
            changes.push((record_key(key_ref.slot), Some(record.into())));
        }
        if let Some(primary) = hint {
            let hint = key_ref.hint_key(primary);
            if self.newest(state, &hint)?.1.is_none() {
                state.pending_hints.add(primary, world::milliseconds());
            }
            changes.push((hint, Some(Bytes::new())));
            if let Some(nodes) = &mut state.hinted_nodes {
                nodes.insert(primary);
            }
        }
        Ok(())
    }

    /// Returns the durable row of a key, encoded. `None`: there is none.
    pub fn read(&self, key_ref: &KeyRef) -> Result<Option<Bytes>> {
        self.read_durable(&key_ref.row_key())
    }

    fn row(&self, bytes: Option<&Bytes>) -> Result<Row> {
        bytes.map_or_else(|| Ok(Row::empty()), |bytes| read_row(bytes).map_err(corrupt))
    }
}

fn check_condition(condition: &WriteCondition, local: &Row) -> Result<()> {
    let fails = |text: &str| Err(Error::new(Reason::Changed, text));
    match condition {
        WriteCondition::Absent if has_live_value(local) => fails("the key already has a value"),
        WriteCondition::Unchanged(seen) if !seen.covers(&client_context(local)) => {
            fails("the key was changed in the meantime: read it again")
        }
        WriteCondition::Always | WriteCondition::Absent | WriteCondition::Unchanged(_) => Ok(()),
    }
}

fn too_many(key_ref: &KeyRef, most: usize) -> Error {
    let text = format!(
        "this write would exceed the {most} siblings that `{}` allows per key (siblings_max): read \
         the key, merge its values, and write the result with the returned context",
        key_ref.bucket
    );
    Error::new(Reason::TooManySiblings, text)
}

fn too_large(key_ref: &KeyRef, bytes: usize, most: usize) -> Error {
    let text = format!(
        "the values of this key in `{}` would have {bytes} bytes in total, more than {most}: read \
         the key, merge its values, and write the result with the returned context",
        key_ref.bucket
    );
    Error::new(Reason::TooLarge, text)
}
