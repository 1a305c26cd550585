//! What is in a data type: things under dots, by kind.

use super::dotted::{self, Dotted};
use super::hll::Registers;
use base::datatype::{Field, FieldKind, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What an actor has added and taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tally {
    pub(super) up: u64,
    pub(super) down: u64,
}

/// A register's value, and when it was assigned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Assigned {
    pub(super) at_ms: u64,
    pub(super) value: Bytes,
}

/// The elements of a set; none is without dots.
pub(super) type Elements<I> = BTreeMap<Bytes, Dotted<I, ()>>;

/// A data type's content, without what was heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State<I> {
    Counter(Dotted<I, Tally>),
    Set(Elements<I>),
    Gset(Elements<I>),
    Register(Dotted<I, Assigned>),
    Flag(Dotted<I, ()>),
    Map(BTreeMap<Field, Slot<I>>),
    Hll(Dotted<I, Registers>),
}

/// A field of a map: the dots that say it is there, and what is in it. A set whose last element was
/// removed is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot<I> {
    pub(super) present: Dotted<I, ()>,
    pub(super) state: State<I>,
}

impl<I: Ord + Clone> Slot<I> {
    /// Nothing in it, and not there.
    pub(super) fn empty(kind: FieldKind) -> Slot<I> {
        Slot { present: Dotted::new(), state: State::empty(kind) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.state.is_empty()
    }

    /// Drops what a context has seen.
    pub(super) fn forget(&mut self, seen: &DotContext<I>) {
        dotted::forget(&mut self.present, seen);
        self.state.forget(seen);
    }
}

impl<I: Ord + Clone> State<I> {
    pub(super) fn empty(kind: FieldKind) -> State<I> {
        match kind {
            FieldKind::Counter => State::Counter(Dotted::new()),
            FieldKind::Set => State::Set(Elements::new()),
            FieldKind::Gset => State::Gset(Elements::new()),
            FieldKind::Register => State::Register(Dotted::new()),
            FieldKind::Flag => State::Flag(Dotted::new()),
            FieldKind::Map => State::Map(BTreeMap::new()),
            FieldKind::Hll => State::Hll(Dotted::new()),
        }
    }

    pub(super) fn kind(&self) -> FieldKind {
        match self {
            State::Counter(_) => FieldKind::Counter,
            State::Set(_) => FieldKind::Set,
            State::Gset(_) => FieldKind::Gset,
            State::Register(_) => FieldKind::Register,
            State::Flag(_) => FieldKind::Flag,
            State::Map(_) => FieldKind::Map,
            State::Hll(_) => FieldKind::Hll,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            State::Counter(dots) => dots.is_empty(),
            State::Set(elements) | State::Gset(elements) => elements.is_empty(),
            State::Register(dots) => dots.is_empty(),
            State::Flag(dots) => dots.is_empty(),
            State::Map(fields) => fields.is_empty(),
            State::Hll(dots) => dots.is_empty(),
        }
    }

    /// Drops what a context has seen.
    pub(super) fn forget(&mut self, seen: &DotContext<I>) {
        match self {
            State::Counter(dots) => dotted::forget(dots, seen),
            State::Set(elements) | State::Gset(elements) => elements.retain(|_, dots| {
                dotted::forget(dots, seen);
                !dots.is_empty()
            }),
            State::Register(dots) => dotted::forget(dots, seen),
            State::Flag(dots) => dotted::forget(dots, seen),
            State::Map(fields) => fields.retain(|_, slot| {
                slot.forget(seen);
                !slot.is_empty()
            }),
            State::Hll(dots) => dotted::forget(dots, seen),
        }
    }

    /// Both together; of two kinds, which a bucket never mixes, all replicas keep the same.
    pub(super) fn merge(
        self,
        ours: &DotContext<I>,
        other: State<I>,
        theirs: &DotContext<I>,
    ) -> State<I> {
        match (self, other) {
            (State::Counter(a), State::Counter(b)) => {
                State::Counter(dotted::merge(a, ours, b, theirs))
            }
            (State::Set(a), State::Set(b)) => State::Set(elements(a, ours, b, theirs)),
            (State::Gset(a), State::Gset(b)) => State::Gset(elements(a, ours, b, theirs)),
            (State::Register(a), State::Register(b)) => {
                State::Register(dotted::merge(a, ours, b, theirs))
            }
            (State::Flag(a), State::Flag(b)) => State::Flag(dotted::merge(a, ours, b, theirs)),
            (State::Map(a), State::Map(b)) => State::Map(fields(a, ours, b, theirs)),
            (State::Hll(a), State::Hll(b)) => State::Hll(dotted::merge(a, ours, b, theirs)),
            (own, other) if own.kind() < other.kind() => own,
            (_, other) => other,
        }
    }

    /// As clients see it.
    pub(super) fn shown(&self) -> TypeValue {
        let names = |elements: &Elements<I>| elements.keys().cloned().collect();
        match self {
            State::Counter(dots) => {
                let sum = |tally: &Tally| i128::from(tally.up) - i128::from(tally.down);
                TypeValue::Counter(dots.values().map(sum).sum())
            }
            State::Set(elements) => TypeValue::Set(names(elements)),
            State::Gset(elements) => TypeValue::Gset(names(elements)),
            State::Register(dots) => {
                let latest = dots.values().max();
                TypeValue::Register(latest.map(|it| it.value.clone()).unwrap_or_default())
            }
            State::Flag(dots) => TypeValue::Flag(!dots.is_empty()),
            State::Map(fields) => {
                let shown = |(field, slot): (&Field, &Slot<I>)| (field.clone(), slot.state.shown());
                TypeValue::Map(fields.iter().map(shown).collect())
            }
            State::Hll(dots) => {
                TypeValue::Hll(together(dots).map_or(0, |registers| registers.estimate()))
            }
        }
    }
}

/// What concurrent counts of distinct values have counted together.
pub(super) fn together<I>(dots: &Dotted<I, Registers>) -> Option<Registers> {
    dots.values().cloned().reduce(|mut all, other| {
        all.merge(&other);
        all
    })
}

fn elements<I: Ord + Clone>(
    ours: Elements<I>,
    heard_ours: &DotContext<I>,
    mut theirs: Elements<I>,
    heard_theirs: &DotContext<I>,
) -> Elements<I> {
    let mut kept = Elements::new();
    for (element, own) in ours {
        let other = theirs.remove(&element).unwrap_or_default();
        let dots = dotted::merge(own, heard_ours, other, heard_theirs);
        if !dots.is_empty() {
            kept.insert(element, dots);
        }
    }
    for (element, mut dots) in theirs {
        dotted::forget(&mut dots, heard_ours);
        if !dots.is_empty() {
            kept.insert(element, dots);
        }
    }
    kept
}

fn fields<I: Ord + Clone>(
    ours: BTreeMap<Field, Slot<I>>,
    heard_ours: &DotContext<I>,
    mut theirs: BTreeMap<Field, Slot<I>>,
    heard_theirs: &DotContext<I>,
) -> BTreeMap<Field, Slot<I>> {
    let mut kept = BTreeMap::new();
    for (field, own) in ours {
        let other = theirs.remove(&field).unwrap_or_else(|| Slot::empty(field.kind));
        let slot = Slot {
            present: dotted::merge(own.present, heard_ours, other.present, heard_theirs),
            state: own.state.merge(heard_ours, other.state, heard_theirs),
        };
        if !slot.is_empty() {
            kept.insert(field, slot);
        }
    }
    for (field, mut slot) in theirs {
        slot.forget(heard_ours);
        if !slot.is_empty() {
            kept.insert(field, slot);
        }
    }
    kept
}
