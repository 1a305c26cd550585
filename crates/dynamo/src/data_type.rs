//! Data type in a row, and the change of it at the coordinating replica.
//!
//! A key's data type is stored in its row as one value. The coordinating replica merges all values
//! of the row, applies the change to the result under the dot of its own write, and replaces them.
//! A concurrent change of another replica is kept as a sibling, until the next change or read
//! merges both. The data type has seen every write that the row has seen: so the content of a
//! deleted one does not come back from a replica that missed the delete.

use base::datatype::{FieldKind, TypeOperation};
use base::dots::DotContext;
use base::error::corrupt;
use base::{Actor, Error, Reason, Result};
use logic::causal::{MintedWrite, Minter};
use logic::types::{self, ApplyError, Typed};
use runtime::world;
use vnode_rows::layout::{Row, StoredValue};

/// Change of a data type, as the client requested it.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) operation: TypeOperation,
    /// Context that the client has seen, which limits its removes.
    pub(super) context: Option<DotContext<Actor>>,
    pub(super) kind: FieldKind,
    pub(super) precision: u8,
    pub(super) now_ms: u64,
    /// Maximum size of the data type, in bytes.
    pub(super) bytes_max: usize,
}

impl Change {
    /// Applies the change to the row, as the actor's next dot.
    pub(super) fn write(
        &self,
        minter: &mut Minter,
        local: Row,
        seen: &DotContext<Actor>,
    ) -> Result<MintedWrite<StoredValue>> {
        let before = merge_values(&local, self.kind)?.unwrap_or_else(|| Typed::new(self.kind));
        let before = before.after(&local.join());
        let mut failed = None;
        let written = minter.write_as(local, seen, world::random_u64(), |dot| {
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
            StoredValue::typed(state, self.now_ms)
        });
        // Neither the row nor the dot was stored yet.
        failed.map_or(Ok(written), Err)
    }

    fn refused(&self, why: &ApplyError) -> Error {
        let (reason, text) = match why {
            ApplyError::WrongType(kind) => {
                let text = format!("this is not an operation of the data type {}", kind.name());
                (Reason::Malformed, text)
            }
            ApplyError::NotFound => {
                let text = "the element to remove is absent: read the key, and send its context \
                            with the remove";
                (Reason::AssertionFailed, text.into())
            }
            ApplyError::OutOfRange => {
                (Reason::NotANumber, "the counter would exceed its range".into())
            }
            ApplyError::TooDeep => {
                (Reason::TooLarge, "maps are nested too deep (type_depth_max)".into())
            }
            ApplyError::TooMany => {
                let text = "too many steps in one update (type_steps_max), or too many removes \
                            wait for updates that they have seen (type_waiting_max)";
                (Reason::TooLarge, text.into())
            }
            ApplyError::Precision => (Reason::Malformed, "invalid hll_precision".into()),
        };
        Error::new(reason, text)
    }

    fn too_large(&self, bytes: usize) -> Error {
        let most = self.bytes_max;
        let text =
            format!("the {} would have {bytes} bytes; the maximum is {most}", self.kind.name());
        Error::new(Reason::TooLarge, text + " (value_bytes_max)")
    }
}

/// Merges the values of a row. `None`: it has none.
pub(super) fn merge_values(row: &Row, kind: FieldKind) -> Result<Option<Typed<Actor>>> {
    let mut merged: Option<Typed<Actor>> = None;
    for value in row.values().filter(|value| !value.is_tombstone()) {
        let typed = value.is_typed().then(|| value.sibling(None)).transpose().map_err(corrupt)?;
        let typed = typed.map(|sibling| Typed::decode(&sibling.content.value)).transpose();
        let Some(typed) = typed.map_err(corrupt)?.filter(|typed| typed.kind() == kind) else {
            let text = format!("this key has a plain value, not a {}", kind.name());
            return Err(Error::new(Reason::Siblings, text));
        };
        merged = Some(match merged {
            Some(previous) => previous.merge(typed),
            None => typed,
        });
    }
    Ok(merged)
}
