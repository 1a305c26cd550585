//! A data type as a replica holds it: content, what was heard of, removes that wait.

use super::apply::{Refused, apply};
use super::state::{MapSlot, TypeState};
use base::datatype::{Field, FieldKind, TypeOperation, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;
use std::collections::BTreeSet;

/// A remove whose context names more than the replica has heard of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Removal<I> {
    /// Which field of which field.
    pub(super) path: Vec<Field>,
    pub(super) target: RemoveTarget,
    pub(super) context: DotContext<I>,
}

/// What of it is removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemoveTarget {
    /// The field and all in it.
    Whole,
    /// What is in it: a flag is turned off, and stays.
    Inside,
    /// One element.
    Element(Bytes),
}

/// A data type: state that merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<I> {
    pub(super) heard: DotContext<I>,
    pub(super) state: TypeState<I>,
    pub(super) waiting: BTreeSet<Removal<I>>,
}

/// A change to be applied at a replica.
#[derive(Clone, Debug)]
pub struct Change<'a, I> {
    /// What is to be done.
    pub operation: &'a TypeOperation,
    /// Its own dot, never used before for this key.
    pub dot: (I, u64),
    /// What the client has seen; none: what the replica knows is meant.
    pub context: Option<&'a DotContext<I>>,
    /// The hour, for registers.
    pub now_ms: u64,
    /// How exact a new count of distinct values is.
    pub precision: u8,
}

impl<I: Ord + Clone> Typed<I> {
    /// Nothing in it.
    pub fn new(kind: FieldKind) -> Typed<I> {
        Typed {
            heard: DotContext::empty(),
            state: TypeState::empty(kind),
            waiting: BTreeSet::new(),
        }
    }

    /// What it is.
    pub fn kind(&self) -> FieldKind {
        self.state.kind()
    }

    /// All dots it has heard of: the context for whoever reads it.
    pub fn context(&self) -> &DotContext<I> {
        &self.heard
    }

    /// As clients see it.
    pub fn value(&self) -> TypeValue {
        self.state.shown()
    }

    /// Both together.
    pub fn merge(self, other: Typed<I>) -> Typed<I> {
        let state = self.state.merge(&self.heard, other.state, &other.heard);
        let heard = self.heard.join(&other.heard);
        let mut waiting = self.waiting;
        waiting.extend(other.waiting);
        let mut merged = Typed { heard, state, waiting };
        merged.settle();
        merged
    }

    /// It has heard of these dots, too: what they stood for is in it, or was taken away.
    pub fn after(mut self, heard: &DotContext<I>) -> Typed<I> {
        self.heard = self.heard.join(heard);
        self.settle();
        self
    }

    /// With a change applied, or why it can't be.
    pub fn apply(mut self, change: &Change<'_, I>) -> Result<Typed<I>, Refused> {
        let (id, count) = &change.dot;
        self.heard = self.heard.and(id.clone(), *count);
        apply(&mut self, change)?;
        Ok(self)
    }

    /// Removes at a place what a context has seen there, now and when it arrives later.
    pub(super) fn remove(&mut self, removal: Removal<I>) {
        remove(&mut self.state, &removal.path, &removal.target, &removal.context);
        if !self.heard.covers(&removal.context) {
            self.waiting.insert(removal);
        }
    }

    /// Waiting removes take what has arrived; one that has seen no more than the replica is done.
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
