//! Data type of a replica: content, known dots, waiting removes.

use super::apply::{Refused, apply};
use super::state::{MapSlot, TypeState};
use base::datatype::{Field, FieldKind, TypeOperation, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;
use std::collections::BTreeSet;

/// Remove whose context names more than the replica knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Removal<I> {
    /// Path of nested fields.
    pub(super) path: Vec<Field>,
    pub(super) target: RemoveTarget,
    pub(super) context: DotContext<I>,
}

/// Target of a remove.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemoveTarget {
    /// The field and all in it.
    Whole,
    /// Content of the field: a flag is turned off, and stays.
    Inside,
    /// One element.
    Element(Bytes),
}

/// Data type: state that merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<I> {
    pub(super) heard: DotContext<I>,
    pub(super) state: TypeState<I>,
    pub(super) waiting: BTreeSet<Removal<I>>,
}

/// Change to apply at a replica.
#[derive(Clone, Debug)]
pub struct Change<'a, I> {
    /// Operation to carry out.
    pub operation: &'a TypeOperation,
    /// Dot of the change, never used before for this key.
    pub dot: (I, u64),
    /// Context that the client has seen. `None`: everything that the replica knows.
    pub context: Option<&'a DotContext<I>>,
    /// Wall clock in milliseconds, for registers.
    pub now_ms: u64,
    /// Precision of a new estimate of distinct values.
    pub precision: u8,
}

impl<I: Ord + Clone> Typed<I> {
    /// Builds an empty data type of this kind.
    pub fn new(kind: FieldKind) -> Typed<I> {
        Typed {
            heard: DotContext::empty(),
            state: TypeState::empty(kind),
            waiting: BTreeSet::new(),
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> FieldKind {
        self.state.kind()
    }

    /// Returns all known dots: the context for readers.
    pub fn context(&self) -> &DotContext<I> {
        &self.heard
    }

    /// Returns its value as clients see it.
    pub fn value(&self) -> TypeValue {
        self.state.shown()
    }

    /// Merges both.
    pub fn merge(self, other: Typed<I>) -> Typed<I> {
        let state = self.state.merge(&self.heard, other.state, &other.heard);
        let heard = self.heard.join(&other.heard);
        let mut waiting = self.waiting;
        waiting.extend(other.waiting);
        let mut merged = Typed { heard, state, waiting };
        merged.settle();
        merged
    }

    /// Adds known dots: their parts are present here, or were removed.
    pub fn after(mut self, heard: &DotContext<I>) -> Typed<I> {
        self.heard = self.heard.join(heard);
        self.settle();
        self
    }

    /// Returns the data type with a change applied. Errors: [`Refused`].
    pub fn apply(mut self, change: &Change<'_, I>) -> Result<Typed<I>, Refused> {
        let (id, count) = &change.dot;
        self.heard = self.heard.and(id.clone(), *count);
        apply(&mut self, change)?;
        Ok(self)
    }

    /// Removes at a path what the context covers, now and when it arrives later.
    pub(super) fn remove(&mut self, removal: Removal<I>) {
        remove(&mut self.state, &removal.path, &removal.target, &removal.context);
        if !self.heard.covers(&removal.context) {
            self.waiting.insert(removal);
        }
    }

    /// Applies waiting removes to what has arrived; drops those whose context is known completely.
    fn settle(&mut self) {
        for removal in &self.waiting {
            remove(&mut self.state, &removal.path, &removal.target, &removal.context);
        }
        let heard = &self.heard;
        self.waiting.retain(|removal| !heard.covers(&removal.context));
    }
}

fn remove<I: Ord + Clone>(
    state: &mut TypeState<I>,
    path: &[Field],
    target: &RemoveTarget,
    seen: &DotContext<I>,
) {
    let Some((field, rest)) = path.split_first() else {
        return inside(state, target, seen);
    };
    let TypeState::Map(fields) = state else { return };
    let Some(slot) = fields.get_mut(field) else { return };
    if rest.is_empty() && *target == RemoveTarget::Whole {
        slot.forget(seen);
    } else {
        remove(&mut slot.state, rest, target, seen);
    }
    if MapSlot::is_empty(slot) {
        fields.remove(field);
    }
}

fn inside<I: Ord + Clone>(state: &mut TypeState<I>, target: &RemoveTarget, seen: &DotContext<I>) {
    match (target, state) {
        (RemoveTarget::Element(element), TypeState::Set(elements)) => {
            let Some(dots) = elements.get_mut(element) else { return };
            super::dotted::forget(dots, seen);
            if dots.is_empty() {
                elements.remove(element);
            }
        }
        (RemoveTarget::Element(_), _) => {}
        (_, state) => state.forget(seen),
    }
}
