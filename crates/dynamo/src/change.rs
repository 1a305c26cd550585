//! Requests for data types: a change, as this node coordinates it, and a fetch.
//!
//! A bucket's `datatype` says what its values are. In one that has none, a key may hold a counter:
//! clients of Riak 1.4 have them there.

use super::data_type::{Change, together};
use super::key_request::{KeyRequest, done_untold};
use super::layout::{Row, Stored};
use super::vnode_ops::{SeenVersions, Write, WriteCondition, WriteContent};
use base::available::{TypeChange, TypeFound};
use base::datatype::{FieldKind, TypeOperation};
use base::error::corrupt;
use base::{
    Actor, Body, Context, DataType, Error, FetchOptions, Key, Owner, Reason, Result, Sibling,
};
use runtime::world;

impl KeyRequest<'_> {
    /// Returns the kind of data type that an operation changes in this bucket. `NotSupported` if
    /// the bucket has plain values and the operation needs a data type.
    fn kind(&self, operation: Option<&TypeOperation>) -> Result<FieldKind> {
        let it = &self.properties.replication;
        let counts = operation.is_none_or(|it| matches!(it, TypeOperation::Add(_)));
        match FieldKind::of(it.datatype) {
            Some(kind) => Ok(kind),
            None if counts && it.allow_mult && !it.last_write_wins => Ok(FieldKind::Counter),
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

    pub(super) async fn change(&self, change: TypeChange) -> Result<Body> {
        let TypeChange { key, operation, context, options } = change;
        let kind = self.kind(Some(&operation))?;
        self.check_room()?;
        let context = context.map(|context| self.contexts().decode(&key, &context)).transpose()?;
        let change = Change {
            operation,
            context,
            kind,
            precision: self.properties.replication.hll_precision,
            now_ms: world::unix_ms(),
            bytes_max: self.properties.value_bytes_max,
        };
        let what = WriteContent::Change(change);
        let write = Write { what, seen: SeenVersions::Everything, only: WriteCondition::Always };
        let written = self.write(&key, write, &options).await?;
        let told = match options.return_body {
            true => self.shown(&key, &written.row, kind).map(|found| Body::Typed(Box::new(found))),
            false => Ok(Body::Stored(self.contexts().encode_typed(&key, &written.context))),
        };
        told.map_err(|error| done_untold(&error))
    }

    pub(super) async fn typed(&self, key: &Key, options: &FetchOptions) -> Result<TypeFound> {
        let kind = self.kind(None)?;
        let row = self.fetch(key, options).await?;
        self.shown(key, &row.unwrap_or_default(), kind)
    }

    fn shown(&self, key: &Key, row: &Row, kind: FieldKind) -> Result<TypeFound> {
        let heard = row.join();
        let tombstone = row.values().any(Stored::is_tombstone);
        let context = match heard.is_empty() {
            true => Context::default(),
            false => self.contexts().encode_typed(key, &heard),
        };
        let value = together(row, kind)?.map(|typed| typed.after(&heard).value());
        Ok(TypeFound { kind, tombstone: tombstone && value.is_none(), value, context })
    }

    /// Converts a stored value for clients that read all siblings of a key.
    pub(super) fn sibling(&self, dot: Option<(&Actor, u64)>, value: &Stored) -> Result<Sibling> {
        let mut sibling = value.sibling(dot).map_err(corrupt)?;
        if value.is_typed() {
            let kind = match self.properties.replication.datatype {
                DataType::None => DataType::Counter,
                kind => kind,
            };
            let media = format!("application/riak_{}", kind.word());
            sibling.content.headers.content_type = media.into();
        }
        Ok(sibling)
    }

    /// Returns the nodes that keep a key: its owners, with a fallback in place of each that is
    /// down.
    pub(super) fn owners(&self, key: &Key) -> Result<Vec<Owner>> {
        let n = self.properties.replication.n_val;
        let known = self.available.key_owners(self.bucket, key, n)?;
        let replicas = &known.replicas;
        let mut others = replicas.fallbacks.iter().filter(|node| !replicas.down.contains(node));
        let mut owners = Vec::with_capacity(replicas.primaries.len());
        for primary in &replicas.primaries {
            let is_down = replicas.down.contains(primary);
            let Some(node) = (if is_down { others.next() } else { Some(primary) }) else {
                continue;
            };
            let member = self.available.members.member(*node);
            owners.push(Owner {
                partition: known.partition,
                node: self.available.members.name_of(*node),
                address: member.map(|member| member.client).unwrap_or_default(),
                primary: !is_down,
            });
        }
        Ok(owners)
    }
}
