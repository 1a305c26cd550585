//! Requests for data types: a change, as this node coordinates it, and a fetch.
//!
//! A bucket's `datatype` is the type of all its values. In a bucket without one, a key may hold a
//! counter, as with Riak 1.4.

use super::data_type::{Change, merge_values};
use super::key_owners::KeyOwners;
use super::key_request::{KeyRequest, reply_failed_after_write};
use super::vnode_ops::{SeenVersions, Write, WriteCondition, WriteContent};
use base::available::{TypeChange, TypeFound};
use base::datatype::{FieldKind, TypeOperation};
use base::error::corrupt;
use base::{
    Actor, Body, Context, DataType, Error, FetchOptions, Key, Owner, Reason, Result, Sibling,
};
use runtime::world;
use vnode_rows::layout::{Row, StoredValue};

impl KeyRequest<'_> {
    /// Returns the kind of data type that an operation changes in this bucket. `NotSupported` if
    /// the bucket has plain values and the operation needs a data type.
    fn kind(&self, operation: Option<&TypeOperation>) -> Result<FieldKind> {
        let replication = &self.properties.replication;
        let is_counter = operation.is_none_or(|it| matches!(it, TypeOperation::Add(_)));
        match FieldKind::from_data_type(replication.datatype) {
            Some(kind) => Ok(kind),
            None if is_counter && replication.allow_mult && !replication.last_write_wins => {
                Ok(FieldKind::Counter)
            }
            None => {
                let text = format!(
                    "`{}` is an available bucket of plain values: counters need `allow_mult`, \
                     other data types a bucket type with a `datatype`",
                    self.bucket
                );
                Err(Error::new(Reason::NotSupported, text))
            }
        }
    }

    pub(super) async fn change(
        &self,
        change: &TypeChange,
        owners: Option<KeyOwners>,
    ) -> Result<Body> {
        let TypeChange { key, operation, context, options } = change;
        let kind = self.kind(Some(operation))?;
        self.check_disk_space()?;
        let context = context.as_ref().map(|context| self.contexts().decode(key, context));
        let change = Change {
            operation: operation.clone(),
            context: context.transpose()?,
            kind,
            precision: self.properties.replication.hll_precision,
            now_ms: world::unix_ms(),
            bytes_max: self.properties.value_bytes_max,
        };
        let content = WriteContent::Change(change);
        let write =
            Write { content, seen: SeenVersions::Everything, condition: WriteCondition::Always };
        let (written, put) = self.start_write(key, write, options, owners)?;
        self.finish_write(put).await?;
        let reply = match options.return_body {
            true => self
                .to_type_found(key, &written.row, kind)
                .map(|found| Body::Typed(Box::new(found))),
            false => Ok(Body::Stored(self.contexts().encode_typed(key, &written.context))),
        };
        reply.map_err(|error| reply_failed_after_write(&error))
    }

    pub(super) async fn typed(&self, key: &Key, options: &FetchOptions) -> Result<TypeFound> {
        let kind = self.kind(None)?;
        let row = self.fetch(key, options).await?;
        self.to_type_found(key, &row.unwrap_or_default(), kind)
    }

    fn to_type_found(&self, key: &Key, row: &Row, kind: FieldKind) -> Result<TypeFound> {
        let seen = row.join();
        let tombstone = row.values().any(StoredValue::is_tombstone);
        let context = match seen.is_empty() {
            true => Context::default(),
            false => self.contexts().encode_typed(key, &seen),
        };
        let value = merge_values(row, kind)?.map(|typed| typed.after(&seen).value());
        Ok(TypeFound { kind, tombstone: tombstone && value.is_none(), value, context })
    }

    /// Converts a stored value for clients that read all siblings of a key.
    pub(super) fn sibling(
        &self,
        dot: Option<(&Actor, u64)>,
        value: &StoredValue,
    ) -> Result<Sibling> {
        let mut sibling = value.sibling(dot).map_err(corrupt)?;
        if value.is_typed() {
            let kind = match self.properties.replication.datatype {
                DataType::None => DataType::Counter,
                kind => kind,
            };
            let media_type = format!("application/riak_{}", kind.name());
            sibling.content.headers.content_type = media_type.into();
        }
        Ok(sibling)
    }

    /// Returns the nodes that keep a key: its owners, with a fallback in place of each that is
    /// down.
    pub(super) fn owners(&self, key: &Key) -> Result<Vec<Owner>> {
        let n = self.properties.replication.n_val;
        let key_owners = self.available.key_owners(self.bucket, key, n)?;
        let replicas = &key_owners.replicas;
        let mut fallbacks = replicas.fallbacks.iter().filter(|node| !replicas.is_down(**node));
        let mut owners = Vec::with_capacity(replicas.primaries.len());
        for primary in replicas.primaries.iter() {
            let is_down = replicas.is_down(*primary);
            let Some(node) = (if is_down { fallbacks.next() } else { Some(primary) }) else {
                continue;
            };
            let member = self.available.members.member(*node);
            owners.push(Owner {
                partition: key_owners.owners.partition,
                node: self.available.members.name_of(*node),
                address: member.map(|member| member.client).unwrap_or_default(),
                primary: !is_down,
            });
        }
        Ok(owners)
    }
}
