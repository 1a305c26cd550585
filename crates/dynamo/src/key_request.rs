//! Coordination of a client's request for one key: the meaning of each call, and its answer.
//!
//! Plain calls work where they have a meaning. A `Get` answers the value if there is one; several
//! are a `conflict` error that names the remedy. A `Set` overwrites all values of the coordinating
//! replica, as clients expect of `SET`; concurrent writes of other replicas stay as siblings. Blind
//! writes, which overwrite nothing, use `AvailableCall::Store` without a context.

use super::contexts::{ContextCodec, client_context, shorten_context};
use super::key_owners::KeyOwners;
use super::layout::{Row, StoredValue};
use super::timing::time_until;
use super::vnode_ops::{
    EvaluatedWrite, SeenVersions, Write, WriteCondition, WriteContent, WritePolicy, has_live_value,
};
use crate::Available;
use base::error::corrupt;
use base::request::{Expiry, OnMissing};
use base::{
    AvailableCall, Body, BucketName, Call, Condition, Content, Context, DataType, Error,
    FetchOptions, Key, LogIndex, Outcome, Properties, Quorum, Read, ReadLevel, Reason, Reply,
    Request, Result, Row as PlainRow, Siblings, StoreOptions, Update, Version,
};
use logic::quorum::{FetchQuorums, QuorumError, StoreQuorums};
use runtime::metrics::Metrics;
use runtime::world;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Default timeout of a request, in milliseconds.
const TIMEOUT_MS: u64 = 10_000;
/// Maximum timeout that a client may request, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 60_000;

impl Available {
    /// Coordinates a request on this node. `owners`: the owners of a write's key, if they are
    /// known.
    pub(super) async fn coordinate(
        self: &Arc<Available>,
        request: Request,
        properties: &Properties,
        owners: Option<KeyOwners>,
    ) -> Result<Reply> {
        if request.retry.is_some() {
            return Err(unsupported("retries with a session are not supported"));
        }
        let owners = Mutex::new(owners);
        let key_request =
            KeyRequest { available: self, bucket: &request.bucket, properties, owners };
        let body = match request.call {
            Call::Read(read, level) => key_request.read(read, level).await?,
            Call::Update(update) => key_request.update(update).await?,
            Call::Available(call) => key_request.call(call).await?,
            Call::Session(_) => return Err(unsupported("sessions are not supported")),
            Call::Directory(_) => return Err(unsupported("the directory is asked elsewhere")),
        };
        Ok(Reply::new(LogIndex(0), body))
    }
}

fn unsupported(what: &str) -> Error {
    let text = format!(
        "available bucket: {what}; use get, set and delete of one key, or a consistent bucket"
    );
    Error::new(Reason::NotSupported, text)
}

/// Request for one key, with its bucket.
pub(super) struct KeyRequest<'a> {
    pub(super) available: &'a Arc<Available>,
    pub(super) bucket: &'a BucketName,
    pub(super) properties: &'a Properties,
    /// Owners of a write's key that were found when its coordinator was chosen, until they are
    /// used.
    pub(super) owners: Mutex<Option<KeyOwners>>,
}

impl KeyRequest<'_> {
    pub(super) fn contexts(&self) -> ContextCodec<'_> {
        let Available { cluster, schema, metrics, .. } = &**self.available;
        ContextCodec::new(self.bucket, *cluster, schema.context_key(), metrics)
    }

    async fn read(&self, read: Read, level: ReadLevel) -> Result<Body> {
        self.require_plain_values()?;
        let mut options = FetchOptions::default();
        match level {
            ReadLevel::Consistent => {}
            ReadLevel::Dirty => options.r = Some(Quorum::One),
            ReadLevel::AtLeast(_) => {
                return Err(unsupported(
                    "read level at_least is not supported, because there is no log index",
                ));
            }
        }
        match read {
            Read::Get(key) => self.get(key, &options).await.map(Body::Row),
            Read::MultiGet(keys) => {
                let mut rows = Vec::with_capacity(keys.len().min(1_024));
                for key in keys {
                    rows.push(self.get(key, &options).await?);
                }
                Ok(Body::Rows(rows))
            }
            Read::Exists(keys) => {
                let mut count = 0;
                for key in keys {
                    let row = self.fetch(&key, &options).await?;
                    count += u64::from(row.is_some_and(|row| has_live_value(&row)));
                }
                Ok(Body::Count(count))
            }
            _ => Err(unsupported("range reads, counts and assertions are not supported")),
        }
    }

    async fn update(&self, update: Update) -> Result<Body> {
        match update {
            Update::Set { expiry: Expiry::Keep | Expiry::After(0), .. } => {
                Err(unsupported("a write can't keep the expiry time or expire at once"))
            }
            Update::Set { key, value, expiry } => {
                self.require_plain_values()?;
                let content = Content::plain(value);
                let new_value = (Some(&content), expiry);
                let precondition = (SeenVersions::Everything, WriteCondition::Always);
                self.store(&key, new_value, precondition, &StoreOptions::default()).await?;
                Ok(Body::Updated(Outcome::Done))
            }
            Update::Delete { key, missing } => {
                let removed = self.remove(&key, None, &StoreOptions::default()).await?;
                match (removed, missing) {
                    (None, OnMissing::Fail) => Err(Error::key(Reason::NotFound, &key)),
                    (removed, _) => Ok(Body::Updated(Outcome::Existed(removed.is_some()))),
                }
            }
            _ => Err(unsupported("conditional and atomic updates are not supported")),
        }
    }

    async fn call(&self, call: AvailableCall) -> Result<Body> {
        match call {
            AvailableCall::Fetch { key, options } => {
                let row = self.fetch(&key, &options).await?;
                Ok(Body::Siblings(self.siblings(&key, &row.unwrap_or_default())?))
            }
            AvailableCall::Store(store) => {
                self.require_plain_values()?;
                let base::Store { key, content, context, options, condition } = *store;
                content.headers.check()?;
                let seen = match &context {
                    Some(context) => SeenVersions::Context(self.contexts().decode(&key, context)?),
                    None => SeenVersions::Nothing,
                };
                let condition = match &condition {
                    None => WriteCondition::Always,
                    Some(Condition::Absent) => WriteCondition::Absent,
                    Some(Condition::Unchanged(context)) => {
                        WriteCondition::Unchanged(self.contexts().decode(&key, context)?)
                    }
                };
                let new_value = (Some(&content), Expiry::Default);
                self.store(&key, new_value, (seen, condition), &options).await
            }
            AvailableCall::Remove { key, context, options } => {
                match self.remove(&key, context.as_ref(), &options).await? {
                    Some(body) => Ok(body),
                    None => Err(Error::key(Reason::NotFound, &key)),
                }
            }
            AvailableCall::Keys { after, rows_max } => {
                self.available.list_keys(self.bucket, after, rows_max).await.map(Body::Keys)
            }
            AvailableCall::Buckets { after, rows_max } => {
                let kind = self.bucket.kind();
                self.available.list_buckets(kind, after, rows_max).await.map(Body::BucketNames)
            }
            AvailableCall::Change(change) => self.change(*change).await,
            AvailableCall::FetchType { key, options } => {
                self.typed(&key, &options).await.map(|found| Body::Typed(Box::new(found)))
            }
            AvailableCall::Owners { key } => self.owners(&key).map(Body::Owners),
        }
    }

    /// Refuses plain values in a bucket of data types, which are only changed by operations.
    fn require_plain_values(&self) -> Result<()> {
        match self.properties.replication.datatype {
            DataType::None => Ok(()),
            kind => {
                let text = format!(
                    "`{}` is an available bucket of data types ({}): use the operations of data \
                     types",
                    self.bucket,
                    kind.name()
                );
                Err(Error::new(Reason::NotSupported, text))
            }
        }
    }

    async fn get(&self, key: Key, options: &FetchOptions) -> Result<Option<PlainRow>> {
        let Some(row) = self.fetch(&key, options).await? else { return Ok(None) };
        let mut values = row.siblings().filter(|(_, value)| !value.is_tombstone());
        let Some((dot, value)) = values.next() else { return Ok(None) };
        let other_values = values.count();
        if other_values > 0 {
            let text = format!(
                "this key has {} concurrent values: read its siblings with their context, and \
                 write the merged value with that context; a plain set replaces them all",
                other_values + 1
            );
            return Err(Error::new(Reason::Siblings, text));
        }
        if value.is_typed() {
            let text = "this key of an available bucket holds a counter: read it as a data type";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let sibling = value.sibling(dot).map_err(corrupt)?;
        // 53 bits: every JSON reader keeps them exact.
        let version = Version((sibling.vtag.0 >> 75) as u64);
        let now = world::unix_ms();
        let expires_in_ms = value.expires_at().map(|at| at.saturating_sub(now));
        Ok(Some(PlainRow { value: sibling.content.value, version, expires_in_ms }))
    }

    pub(super) async fn fetch(&self, key: &Key, options: &FetchOptions) -> Result<Option<Row>> {
        self.check_key(key)?;
        Metrics::count(&self.available.metrics.reads);
        let replication = &self.properties.replication;
        let wish = FetchQuorums {
            r: options.r.unwrap_or(replication.r),
            pr: options.pr.unwrap_or(replication.pr),
            node_confirms: options.node_confirms.unwrap_or(replication.node_confirms),
            basic_quorum: options.basic_quorum.unwrap_or(replication.basic_quorum),
            notfound_ok: options.notfound_ok.unwrap_or(replication.notfound_ok),
        };
        let policy = WritePolicy::from_properties(self.properties);
        let until_ms =
            world::milliseconds() + request_timeout(options.timeout_ms).as_millis() as u64;
        loop {
            let owners = self.available.key_owners(self.bucket, key, replication.n_val)?;
            let needs = wish.needs(replication.n_val, owners.nodes).map_err(excessive)?;
            let epoch = owners.epoch;
            match self.available.fetch(owners, (policy, needs), time_until(until_ms)).await {
                // Retried with a newer ring each time, within the same deadline.
                Err(error)
                    if error.reason == Reason::Changed && self.available.has_newer_ring(epoch) => {}
                found => return found.inspect_err(|error| self.available.count_refusal(error)),
            }
        }
    }

    async fn store(
        &self,
        key: &Key,
        (content, expiry): (Option<&Content>, Expiry),
        (seen, condition): (SeenVersions, WriteCondition),
        options: &StoreOptions,
    ) -> Result<Body> {
        self.check_content(content)?;
        let content = WriteContent::Value(self.stored(content, expiry));
        let written = self.write(key, Write { content, seen, condition }, options).await?;
        let reply = match options.return_body {
            true => self.siblings(key, &written.row).map(Body::Siblings),
            false => {
                let seen = shorten_context(written.context, &written.row);
                self.contexts().encode(key, &seen).map(Body::Stored)
            }
        };
        reply.map_err(|error| reply_failed_after_write(&error))
    }

    /// Coordinates a write here, with the quorum that the options and properties require.
    pub(super) async fn write(
        &self,
        key: &Key,
        write: Write,
        options: &StoreOptions,
    ) -> Result<EvaluatedWrite> {
        self.check_key(key)?;
        Metrics::count(&self.available.metrics.updates);
        let replication = &self.properties.replication;
        let wish = StoreQuorums {
            w: options.w.unwrap_or(replication.w),
            dw: options.dw.unwrap_or(replication.dw),
            pw: options.pw.unwrap_or(replication.pw),
            node_confirms: options.node_confirms.unwrap_or(replication.node_confirms),
        };
        let owners = self.owners_for_write(key)?;
        let needs = wish.needs(replication.n_val, owners.nodes).map_err(excessive)?;
        let policy = WritePolicy::from_properties(self.properties);
        let within = request_timeout(options.timeout_ms);
        let written = self.available.store(owners, write, (policy, needs), within).await;
        written.inspect_err(|error| self.available.count_refusal(error))
    }

    /// Returns the owners of a write's key: those found with the coordinator, unless the ring has
    /// changed since.
    fn owners_for_write(&self, key: &Key) -> Result<KeyOwners> {
        let found = self.owners.lock().unwrap_or_else(PoisonError::into_inner).take();
        match found.filter(|owners| !self.available.has_newer_ring(owners.epoch)) {
            Some(owners) => Ok(owners),
            None => {
                let n = self.properties.replication.n_val;
                self.available.key_owners(self.bucket, key, n)
            }
        }
    }

    /// Builds the stored value of a content, or the tombstone of a delete.
    fn stored(&self, content: Option<&Content>, expiry: Expiry) -> StoredValue {
        let now = world::unix_ms();
        let stored = StoredValue::new(content, now);
        let ttl = match expiry {
            Expiry::Default => self.properties.ttl_ms,
            Expiry::After(ms) => ms,
            Expiry::Never | Expiry::Keep => 0,
        };
        match ttl {
            ttl if ttl > 0 && content.is_some() => stored.with_expiry(now.saturating_add(ttl)),
            _ => stored,
        }
    }

    /// Deletes the values that the context has seen. Without a context, deletes the values that a
    /// read finds. `None`: there was no value.
    async fn remove(
        &self,
        key: &Key,
        context: Option<&Context>,
        options: &StoreOptions,
    ) -> Result<Option<Body>> {
        let seen = match context {
            Some(context) => self.contexts().decode(key, context)?,
            None => match self.fetch(key, &read_options(options)).await? {
                Some(row) if has_live_value(&row) => row.join(),
                _ => return Ok(None),
            },
        };
        let precondition = (SeenVersions::Context(seen), WriteCondition::Always);
        self.store(key, (None, Expiry::Never), precondition, options).await.map(Some)
    }

    fn siblings(&self, key: &Key, row: &Row) -> Result<Siblings> {
        let all = row.siblings().map(|(dot, value)| self.sibling(dot, value));
        let mut values = all.collect::<Result<Vec<_>>>()?;
        values.sort_by_key(|value| (std::cmp::Reverse(value.written_ms), value.vtag));
        Ok(Siblings { context: self.contexts().encode(key, &client_context(row))?, values })
    }

    fn check_key(&self, key: &Key) -> Result<()> {
        let most = self.properties.key_bytes_max;
        if key.len() <= most {
            return Ok(());
        }
        let text = format!("a key of {} bytes exceeds {most} (key_bytes_max)", key.len());
        Err(Error::new(Reason::TooLarge, text))
    }

    fn check_content(&self, content: Option<&Content>) -> Result<()> {
        // Tombstones are always accepted: only they can free space.
        let Some(content) = content else { return Ok(()) };
        let (bytes, most) = (content.value.len(), self.properties.value_bytes_max);
        if bytes > most {
            let text = format!("a value of {bytes} bytes exceeds {most} (value_bytes_max)");
            return Err(Error::new(Reason::TooLarge, text));
        }
        self.check_disk_space()
    }

    pub(super) fn check_disk_space(&self) -> Result<()> {
        if self.available.space.is_full() {
            Metrics::count(&self.available.metrics.updates_refused);
            return Err(self.available.space.refusal_error());
        }
        Ok(())
    }
}

/// Options of the read that precedes a delete, with the delete's timeout.
fn read_options(options: &StoreOptions) -> FetchOptions {
    FetchOptions { timeout_ms: options.timeout_ms, ..FetchOptions::default() }
}

/// Returns the error of a completed write whose answer can't be built. The original error would
/// claim that nothing happened.
pub(super) fn reply_failed_after_write(error: &Error) -> Error {
    let text = format!("the write was applied, but its result can't be returned: {error}");
    Error::new(Reason::InDoubt, text)
}

fn excessive(error: QuorumError) -> Error {
    Error::new(Reason::Malformed, error.to_string())
}

fn request_timeout(timeout_ms: Option<u64>) -> Duration {
    Duration::from_millis(timeout_ms.unwrap_or(TIMEOUT_MS).clamp(1, TIMEOUT_MS_MAX))
}
