//! Coordination of a client's request for one key: the meaning of each call, and its answer.
//!
//! Plain calls work where they have a meaning. A `Get` answers the value if there is one; several
//! are a `conflict` error that names the remedy. A `Set` overwrites all values of the coordinating
//! replica, as clients expect of `SET`; concurrent writes of other replicas stay as siblings. Blind
//! writes, which overwrite nothing, use `AvailableCall::Store` without a context.

use super::contexts::{ContextCodec, client_context};
use super::key_owners::KeyOwners;
use super::timing::time_until;
use super::vnode_ops::WritePolicy;
use crate::Available;
use base::error::corrupt;
use base::request::OnMissing;
use base::{
    AvailableCall, Body, BucketName, Call, DataType, Error, FetchOptions, Key, LogIndex, Outcome,
    Properties, Quorum, Read, ReadLevel, Reason, Reply, Request, Result, Row as PlainRow, Siblings,
    StoreOptions, Update, Version,
};
use logic::quorum::{FetchQuorums, QuorumError};
use runtime::metrics::Metrics;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::layout::{Row, has_live_value};

/// Default timeout of a request, in milliseconds.
const TIMEOUT_MS: u64 = 10_000;
/// Maximum timeout that a client may request, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 60_000;

impl Available {
    /// Coordinates a request on this node. `owners`: the owners of a write's key, if they are
    /// known.
    pub(super) async fn coordinate(
        self: &Arc<Available>,
        request: &Request,
        properties: &Properties,
        owners: Option<KeyOwners>,
    ) -> Result<Reply> {
        if request.retry.is_some() {
            return Err(unsupported("retries with a session are not supported"));
        }
        let key_request = KeyRequest { available: self, bucket: &request.bucket, properties };
        let body = match &request.call {
            Call::Read(Read::Get(key), level) => {
                let options = key_request.plain_read_options(*level)?;
                Body::Row(key_request.get(key, &options).await?)
            }
            Call::Update(Update::Set { key, value, expiry }) => {
                let put = key_request.start_set(key, value, *expiry, owners)?;
                key_request.finish_write(put).await?;
                Body::Updated(Outcome::Done)
            }
            Call::Available(AvailableCall::Fetch { key, options }) => {
                let row = key_request.fetch(key, options).await?;
                Body::Siblings(key_request.siblings(key, &row.unwrap_or_default())?)
            }
            Call::Available(AvailableCall::Store(store)) => {
                let (put, reply) = key_request.start_store(store, owners)?;
                key_request.finish_write(put).await?;
                reply.map_err(|error| reply_failed_after_write(&error))?
            }
            // Boxed: the future of a frequent request has no space for the others.
            call => Box::pin(key_request.answer(call, owners)).await?,
        };
        Ok(Reply::new(LogIndex(0), body))
    }
}

/// Returns the refusal of a request that available buckets do not support.
pub(super) fn unsupported(what: &str) -> Error {
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
}

impl KeyRequest<'_> {
    pub(super) fn contexts(&self) -> ContextCodec<'_> {
        let Available { cluster, schema, metrics, .. } = &**self.available;
        ContextCodec::new(self.bucket, *cluster, schema.context_key(), metrics)
    }

    /// Answers a request of a kind that is less frequent. `owners`: as for
    /// [`Available::coordinate`].
    async fn answer(&self, call: &Call, owners: Option<KeyOwners>) -> Result<Body> {
        match call {
            Call::Read(read, level) => self.read(read, *level).await,
            Call::Update(Update::Delete { key, missing }) => {
                let removed = self.remove(key, None, &StoreOptions::default(), owners).await?;
                match (removed, missing) {
                    (None, OnMissing::Fail) => Err(Error::key(Reason::NotFound, key)),
                    (removed, _) => Ok(Body::Updated(Outcome::Existed(removed.is_some()))),
                }
            }
            Call::Update(_) => Err(unsupported("conditional and atomic updates are not supported")),
            Call::Available(call) => self.call(call, owners).await,
            Call::Session(_) => Err(unsupported("sessions are not supported")),
            Call::Directory(_) => Err(unsupported("the directory is asked elsewhere")),
        }
    }

    async fn read(&self, read: &Read, level: ReadLevel) -> Result<Body> {
        let options = self.plain_read_options(level)?;
        match read {
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
                    let row = self.fetch(key, &options).await?;
                    count += u64::from(row.is_some_and(|row| has_live_value(&row)));
                }
                Ok(Body::Count(count))
            }
            Read::KeyVersions(_) => Err(unsupported("watched keys are not supported")),
            _ => Err(unsupported("range reads, counts and assertions are not supported")),
        }
    }

    async fn call(&self, call: &AvailableCall, owners: Option<KeyOwners>) -> Result<Body> {
        match call {
            AvailableCall::Remove { key, context, options } => {
                match self.remove(key, context.as_ref(), options, owners).await? {
                    Some(body) => Ok(body),
                    None => Err(Error::key(Reason::NotFound, key)),
                }
            }
            AvailableCall::Keys { after, rows_max } => {
                let keys = self.available.list_keys(self.bucket, after.clone(), *rows_max);
                keys.await.map(Body::Keys)
            }
            AvailableCall::Buckets { after, rows_max } => {
                let kind = self.bucket.kind();
                let buckets = self.available.list_buckets(kind, after.clone(), *rows_max);
                buckets.await.map(Body::BucketNames)
            }
            AvailableCall::Change(change) => self.change(change, owners).await,
            AvailableCall::FetchType { key, options } => {
                self.typed(key, options).await.map(|found| Body::Typed(Box::new(found)))
            }
            AvailableCall::Owners { key } => self.owners(key).map(Body::Owners),
            AvailableCall::Fetch { .. } | AvailableCall::Store(_) => {
                Err(unsupported("this request is answered elsewhere"))
            }
        }
    }

    /// Refuses plain values in a bucket of data types, which are only changed by operations.
    pub(super) fn require_plain_values(&self) -> Result<()> {
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

    /// Returns the options of a plain read of this level.
    fn plain_read_options(&self, level: ReadLevel) -> Result<FetchOptions> {
        self.require_plain_values()?;
        match level {
            ReadLevel::Consistent => Ok(FetchOptions::default()),
            ReadLevel::Dirty => {
                Ok(FetchOptions { r: Some(Quorum::One), ..FetchOptions::default() })
            }
            ReadLevel::AtLeast(_) => Err(unsupported(
                "read level at_least is not supported, because there is no log index",
            )),
        }
    }

    async fn get(&self, key: &Key, options: &FetchOptions) -> Result<Option<PlainRow>> {
        let row = self.fetch(key, options).await?;
        row.map_or(Ok(None), |row| plain_row(&row))
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
            let within = time_until(until_ms);
            let fetched = match self.available.start_get(owners, (policy, needs), within) {
                Ok(get) => get.await,
                Err(error) => Err(error),
            };
            match fetched {
                // Retried with a newer ring each time, within the same deadline.
                Err(error)
                    if error.reason == Reason::Changed && self.available.has_newer_ring(epoch) => {}
                fetched => {
                    let found = self.available.fetched_row(policy, fetched);
                    return found.inspect_err(|error| self.available.count_refusal(error));
                }
            }
        }
    }

    pub(super) fn siblings(&self, key: &Key, row: &Row) -> Result<Siblings> {
        let all = row.siblings().map(|(dot, value)| self.sibling(dot, value));
        let mut values = all.collect::<Result<Vec<_>>>()?;
        values.sort_by_key(|value| (std::cmp::Reverse(value.written_ms), value.vtag));
        Ok(Siblings { context: self.contexts().encode(key, &client_context(row))?, values })
    }

    pub(super) fn check_key(&self, key: &Key) -> Result<()> {
        let most = self.properties.key_bytes_max;
        if key.len() <= most {
            return Ok(());
        }
        let text = format!("a key of {} bytes exceeds {most} (key_bytes_max)", key.len());
        Err(Error::new(Reason::TooLarge, text))
    }
}

/// Returns the value of a row for a plain read. `None`: it has none. Errors: it has several, or a
/// data type.
fn plain_row(row: &Row) -> Result<Option<PlainRow>> {
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
    Ok(Some(PlainRow { value: sibling.content.value, version, expires_in_ms, tags: None }))
}

/// Returns the error of a completed write whose answer can't be built. The original error would
/// claim that nothing happened.
pub(super) fn reply_failed_after_write(error: &Error) -> Error {
    let text = format!("the write was applied, but its result can't be returned: {error}");
    Error::new(Reason::InDoubt, text)
}

pub(super) fn excessive(error: QuorumError) -> Error {
    Error::new(Reason::Malformed, error.to_string())
}

pub(super) fn request_timeout(timeout_ms: Option<u64>) -> Duration {
    Duration::from_millis(timeout_ms.unwrap_or(TIMEOUT_MS).clamp(1, TIMEOUT_MS_MAX))
}
