//! Coordination of a client's request for one key: the meaning of each call, and its answer.
//!
//! Plain calls work where they have a meaning. A `Get` answers the value if there is one; several
//! are a `conflict` with the remedy. A `Set` overwrites whatever the coordinating replica has, as
//! clients that say `SET` mean it; concurrent writes of other replicas stay as siblings. Blind
//! writes, which overwrite nothing, use `AvailableCall::Store` without a context.

use super::contexts::{ContextCodec, seen_in, shortened};
use super::key_owners::KeyOwners;
use super::layout::{Row, Stored};
use super::timing::until;
use super::vnode_ops::{
    EvaluatedWrite, SeenVersions, Write, WriteCondition, WriteContent, WritePolicy, living,
};
use crate::Available;
use base::error::corrupt;
use base::request::{Expiry, Missing};
use base::{
    AvailableCall, Body, BucketName, Call, Condition, Content, Context, DataType, Error,
    FetchOptions, Key, LogIndex, Outcome, Properties, Quorum, Read, ReadLevel, Reason, Reply,
    Request, Result, Row as PlainRow, Siblings, StoreOptions, Update, Version,
};
use logic::quorum::{Excess, FetchWish, StoreWish};
use runtime::metrics::Metrics;
use runtime::world;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A request that names no time may take this long.
const WITHIN_MS: u64 = 10_000;
/// A client may ask for this much.
const WITHIN_MS_MAX: u64 = 60_000;

impl Available {
    /// Coordinates a request on this node; `owners` are those of a write's key, if they are known.
    pub(super) async fn coordinate(
        self: &Arc<Available>,
        request: Request,
        properties: &Properties,
        owners: Option<KeyOwners>,
    ) -> Result<Reply> {
        if request.retry.is_some() {
            return Err(unsupported("a request can't be named for a retry"));
        }
        let owners = Mutex::new(owners);
        let asked = KeyRequest { available: self, bucket: &request.bucket, properties, owners };
        let body = match request.call {
            Call::Read(read, level) => asked.read(read, level).await?,
            Call::Update(update) => asked.update(update).await?,
            Call::Available(call) => asked.call(call).await?,
            Call::Session(_) => return Err(unsupported("there are no sessions")),
            Call::Directory(_) => return Err(unsupported("the directory is asked elsewhere")),
        };
        Ok(Reply::new(LogIndex(0), body))
    }
}

fn unsupported(what: &str) -> Error {
    let text = format!(
        "in an available bucket {what}: use get, set and delete of one key, or a consistent bucket"
    );
    Error::new(Reason::NotSupported, text)
}

/// A request, and the bucket it asks.
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
        ContextCodec { bucket: self.bucket, cluster: self.available.cluster }
    }

    async fn read(&self, read: Read, level: ReadLevel) -> Result<Body> {
        self.plain()?;
        let mut options = FetchOptions::default();
        match level {
            ReadLevel::Consistent => {}
            ReadLevel::Dirty => options.r = Some(Quorum::One),
            ReadLevel::AtLeast(_) => return Err(unsupported("there is no log to wait for")),
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
                    count += u64::from(row.is_some_and(|row| living(&row)));
                }
                Ok(Body::Count(count))
            }
            _ => Err(unsupported("keys are not read in ranges, counted or asserted")),
        }
    }

    async fn update(&self, update: Update) -> Result<Body> {
        match update {
            Update::Set { expiry: Expiry::Keep | Expiry::After(0), .. } => {
                Err(unsupported("a write says anew how long its value lives, at least a moment"))
            }
            Update::Set { key, value, expiry } => {
                self.plain()?;
                let content = Content::plain(value);
                let what = (Some(&content), expiry);
                let how = (SeenVersions::Everything, WriteCondition::Always);
                self.store(&key, what, how, &StoreOptions::default()).await?;
                Ok(Body::Updated(Outcome::Done))
            }
            Update::Delete { key, missing } => {
                let removed = self.remove(&key, None, &StoreOptions::default()).await?;
                match (removed, missing) {
                    (None, Missing::Fails) => Err(Error::key(Reason::NotFound, &key)),
                    (removed, _) => Ok(Body::Updated(Outcome::Existed(removed.is_some()))),
                }
            }
            _ => Err(unsupported("nothing is changed under a condition, or together")),
        }
    }

    async fn call(&self, call: AvailableCall) -> Result<Body> {
        match call {
            AvailableCall::Fetch { key, options } => {
                let row = self.fetch(&key, &options).await?;
                Ok(Body::Siblings(self.siblings(&key, &row.unwrap_or_default())?))
            }
            AvailableCall::Store(store) => {
                self.plain()?;
                let base::Store { key, content, context, options, condition } = *store;
                content.headers.check()?;
                let seen = match &context {
                    Some(context) => SeenVersions::Context(self.contexts().decode(&key, context)?),
                    None => SeenVersions::Nothing,
                };
                let only = match &condition {
                    None => WriteCondition::Always,
                    Some(Condition::Absent) => WriteCondition::Absent,
                    Some(Condition::Unchanged(context)) => {
                        WriteCondition::Unchanged(self.contexts().decode(&key, context)?)
                    }
                };
                let what = (Some(&content), Expiry::Default);
                self.store(&key, what, (seen, only), &options).await
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

    /// Values of a data type are changed, and never written as a whole.
    fn plain(&self) -> Result<()> {
        match self.properties.replication.datatype {
            DataType::None => Ok(()),
            kind => {
                let text = format!(
                    "`{}` is an available bucket of data types ({}): they are read and changed as \
                     such, not as values",
                    self.bucket,
                    kind.word()
                );
                Err(Error::new(Reason::NotSupported, text))
            }
        }
    }

    async fn get(&self, key: Key, options: &FetchOptions) -> Result<Option<PlainRow>> {
        let Some(row) = self.fetch(&key, options).await? else { return Ok(None) };
        let mut living = row.siblings().filter(|(_, value)| !value.is_tombstone());
        let Some((dot, value)) = living.next() else { return Ok(None) };
        let others = living.count();
        if others > 0 {
            let text = format!(
                "this key has {} values that did not know of each other: read them as siblings \
                 with their context, and write what they become; a plain set replaces them all",
                others + 1
            );
            return Err(Error::new(Reason::Siblings, text));
        }
        if value.is_typed() {
            let text = "this key of an available bucket holds a counter: read it as a data type";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let sibling = value.sibling(dot).map_err(corrupt)?;
        // As many bits as every reader of JSON keeps exact.
        let version = Version((sibling.vtag.0 >> 75) as u64);
        let now = world::unix_ms();
        let expires_in_ms = value.expires_at().map(|at| at.saturating_sub(now));
        Ok(Some(PlainRow { value: sibling.content.value, version, expires_in_ms }))
    }

    pub(super) async fn fetch(&self, key: &Key, options: &FetchOptions) -> Result<Option<Row>> {
        self.check_key(key)?;
        Metrics::count(&self.available.metrics.reads);
        let it = &self.properties.replication;
        let wish = FetchWish {
            r: options.r.unwrap_or(it.r),
            pr: options.pr.unwrap_or(it.pr),
            node_confirms: options.node_confirms.unwrap_or(it.node_confirms),
            basic_quorum: options.basic_quorum.unwrap_or(it.basic_quorum),
            notfound_ok: options.notfound_ok.unwrap_or(it.notfound_ok),
        };
        let policy = WritePolicy::of(self.properties);
        let until_ms = world::milliseconds() + within(options.timeout_ms).as_millis() as u64;
        loop {
            let owners = self.available.key_owners(self.bucket, key, it.n_val)?;
            let needs = wish.needs(it.n_val, owners.nodes).map_err(excessive)?;
            let epoch = owners.epoch;
            match self.available.fetch(owners, (policy, needs), until(until_ms)).await {
                // Each time by a newer ring, and within the same time.
                Err(error)
                    if error.reason == Reason::Changed && self.available.knows_newer(epoch) => {}
                found => return found.inspect_err(|error| self.available.saw_refusal(error)),
            }
        }
    }

    async fn store(
        &self,
        key: &Key,
        (content, expiry): (Option<&Content>, Expiry),
        (seen, only): (SeenVersions, WriteCondition),
        options: &StoreOptions,
    ) -> Result<Body> {
        self.check_content(content)?;
        let what = WriteContent::Value(self.stored(content, expiry));
        let written = self.write(key, Write { what, seen, only }, options).await?;
        let told = match options.return_body {
            true => self.siblings(key, &written.row).map(Body::Siblings),
            false => {
                let seen = shortened(written.context, &written.row);
                self.contexts().encode(key, &seen).map(Body::Stored)
            }
        };
        told.map_err(|error| done_untold(&error))
    }

    /// Coordinates a write here, and sends it to as many replicas as were asked for.
    pub(super) async fn write(
        &self,
        key: &Key,
        write: Write,
        options: &StoreOptions,
    ) -> Result<EvaluatedWrite> {
        self.check_key(key)?;
        Metrics::count(&self.available.metrics.updates);
        let it = &self.properties.replication;
        let wish = StoreWish {
            w: options.w.unwrap_or(it.w),
            dw: options.dw.unwrap_or(it.dw),
            pw: options.pw.unwrap_or(it.pw),
            node_confirms: options.node_confirms.unwrap_or(it.node_confirms),
        };
        let owners = self.owners_for_write(key)?;
        let needs = wish.needs(it.n_val, owners.nodes).map_err(excessive)?;
        let policy = WritePolicy::of(self.properties);
        let within = within(options.timeout_ms);
        let written = self.available.store(owners, write, (policy, needs), within).await;
        written.inspect_err(|error| self.available.saw_refusal(error))
    }

    /// Returns the owners of a write's key: those that were found with the coordinator, unless the
    /// ring has changed since.
    fn owners_for_write(&self, key: &Key) -> Result<KeyOwners> {
        let found = self.owners.lock().unwrap_or_else(PoisonError::into_inner).take();
        match found.filter(|owners| !self.available.knows_newer(owners.epoch)) {
            Some(owners) => Ok(owners),
            None => {
                let n = self.properties.replication.n_val;
                self.available.key_owners(self.bucket, key, n)
            }
        }
    }

    /// Builds the stored value of a content, or of a delete.
    fn stored(&self, content: Option<&Content>, expiry: Expiry) -> Stored {
        let now = world::unix_ms();
        let stored = Stored::new(content, now);
        let ttl = match expiry {
            Expiry::Default => self.properties.ttl_ms,
            Expiry::After(ms) => ms,
            Expiry::Never | Expiry::Keep => 0,
        };
        match ttl {
            ttl if ttl > 0 && content.is_some() => stored.expiring(now.saturating_add(ttl)),
            _ => stored,
        }
    }

    /// Deletes what the context has seen. Without a context, deletes what a read finds. `None`:
    /// nothing was there.
    async fn remove(
        &self,
        key: &Key,
        context: Option<&Context>,
        options: &StoreOptions,
    ) -> Result<Option<Body>> {
        let seen = match context {
            Some(context) => self.contexts().decode(key, context)?,
            None => match self.fetch(key, &before(options)).await? {
                Some(row) if living(&row) => row.join(),
                _ => return Ok(None),
            },
        };
        let how = (SeenVersions::Context(seen), WriteCondition::Always);
        self.store(key, (None, Expiry::Never), how, options).await.map(Some)
    }

    fn siblings(&self, key: &Key, row: &Row) -> Result<Siblings> {
        let all = row.siblings().map(|(dot, value)| self.sibling(dot, value));
        let mut values = all.collect::<Result<Vec<_>>>()?;
        values.sort_by_key(|value| (std::cmp::Reverse(value.written_ms), value.vtag));
        Ok(Siblings { context: self.contexts().encode(key, &seen_in(row))?, values })
    }

    fn check_key(&self, key: &Key) -> Result<()> {
        let most = self.properties.key_bytes_max;
        if key.len() <= most {
            return Ok(());
        }
        let text = format!("a key of {} bytes; at most {most} (key_bytes_max)", key.len());
        Err(Error::new(Reason::TooLarge, text))
    }

    fn check_content(&self, content: Option<&Content>) -> Result<()> {
        // Tombstones are always taken: only they can free space.
        let Some(content) = content else { return Ok(()) };
        let (bytes, most) = (content.value.len(), self.properties.value_bytes_max);
        if bytes > most {
            let text = format!("a value of {bytes} bytes; at most {most} (value_bytes_max)");
            return Err(Error::new(Reason::TooLarge, text));
        }
        self.check_room()
    }

    pub(super) fn check_room(&self) -> Result<()> {
        if self.available.space.is_full() {
            Metrics::count(&self.available.metrics.updates_refused);
            return Err(self.available.space.refusal());
        }
        Ok(())
    }
}

/// Options of the read that precedes a delete: it has the delete's timeout.
fn before(options: &StoreOptions) -> FetchOptions {
    FetchOptions { timeout_ms: options.timeout_ms, ..FetchOptions::default() }
}

/// Returns the error of a write that is done and whose answer can't be built. An error of the
/// answer itself would say that nothing happened.
pub(super) fn done_untold(error: &Error) -> Error {
    let text = format!("the write is done, but what came of it can't be told: {error}");
    Error::new(Reason::InDoubt, text)
}

fn excessive(error: Excess) -> Error {
    Error::new(Reason::Malformed, error.to_string())
}

fn within(timeout_ms: Option<u64>) -> Duration {
    Duration::from_millis(timeout_ms.unwrap_or(WITHIN_MS).clamp(1, WITHIN_MS_MAX))
}
