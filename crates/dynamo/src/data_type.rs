//! Data type in a row, and a change of it as the replica that coordinates it applies it.
//!
//! A key's data type stands in its row as one value. The coordinating replica merges all values of
//! the row, applies the change to the result under the dot of its own write, and replaces them. A
//! concurrent change of another replica is kept as a sibling, until the next change or read merges
//! both. The data type has seen every write that the row has seen: so the content of a deleted one
//! does not come back from a replica that missed the delete.

use super::layout::{Row, Stored};
use base::datatype::{FieldKind, TypeOperation};
use base::dots::DotContext;
use base::error::corrupt;
use base::{Actor, Error, Reason, Result};
use logic::causal::{MintedWrite, Minter};
use logic::types::{self, Refused, Typed};
use runtime::world;

/// Change of a data type, as the client requested it.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) operation: TypeOperation,
    /// Context that the client has seen, for what it removes.
    pub(super) context: Option<DotContext<Actor>>,
    pub(super) kind: FieldKind,
    pub(super) precision: u8,
    pub(super) now_ms: u64,
    /// Most bytes of the data type.
    pub(super) bytes_max: usize,
}

impl Change {
    /// Applies the change to the row, as the actor's next dot.
    pub(super) fn write(
        &self,
        minter: &mut Minter,
        local: Row,
        seen: &DotContext<Actor>,
    ) -> Result<MintedWrite<Stored>> {
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

/// Merges the values of a row. `None`: it has none.
pub(super) fn together(row: &Row, kind: FieldKind) -> Result<Option<Typed<Actor>>> {
    let mut all: Option<Typed<Actor>> = None;
    for value in row.values().filter(|value| !value.is_tombstone()) {
        let typed = value.is_typed().then(|| value.sibling(None)).transpose().map_err(corrupt)?;
        let typed = typed.map(|sibling| Typed::decode(&sibling.content.value)).transpose();
        let Some(typed) = typed.map_err(corrupt)?.filter(|typed| typed.kind() == kind) else {
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
