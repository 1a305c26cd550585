//! Writes of a client's request for one key: the value to be stored, its preconditions, the quorum,
//! and the reply.

use super::contexts::shorten_context;
use super::key_owners::KeyOwners;
use super::key_request::{
    KeyRequest, excessive, reply_failed_after_write, request_timeout, unsupported,
};
use super::put::PutReply;
use super::vnode_ops::{
    EvaluatedWrite, SeenVersions, Write, WriteCondition, WriteContent, WritePolicy,
};
use base::request::Expiry;
use base::{
    Body, Condition, Content, Context, Error, FetchOptions, Key, Reason, Result, StoreOptions,
};
use bytes::Bytes;
use logic::quorum::StoreQuorums;
use runtime::metrics::Metrics;
use runtime::world;
use vnode_rows::layout::{StoredValue, has_live_value};

impl KeyRequest<'_> {
    /// Begins a plain set: it overwrites all values of this replica.
    pub(super) fn start_set(
        &self,
        key: &Key,
        value: &Bytes,
        expiry: Expiry,
        owners: Option<KeyOwners>,
    ) -> Result<PutReply> {
        if matches!(expiry, Expiry::Keep | Expiry::After(0)) {
            return Err(unsupported("a write can't keep the expiry time or expire at once"));
        }
        self.require_plain_values()?;
        let content = Content::plain(value.clone());
        self.check_content(&content)?;
        let write = Write {
            content: WriteContent::Value(self.stored(Some(&content), expiry)),
            seen: SeenVersions::Everything,
            condition: WriteCondition::Always,
        };
        let started = self.start_write(key, write, &StoreOptions::default(), owners);
        started.map(|(_, put)| put)
    }

    /// Begins a write with a context. Returns its reply, too, for the time when it is done.
    pub(super) fn start_store(
        &self,
        store: &base::Store,
        owners: Option<KeyOwners>,
    ) -> Result<(PutReply, Result<Body>)> {
        self.require_plain_values()?;
        let base::Store { key, content, context, options, condition } = store;
        content.headers.check()?;
        let seen = match context {
            Some(context) => SeenVersions::Context(self.contexts().decode(key, context)?),
            None => SeenVersions::Nothing,
        };
        let condition = match condition {
            None => WriteCondition::Always,
            Some(Condition::Absent) => WriteCondition::Absent,
            Some(Condition::Unchanged(context)) => {
                WriteCondition::Unchanged(self.contexts().decode(key, context)?)
            }
        };
        self.check_content(content)?;
        let content = WriteContent::Value(self.stored(Some(content), Expiry::Default));
        self.start_value(key, Write { content, seen, condition }, options, owners)
    }

    /// Begins a write of a value or a tombstone. Returns its reply, too.
    fn start_value(
        &self,
        key: &Key,
        write: Write,
        options: &StoreOptions,
        owners: Option<KeyOwners>,
    ) -> Result<(PutReply, Result<Body>)> {
        let (written, put) = self.start_write(key, write, options, owners)?;
        let reply = match options.return_body {
            true => self.siblings(key, &written.row).map(Body::Siblings),
            false => {
                let seen = shorten_context(written.context, &written.row);
                self.contexts().encode(key, &seen).map(Body::Stored)
            }
        };
        Ok((put, reply))
    }

    /// Begins a write here, with the quorum that the options and properties require.
    pub(super) fn start_write(
        &self,
        key: &Key,
        write: Write,
        options: &StoreOptions,
        owners: Option<KeyOwners>,
    ) -> Result<(EvaluatedWrite, PutReply)> {
        self.check_key(key)?;
        Metrics::count(&self.available.metrics.updates);
        let replication = &self.properties.replication;
        let wish = StoreQuorums {
            w: options.w.unwrap_or(replication.w),
            dw: options.dw.unwrap_or(replication.dw),
            pw: options.pw.unwrap_or(replication.pw),
            node_confirms: options.node_confirms.unwrap_or(replication.node_confirms),
        };
        let owners = self.owners_for_write(key, owners)?;
        let needs = wish.needs(replication.n_val, owners.nodes).map_err(excessive)?;
        let policy = WritePolicy::from_properties(self.properties);
        let within = request_timeout(options.timeout_ms);
        let started = self.available.start_put(owners, write, (policy, needs), within);
        started.inspect_err(|error| self.available.count_refusal(error))
    }

    /// Waits until enough replicas have stored a write.
    pub(super) async fn finish_write(&self, put: PutReply) -> Result<()> {
        put.await.inspect_err(|error| self.available.count_refusal(error))
    }

    /// Returns the owners of a write's key: those found with the coordinator, unless the ring has
    /// changed since.
    fn owners_for_write(&self, key: &Key, found: Option<KeyOwners>) -> Result<KeyOwners> {
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
    pub(super) async fn remove(
        &self,
        key: &Key,
        context: Option<&Context>,
        options: &StoreOptions,
        owners: Option<KeyOwners>,
    ) -> Result<Option<Body>> {
        let seen = match context {
            Some(context) => self.contexts().decode(key, context)?,
            None => match self.fetch(key, &read_options(options)).await? {
                Some(row) if has_live_value(&row) => row.join(),
                _ => return Ok(None),
            },
        };
        // Tombstones are always accepted, also on a full disk: only they can free space.
        let write = Write {
            content: WriteContent::Value(self.stored(None, Expiry::Never)),
            seen: SeenVersions::Context(seen),
            condition: WriteCondition::Always,
        };
        let (put, reply) = self.start_value(key, write, options, owners)?;
        self.finish_write(put).await?;
        reply.map(Some).map_err(|error| reply_failed_after_write(&error))
    }

    fn check_content(&self, content: &Content) -> Result<()> {
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
