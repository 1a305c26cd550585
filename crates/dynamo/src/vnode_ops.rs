//! Operations of a vnode on a key: a client's write, the merge of another replica's state, a read.

use super::contexts::seen_in;
use super::data_type::Change;
use super::layout::{Row, Stored, hint_key, read_row, record_key, row_key_in, write_row};
use super::slots::Slot;
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

/// Maximum size of a merge of other replicas' writes, as a multiple of what one vnode takes.
const MERGED_TIMES: usize = 2;

/// A key with its slot.
#[derive(Clone, Debug)]
pub struct KeyRef {
    /// Slot of the ring that the key falls into.
    pub slot: Slot,
    /// Bucket that holds it.
    pub bucket: BucketName,
    /// The key itself.
    pub key: Key,
}

impl KeyRef {
    /// Finds the slot of a key.
    pub fn new(bucket: BucketName, key: Key) -> KeyRef {
        KeyRef { slot: Slot::of(&bucket, &key), bucket, key }
    }

    /// Returns the partition that holds it.
    pub fn partition(&self, ring: &Ring) -> Partition {
        self.slot.partition(ring)
    }

    /// Key of its row in the store.
    pub fn row_key(&self) -> Bytes {
        row_key_in(self.slot, &self.bucket, &self.key)
    }

    /// The key of its hint for a node.
    pub(super) fn hint_key(&self, primary: NodeId) -> Bytes {
        hint_key(self.slot, primary, &self.bucket, &self.key)
    }
}

/// Rules of a bucket's properties for a vnode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePolicy {
    /// True if a write counts only when it is synced.
    pub sync: bool,
    /// True if of several values only the newest is kept, as the bucket asks.
    pub keeps_one: bool,
    /// True if a write replaces whatever is there.
    pub overwrites: bool,
    /// Most siblings a key may have.
    pub siblings_max: usize,
}

impl WritePolicy {
    /// Takes the rules from a bucket's properties.
    pub fn of(properties: &Properties) -> WritePolicy {
        debug_assert!(properties.consistency == Consistency::Available);
        let replication = &properties.replication;
        WritePolicy {
            sync: properties.sync == SyncPolicy::Sync,
            keeps_one: !replication.allow_mult || replication.last_write_wins,
            overwrites: replication.last_write_wins,
            siblings_max: replication.siblings_max.into(),
        }
    }

    /// Removes expired values and, if the bucket asks for it, all but the newest.
    pub fn settle(self, row: Row) -> Row {
        let now = world::unix_ms();
        let row = row.without(|value| value.has_expired(now));
        if !self.keeps_one || row.size() < 2 {
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
    Value(Stored),
    /// Change of the key's data type.
    Change(Change),
}

/// A client's write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Value, or change of a data type.
    pub what: WriteContent,
    /// Versions of the key that the client had seen.
    pub seen: SeenVersions,
    /// Condition of the write.
    pub only: WriteCondition,
}

/// A write that was evaluated.
pub struct EvaluatedWrite {
    /// Reached when it is as firm as the bucket wants.
    pub ticket: u64,
    /// The row from now on, for the other replicas.
    pub bytes: Bytes,
    /// The row, decoded.
    pub row: Row,
    /// Context of a client that does not get the row: the versions that it had seen, and its own
    /// write.
    pub context: DotContext<Actor>,
}

impl VnodeStore {
    /// Keys never stand in the log: the hash identifies one only to a reader who knows it.
    fn warn_of_siblings(&self, key_ref: &KeyRef, siblings: usize) {
        if let Some(left_out) = self.many_siblings.due() {
            let key_hash = format!("{:016x}", base::codec::checksum(&key_ref.key, 0));
            let bucket = &key_ref.bucket;
            tracing::warn!(
                target: "node", %bucket, key_hash, siblings, left_out, "a key has many siblings"
            );
        }
    }

    /// True if such a warning was logged lately.
    pub fn has_many_siblings(&self) -> bool {
        self.many_siblings.is_recent()
    }

    /// A client's write, as this vnode's next dot. `hint`: in place of which node.
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
        let (_, known) = self.newest(state, &key)?;
        let local = self.row(known.as_ref())?;
        check(&write.only, &local)?;
        let before = self.minter(state, key_ref.slot)?;
        let seen = match write.seen {
            _ if policy.overwrites => local.join(),
            SeenVersions::Nothing if Mutant::BlindReplaces.is_active() => local.join(),
            SeenVersions::Nothing => DotContext::empty(),
            SeenVersions::Context(context) => context,
            SeenVersions::Everything => local.join(),
        };
        let (size, mut minter) = (local.size(), before);
        let written = match &write.what {
            WriteContent::Value(value) => {
                minter.write(local, &seen, value.clone(), world::chance())
            }
            WriteContent::Change(change) => change.write(&mut minter, local, &seen)?,
        };
        let row = policy.settle(written.clock);
        // A write that leaves no more siblings than there were is always taken: it is the way out.
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
        let mut changes = vec![(key, Some(bytes.clone()))];
        self.add(state, &mut changes, key_ref, (before, minter), hint)?;
        self.follow_from(state, known.as_ref(), &changes[0]);
        // Only here, where nothing fails any more: a write that is refused uses no dot.
        state.minters.insert(key_ref.slot, minter);
        let ticket = self.note(state, changes, policy.sync);
        // Not all that the row has heard of: the client's next write would drop siblings that it
        // was not shown.
        let context = seen.and(written.dot.id, written.dot.count);
        Ok(EvaluatedWrite { ticket, bytes, row, context })
    }

    /// Another replica's state; gives the ticket. `hint`: in place of which node.
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
        let (index, known) = self.newest(state, &key)?;
        let local = self.row(known.as_ref())?;
        let before = self.minter(state, key_ref.slot)?;
        let mut minter = before;
        let local = if Mutant::MergeOverwrites.is_active() { Row::empty() } else { local };
        let (clock, doubt) = minter.merge(local, incoming, world::chance());
        if let Some(doubt) = doubt {
            tracing::info!(
                target: "node", slot = key_ref.slot.0, ?doubt, actor = %minter.actor(),
                "a vnode goes on as another actor"
            );
        }
        let bytes = write_row(&policy.settle(clock));
        let most = MERGED_TIMES * SIBLINGS_BYTES_MAX;
        if bytes.len() > most {
            return Err(too_large(key_ref, bytes.len(), most));
        }
        // Nothing new. The answer still waits for the batch that brought the row, and for a sync of
        // it: the row may have come unsynced, and its sender may drop its own copy by this answer.
        if known.as_ref() == Some(&bytes) && minter == before && hint.is_none() {
            return Ok(if policy.sync { self.ticket_of_sync(state, index) } else { index });
        }
        let mut changes = vec![(key, Some(bytes))];
        self.add(state, &mut changes, key_ref, (before, minter), hint)?;
        self.follow_from(state, known.as_ref(), &changes[0]);
        state.minters.insert(key_ref.slot, minter);
        Ok(self.note(state, changes, policy.sync))
    }

    /// Adds a hint: the row of this key is to go to that node too.
    pub(super) fn remember(&self, key_ref: &KeyRef, node: NodeId) -> Result<()> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let hint = key_ref.hint_key(node);
        let nothing = self.newest(state, &key_ref.row_key())?.1.is_none();
        // A hint stands for the row that is here when it is sent, so one is enough.
        if nothing || self.newest(state, &hint)?.1.is_some() {
            return Ok(());
        }
        if let Some(hinted) = &mut state.hinted {
            hinted.insert(node);
        }
        self.change(state, [(hint, Some(Bytes::new()))], false);
        Ok(())
    }

    /// Removes expired values. The row still has them in its context.
    pub(super) fn expire(&self, key_ref: &KeyRef, policy: WritePolicy) -> Result<()> {
        let key = key_ref.row_key();
        let mut guard = self.admit()?;
        let (_, known) = self.newest(&guard, &key)?;
        let Some(known) = known else { return Ok(()) };
        let left = write_row(&policy.settle(read_row(&known).map_err(corrupt)?));
        if left != known {
            self.change(&mut guard, [(key, Some(left))], policy.sync);
        }
        Ok(())
    }

    fn add(
        &self,
        state: &mut VnodeStoreState,
        changes: &mut Vec<(Bytes, Option<Bytes>)>,
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
                state.waiting.keeps(primary, world::milliseconds());
            }
            changes.push((hint, Some(Bytes::new())));
            if let Some(hinted) = &mut state.hinted {
                hinted.insert(primary);
            }
        }
        Ok(())
    }

    /// Returns the durable row of a key, encoded. `None`: there is none.
    pub fn read(&self, key_ref: &KeyRef) -> Result<Option<Bytes>> {
        self.firm(&key_ref.row_key())
    }

    fn row(&self, bytes: Option<&Bytes>) -> Result<Row> {
        bytes.map_or_else(|| Ok(Row::empty()), |bytes| read_row(bytes).map_err(corrupt))
    }
}

/// Returns true if a row has a value that is not expired.
pub fn living(row: &Row) -> bool {
    let now = world::unix_ms();
    row.values().any(|value| !value.is_tombstone() && !value.has_expired(now))
}

fn check(only: &WriteCondition, local: &Row) -> Result<()> {
    let fails = |text: &str| Err(Error::new(Reason::Changed, text));
    match only {
        WriteCondition::Absent if living(local) => fails("the key has a value"),
        WriteCondition::Unchanged(seen) if !seen.covers(&seen_in(local)) => {
            fails("the key was written since: read it again")
        }
        WriteCondition::Always | WriteCondition::Absent | WriteCondition::Unchanged(_) => Ok(()),
    }
}

fn too_many(key_ref: &KeyRef, most: usize) -> Error {
    let text = format!(
        "`{}` allows {most} siblings of a key (siblings_max), and this write would make one more: \
         read the key, merge its values, and write the result with the context you got",
        key_ref.bucket
    );
    Error::new(Reason::TooManySiblings, text)
}

fn too_large(key_ref: &KeyRef, bytes: usize, most: usize) -> Error {
    let text = format!(
        "the values of this key in `{}` would have {bytes} bytes together, at most {most} are \
         kept: read the key, merge its values, and write the result with the context you got",
        key_ref.bucket
    );
    Error::new(Reason::TooLarge, text)
}
