//! State of a data type: elements under dots, by kind.

use super::dotted::{self, Dotted};
use super::hll::Registers;
use base::datatype::{Field, FieldKind, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Sums that an actor has added and subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActorTally {
    pub(super) up: u64,
    pub(super) down: u64,
}

/// Value of a register, and the time of its assignment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Assigned {
    pub(super) at_ms: u64,
    pub(super) value: Bytes,
}

/// Elements of a set; each has at least one dot.
pub(super) type Elements<I> = BTreeMap<Bytes, Dotted<I, ()>>;

/// Content of a data type, without its known dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TypeState<I> {
    Counter(Dotted<I, ActorTally>),
    Set(Elements<I>),
    Gset(Elements<I>),
    Register(Dotted<I, Assigned>),
    Flag(Dotted<I, ()>),
    Map(BTreeMap<Field, MapSlot<I>>),
    Hll(Dotted<I, Registers>),
}

/// Field of a map: the dots of its presence, and its content. A set whose last element was removed
/// is still present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapSlot<I> {
    pub(super) present: Dotted<I, ()>,
    pub(super) state: TypeState<I>,
}

impl<I: Ord + Clone> MapSlot<I> {
    /// Returns a field that is empty and not present.
    pub(super) fn empty(kind: FieldKind) -> MapSlot<I> {
        MapSlot { present: Dotted::new(), state: TypeState::empty(kind) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.state.is_empty()
    }

    /// Drops the parts whose dots a context covers.
    pub(super) fn forget(&mut self, seen: &DotContext<I>) {
        dotted::forget(&mut self.present, seen);
        self.state.forget(seen);
    }
}

impl<I: Ord + Clone> TypeState<I> {
    pub(super) fn empty(kind: FieldKind) -> TypeState<I> {
        match kind {
            FieldKind::Counter => TypeState::Counter(Dotted::new()),
            FieldKind::Set => TypeState::Set(Elements::new()),
            FieldKind::Gset => TypeState::Gset(Elements::new()),
            FieldKind::Register => TypeState::Register(Dotted::new()),
            FieldKind::Flag => TypeState::Flag(Dotted::new()),
            FieldKind::Map => TypeState::Map(BTreeMap::new()),
            FieldKind::Hll => TypeState::Hll(Dotted::new()),
        }
    }

    pub(super) fn kind(&self) -> FieldKind {
        match self {
            TypeState::Counter(_) => FieldKind::Counter,
            TypeState::Set(_) => FieldKind::Set,
            TypeState::Gset(_) => FieldKind::Gset,
            TypeState::Register(_) => FieldKind::Register,
            TypeState::Flag(_) => FieldKind::Flag,
            TypeState::Map(_) => FieldKind::Map,
            TypeState::Hll(_) => FieldKind::Hll,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            TypeState::Counter(dots) => dots.is_empty(),
            TypeState::Set(elements) | TypeState::Gset(elements) => elements.is_empty(),
            TypeState::Register(dots) => dots.is_empty(),
            TypeState::Flag(dots) => dots.is_empty(),
            TypeState::Map(fields) => fields.is_empty(),
            TypeState::Hll(dots) => dots.is_empty(),
        }
    }

    /// Drops the parts whose dots a context covers.
    pub(super) fn forget(&mut self, seen: &DotContext<I>) {
        match self {
            TypeState::Counter(dots) => dotted::forget(dots, seen),
            TypeState::Set(elements) | TypeState::Gset(elements) => elements.retain(|_, dots| {
                dotted::forget(dots, seen);
                !dots.is_empty()
            }),
            TypeState::Register(dots) => dotted::forget(dots, seen),
            TypeState::Flag(dots) => dotted::forget(dots, seen),
            TypeState::Map(fields) => fields.retain(|_, slot| {
                slot.forget(seen);
                !slot.is_empty()
            }),
            TypeState::Hll(dots) => dotted::forget(dots, seen),
        }
    }

    /// Merges both. If the kinds differ, which a bucket never allows, all replicas keep the same
    /// one.
    pub(super) fn merge(
        self,
        ours: &DotContext<I>,
        other: TypeState<I>,
        theirs: &DotContext<I>,
    ) -> TypeState<I> {
        match (self, other) {
            (TypeState::Counter(a), TypeState::Counter(b)) => {
                TypeState::Counter(dotted::merge(a, ours, b, theirs))
            }
            (TypeState::Set(a), TypeState::Set(b)) => {
                TypeState::Set(merge_elements(a, ours, b, theirs))
            }
            (TypeState::Gset(a), TypeState::Gset(b)) => {
                TypeState::Gset(merge_elements(a, ours, b, theirs))
            }
            (TypeState::Register(a), TypeState::Register(b)) => {
                TypeState::Register(dotted::merge(a, ours, b, theirs))
            }
            (TypeState::Flag(a), TypeState::Flag(b)) => {
                TypeState::Flag(dotted::merge(a, ours, b, theirs))
            }
            (TypeState::Map(a), TypeState::Map(b)) => {
                TypeState::Map(merge_fields(a, ours, b, theirs))
            }
            (TypeState::Hll(a), TypeState::Hll(b)) => {
                TypeState::Hll(dotted::merge(a, ours, b, theirs))
            }
            (own, other) if own.kind() < other.kind() => own,
            (_, other) => other,
        }
    }

    /// Returns the value as clients see it.
    pub(super) fn to_value(&self) -> TypeValue {
        let names = |elements: &Elements<I>| elements.keys().cloned().collect();
        match self {
            TypeState::Counter(dots) => {
                let sum = |tally: &ActorTally| i128::from(tally.up) - i128::from(tally.down);
                TypeValue::Counter(dots.values().map(sum).sum())
            }
            TypeState::Set(elements) => TypeValue::Set(names(elements)),
            TypeState::Gset(elements) => TypeValue::Gset(names(elements)),
            TypeState::Register(dots) => {
                let latest = dots.values().max();
                TypeValue::Register(latest.map(|it| it.value.clone()).unwrap_or_default())
            }
            TypeState::Flag(dots) => TypeValue::Flag(!dots.is_empty()),
            TypeState::Map(fields) => {
                let field_value =
                    |(field, slot): (&Field, &MapSlot<I>)| (field.clone(), slot.state.to_value());
                TypeValue::Map(fields.iter().map(field_value).collect())
            }
            TypeState::Hll(dots) => {
                TypeValue::Hll(merged_registers(dots).map_or(0, |registers| registers.estimate()))
            }
        }
    }
}

/// Returns the merged registers of concurrent changes. `None`: there are none.
pub(super) fn merged_registers<I>(dots: &Dotted<I, Registers>) -> Option<Registers> {
    dots.values().cloned().reduce(|mut all, other| {
        all.merge(&other);
        all
    })
}

fn merge_elements<I: Ord + Clone>(
    ours: Elements<I>,
    known_ours: &DotContext<I>,
    mut theirs: Elements<I>,
    known_theirs: &DotContext<I>,
) -> Elements<I> {
    let mut merged = Elements::new();
    for (element, own) in ours {
        let other = theirs.remove(&element).unwrap_or_default();
        let dots = dotted::merge(own, known_ours, other, known_theirs);
        if !dots.is_empty() {
            merged.insert(element, dots);
        }
    }
    for (element, mut dots) in theirs {
        dotted::forget(&mut dots, known_ours);
        if !dots.is_empty() {
            merged.insert(element, dots);
        }
    }
    merged
}

fn merge_fields<I: Ord + Clone>(
    ours: BTreeMap<Field, MapSlot<I>>,
    known_ours: &DotContext<I>,
    mut theirs: BTreeMap<Field, MapSlot<I>>,
    known_theirs: &DotContext<I>,
) -> BTreeMap<Field, MapSlot<I>> {
    let mut merged = BTreeMap::new();
    for (field, own) in ours {
        let other = theirs.remove(&field).unwrap_or_else(|| MapSlot::empty(field.kind));
        let slot = MapSlot {
            present: dotted::merge(own.present, known_ours, other.present, known_theirs),
            state: own.state.merge(known_ours, other.state, known_theirs),
        };
        if !slot.is_empty() {
            merged.insert(field, slot);
        }
    }
    for (field, mut slot) in theirs {
        slot.forget(known_ours);
        if !slot.is_empty() {
            merged.insert(field, slot);
        }
    }
    merged
}
