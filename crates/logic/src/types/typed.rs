//! Data type of a replica: content, known dots, waiting removes.

use super::apply::{ApplyError, apply};
use super::state::{MapSlot, TypeState};
use base::datatype::{Field, FieldKind, TypeOperation, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;
use std::collections::BTreeSet;

/// Remove whose context names dots that the replica lacks.
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
    /// The field with its content.
    WholeField,
    /// Content of the field: a flag is turned off, and stays.
    Content,
    /// One element.
    Element(Bytes),
}

/// Data type: state that merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<I> {
    pub(super) known_dots: DotContext<I>,
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
            known_dots: DotContext::empty(),
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
        &self.known_dots
    }

    /// Returns its value as clients see it.
    pub fn value(&self) -> TypeValue {
        self.state.to_value()
    }

    /// Merges both.
    pub fn merge(self, other: Typed<I>) -> Typed<I> {
        let state = self.state.merge(&self.known_dots, other.state, &other.known_dots);
        let known_dots = self.known_dots.join(&other.known_dots);
        let mut waiting = self.waiting;
        waiting.extend(other.waiting);
        let mut merged = Typed { known_dots, state, waiting };
        merged.apply_removals();
        merged
    }

    /// Adds known dots: their parts are present here, or were removed.
    pub fn after(mut self, known_dots: &DotContext<I>) -> Typed<I> {
        self.known_dots = self.known_dots.join(known_dots);
        self.apply_removals();
        self
    }

    /// Returns the data type with a change applied. Errors: [`ApplyError`].
    pub fn apply(mut self, change: &Change<'_, I>) -> Result<Typed<I>, ApplyError> {
        let (id, count) = &change.dot;
        self.known_dots = self.known_dots.with_dot(id.clone(), *count);
        apply(&mut self, change)?;
        Ok(self)
    }

    /// Removes the parts at a path that the context covers, now and on later arrival.
    pub(super) fn remove(&mut self, removal: Removal<I>) {
        remove_at(&mut self.state, &removal.path, &removal.target, &removal.context);
        if !self.known_dots.covers(&removal.context) {
            self.waiting.insert(removal);
        }
    }

    /// Applies waiting removes to arrived parts; drops removes whose context is known completely.
    fn apply_removals(&mut self) {
        for removal in &self.waiting {
            remove_at(&mut self.state, &removal.path, &removal.target, &removal.context);
        }
        let known_dots = &self.known_dots;
        self.waiting.retain(|removal| !known_dots.covers(&removal.context));
    }
}

fn remove_at<I: Ord + Clone>(
    state: &mut TypeState<I>,
    path: &[Field],
    target: &RemoveTarget,
    seen: &DotContext<I>,
) {
    let Some((field, rest)) = path.split_first() else {
        return remove_content(state, target, seen);
    };
    let TypeState::Map(fields) = state else { return };
    let Some(slot) = fields.get_mut(field) else { return };
    if rest.is_empty() && *target == RemoveTarget::WholeField {
        slot.forget(seen);
    } else {
        remove_at(&mut slot.state, rest, target, seen);
    }
    if MapSlot::is_empty(slot) {
        fields.remove(field);
    }
}

fn remove_content<I: Ord + Clone>(
    state: &mut TypeState<I>,
    target: &RemoveTarget,
    seen: &DotContext<I>,
) {
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
