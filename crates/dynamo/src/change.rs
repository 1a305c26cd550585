//! Data types: a change, as the replica that coordinates it applies it, and what is shown of what
//! the replicas have.
//!
//! A key's data type stands in its row as one value. A change takes all values of the row together,
//! is applied to that under the dot of its own write, and replaces them; what other replicas took
//! at the same time stands beside it until the next change, or reader, merges both. What the row
//! has heard of, the data type has heard of, too: so what a deleted one held does not come back by
//! way of a replica that missed the delete.
//!
//! A bucket's `datatype` says what its values are. In one that has none, a key may hold a counter:
//! clients of Riak 1.4 have them there.

use super::layout::{Row, Stored};
use super::local::{Only, Seen, What, Write};
use super::request::{Asked, done_untold};
use base::datatype::{FieldKind, TypeChange, TypeFound, TypeOperation};
use base::dots::DotContext;
use base::error::damaged;
use base::{
    Actor, Body, Context, DataType, Error, FetchOptions, Key, Owner, Reason, Result, Sibling,
};
use logic::causal::{Minter, Written};
use logic::types::{self, Refused, Typed};
use runtime::world;

/// A client's change.
#[derive(Clone, Debug)]
pub struct Change {
    operation: TypeOperation,
    /// What the client has seen, for what it removes.
    context: Option<DotContext<Actor>>,
    kind: FieldKind,
    precision: u8,
    now_ms: u64,
    /// Most bytes of the data type.
    bytes_max: usize,
}

impl Change {
    /// Applies it to what is there, as the actor's next dot.
    pub(super) fn write(
        &self,
        minter: &mut Minter,
        local: Row,
        seen: &DotContext<Actor>,
    ) -> Result<Written<Stored>> {
        let before = together(&local, self.kind)?.unwrap_or_else(|| Typed::new(self.kind));
        let before = before.after(&local.join());
        let mut failed = None;
        let written = minter.write_as(local, seen, world::chance(), |dot| {
            let change = types::Change {
                operation: &self.operation,
                dot: (dot.id, dot.count),
                context: self.context.as_ref(),
                now_ms: self.now_ms,
                precision: self.precision,
            };
            let mut state = Vec::new();
            match before.apply(&change) {
                Ok(after) => after.encode(&mut state),
                Err(why) => failed = Some(self.refused(&why)),
            }
            if state.len() > self.bytes_max {
                failed = Some(self.too_large(state.len()));
            }
            Stored::typed(state, self.now_ms)
        });
        // Nothing was kept yet, neither the row nor the dot.
        failed.map_or(Ok(written), Err)
    }

    fn refused(&self, why: &Refused) -> Error {
        let (reason, text) = match why {
            Refused::WrongType(kind) => {
                let text = format!("this is no operation of a {}", kind.word());
                (Reason::Malformed, text)
            }
            Refused::NotThere => {
                let text = "what is to be removed is not there: read it, and send the context you \
                            got";
                (Reason::AssertionFailed, text.into())
            }
            Refused::OutOfRange => (Reason::NotANumber, "the counter would leave its range".into()),
            Refused::TooDeep => {
                (Reason::TooLarge, "maps in maps nest too deep (type_depth_max)".into())
            }
            Refused::TooMany => {
                let text = "too many steps in one change (type_steps_max), or too many removes \
                            wait for what they have seen (type_waiting_max)";
                (Reason::TooLarge, text.into())
            }
            Refused::Precision => (Reason::Malformed, "there is no such hll_precision".into()),
        };
        Error::new(reason, text)
    }

    fn too_large(&self, bytes: usize) -> Error {
        let most = self.bytes_max;
        let text = format!("the {} would have {bytes} bytes; at most {most}", self.kind.word());
        Error::new(Reason::TooLarge, text + " (value_bytes_max)")
    }
}

/// What the values of a row are together; none: there is none.
fn together(row: &Row, kind: FieldKind) -> Result<Option<Typed<Actor>>> {
    let mut all: Option<Typed<Actor>> = None;
    for value in row.values().filter(|value| !value.is_tombstone()) {
        let typed = value.is_typed().then(|| value.sibling(None)).transpose().map_err(damaged)?;
        let typed = typed.map(|sibling| Typed::decode(&sibling.content.value)).transpose();
        let Some(typed) = typed.map_err(damaged)?.filter(|typed| typed.kind() == kind) else {
            let text = format!("this key holds a plain value, and no {}", kind.word());
            return Err(Error::new(Reason::Siblings, text));
        };
        all = Some(match all {
            Some(known) => known.merge(typed),
            None => typed,
        });
    }
    Ok(all)
}

impl Asked<'_> {
    /// What the data types of this bucket are.
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
        let context = context.map(|context| self.seen(&key, &context)).transpose()?;
        let change = Change {
            operation,
            context,
            kind,
            precision: self.properties.replication.hll_precision,
            now_ms: world::unix_ms(),
            bytes_max: self.properties.value_bytes_max,
        };
        let what = What::Change(change);
        let write = Write { what, seen: Seen::Everything, only: Only::Always };
        let written = self.write(&key, write, &options).await?;
        let told = match options.return_body {
            true => self.shown(&key, &written.row, kind).map(|found| Body::Typed(Box::new(found))),
            false => Ok(Body::Stored(self.typed_context(&key, &written.context))),
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
            false => self.typed_context(key, &heard),
        };
        let value = together(row, kind)?.map(|typed| typed.after(&heard).value());
        Ok(TypeFound { kind, tombstone: tombstone && value.is_none(), value, context })
    }

    /// A stored value as clients see it who ask for the values under a key, whatever they are.
    pub(super) fn sibling(&self, dot: Option<(&Actor, u64)>, value: &Stored) -> Result<Sibling> {
        let mut sibling = value.sibling(dot).map_err(damaged)?;
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

    /// Who keeps a key: its owners, and who stands in for those that are down.
    pub(super) fn owners(&self, key: &Key) -> Result<Vec<Owner>> {
        let ways = self.available.ways(self.bucket, key, self.properties.replication.n_val)?;
        let replicas = &ways.replicas;
        let mut others = replicas.fallbacks.iter().filter(|node| !replicas.down.contains(node));
        let mut owners = Vec::with_capacity(replicas.primaries.len());
        for primary in &replicas.primaries {
            let is_down = replicas.down.contains(primary);
            let Some(node) = (if is_down { others.next() } else { Some(primary) }) else {
                continue;
            };
            let member = self.available.members.member(*node);
            owners.push(Owner {
                partition: ways.partition,
                node: self.available.members.name_of(*node),
                address: member.map(|member| member.client).unwrap_or_default(),
                primary: !is_down,
            });
        }
        Ok(owners)
    }
}
