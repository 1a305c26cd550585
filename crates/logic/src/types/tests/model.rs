//! Comparison with the simplest model: a set of all events, evaluated anew each time.

use super::Replica;
use crate::types::{ApplyError, Typed};
use base::Actor;
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;

/// Event of the model. Events are numbered; a set of them is a word.
#[derive(Clone, Debug)]
struct ModelEvent {
    /// Path of nested fields that it changed; it makes all fields of the path present.
    path: Vec<Field>,
    kind: EventKind,
    /// Replica that carried it out.
    by: usize,
}

#[derive(Clone, Debug)]
enum EventKind {
    Added(Bytes),
    Enabled,
    Assigned(u64, Bytes),
    /// Sum of the actor's additions, this one and all that it replaces.
    Counted {
        total: i64,
        replaces: u64,
    },
    /// Removes the seen events at its path: one element, or the whole content; for a field of the
    /// path also its presence.
    Removed {
        element: Option<Bytes>,
        field: Option<Field>,
        seen: u64,
    },
}

#[derive(Default)]
struct Model {
    all: Vec<ModelEvent>,
}

impl Model {
    fn known(&self, set: u64) -> impl Iterator<Item = (usize, &ModelEvent)> {
        self.all.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0)
    }

    /// Returns true if a known remove cancels the event at a path: `element` in it, or the presence
    /// of the path's last field.
    fn is_removed(
        &self,
        known: u64,
        at: usize,
        path: &[Field],
        element: Option<&Bytes>,
        presence: bool,
    ) -> bool {
        self.known(known).any(|(_, other)| {
            let EventKind::Removed { element: removed, field, seen } = &other.kind else {
                return false;
            };
            if seen & (1 << at) == 0 {
                return false;
            }
            match (removed, field) {
                (Some(removed), _) => !presence && other.path == path && element == Some(removed),
                (None, Some(field)) => {
                    let depth = other.path.len() + 1;
                    path.len() >= depth
                        && path[..depth - 1] == other.path[..]
                        && path[depth - 1] == *field
                }
                (None, None) => !presence && other.path == path,
            }
        })
    }

    fn is_present(&self, known: u64, path: &[Field]) -> bool {
        self.known(known).any(|(at, event)| {
            event.path.starts_with(path) && !self.is_removed(known, at, path, None, true)
        })
    }

    fn live_events<'a>(
        &'a self,
        known: u64,
        path: &'a [Field],
    ) -> impl Iterator<Item = (usize, &'a EventKind)> {
        let alive = move |(at, event): &(usize, &'a ModelEvent)| {
            let element = match &event.kind {
                EventKind::Added(element) => Some(element),
                _ => None,
            };
            event.path == path && !self.is_removed(known, *at, path, element, false)
        };
        self.known(known).filter(alive).map(|(at, event)| (at, &event.kind))
    }

    fn live_counts(&self, known: u64, path: &[Field]) -> Vec<(usize, i64)> {
        let replaced = self.known(known).fold(0, |all, (_, event)| match event.kind {
            EventKind::Counted { replaces, .. } => all | replaces,
            _ => all,
        });
        let own = |(at, event_kind): (usize, &EventKind)| match event_kind {
            EventKind::Counted { total, .. } if replaced & (1 << at) == 0 => Some((at, *total)),
            _ => None,
        };
        self.live_events(known, path).filter_map(own).collect()
    }

    fn value(&self, known: u64, path: &[Field], kind: FieldKind) -> TypeValue {
        match kind {
            FieldKind::Counter => {
                let sum: i64 = self.live_counts(known, path).iter().map(|(_, total)| total).sum();
                TypeValue::Counter(sum.into())
            }
            FieldKind::Set => {
                let added = |(_, event_kind): (usize, &EventKind)| match event_kind {
                    EventKind::Added(element) => Some(element.clone()),
                    _ => None,
                };
                let mut elements: Vec<_> =
                    self.live_events(known, path).filter_map(added).collect();
                elements.sort_unstable();
                elements.dedup();
                TypeValue::Set(elements)
            }
            FieldKind::Register => {
                let assigned = |(_, event_kind): (usize, &EventKind)| match event_kind {
                    EventKind::Assigned(at, value) => Some((*at, value.clone())),
                    _ => None,
                };
                let latest = self.live_events(known, path).filter_map(assigned).max();
                TypeValue::Register(latest.map(|(_, value)| value).unwrap_or_default())
            }
            FieldKind::Flag => {
                let on = self
                    .live_events(known, path)
                    .any(|(_, event_kind)| matches!(event_kind, EventKind::Enabled));
                TypeValue::Flag(on)
            }
            _ => {
                let below = self.known(known).filter_map(|(_, event)| {
                    event.path.starts_with(path).then(|| event.path.get(path.len()))?
                });
                let mut fields: Vec<Field> = below.cloned().collect();
                fields.sort_unstable();
                fields.dedup();
                let field_value = |field: Field| {
                    let inner = [path, std::slice::from_ref(&field)].concat();
                    let is_present = self.is_present(known, &inner);
                    is_present.then(|| (field.clone(), self.value(known, &inner, field.kind)))
                };
                TypeValue::Map(fields.into_iter().filter_map(field_value).collect())
            }
        }
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

struct World {
    model: Model,
    replicas: Vec<(Replica, u64)>,
    contexts: Vec<(DotContext<Actor>, u64)>,
}

const KINDS: [FieldKind; 5] =
    [FieldKind::Counter, FieldKind::Set, FieldKind::Register, FieldKind::Flag, FieldKind::Map];

impl World {
    fn new() -> World {
        let replica = |node| (Replica::new(node, FieldKind::Map), 0);
        World { model: Model::default(), replicas: (1..4).map(replica).collect(), contexts: vec![] }
    }

    fn path(&self, dice: &mut Dice) -> Vec<Field> {
        let mut path = Vec::new();
        loop {
            let kind = KINDS[dice.below(5) as usize];
            let name = if dice.below(3) == 0 { "other" } else { "one" };
            path.push(Field { name: Bytes::from_static(name.as_bytes()), kind });
            if kind != FieldKind::Map || path.len() == 3 {
                return path;
            }
        }
    }

    /// Returns a change at a random path, in the form for the replica and for the model.
    fn operation(
        &self,
        at: usize,
        context: Option<u64>,
        dice: &mut Dice,
    ) -> (TypeOperation, ModelEvent) {
        let known = self.replicas[at].1;
        let mut path = self.path(dice);
        let last = path.last().expect("never empty").clone();
        let seen = context.unwrap_or(known);
        if dice.below(6) == 0 || last.kind == FieldKind::Map {
            path.pop();
            let event_kind = EventKind::Removed { element: None, field: Some(last.clone()), seen };
            let operation = TypeOperation::Fields(vec![FieldStep::Remove(last)]);
            return (nested(&path, operation), ModelEvent { path, kind: event_kind, by: at });
        }
        let element = Bytes::from(["a", "b", "c"][dice.below(3) as usize]);
        let (operation, event_kind) = match last.kind {
            FieldKind::Counter => {
                let by = dice.below(9) as i64 - 4;
                let counts = self.model.live_counts(known, &path);
                let own = counts.iter().filter(|(it, _)| self.model.all[*it].by == at);
                let (total, replaces) =
                    own.fold((by, 0), |(sum, all), (it, total)| (sum + total, all | 1 << it));
                (TypeOperation::Add(by), EventKind::Counted { total, replaces })
            }
            FieldKind::Set if dice.below(2) == 0 => {
                let step = ElementStep::Remove(element.clone());
                let event_kind = EventKind::Removed { element: Some(element), field: None, seen };
                (TypeOperation::Elements(vec![step]), event_kind)
            }
            FieldKind::Set => {
                let step = ElementStep::Add(element.clone());
                (TypeOperation::Elements(vec![step]), EventKind::Added(element))
            }
            FieldKind::Register => {
                let latest = self.model.live_events(known, &path).filter_map(|(_, event_kind)| {
                    match event_kind {
                        EventKind::Assigned(at, _) => Some(at + 1),
                        _ => None,
                    }
                });
                let at = latest.max().unwrap_or(0).max(1_000);
                (TypeOperation::Assign(element.clone()), EventKind::Assigned(at, element))
            }
            _ if dice.below(2) == 0 => {
                let event_kind = EventKind::Removed { element: None, field: None, seen };
                (TypeOperation::Disable, event_kind)
            }
            _ => (TypeOperation::Enable, EventKind::Enabled),
        };
        (nested(&path, operation), ModelEvent { path, kind: event_kind, by: at })
    }

    /// Returns true if the target of a remove without a context is absent.
    fn is_absent(&self, known: u64, event: &ModelEvent) -> bool {
        let EventKind::Removed { element, field, .. } = &event.kind else { return false };
        if let Some(element) = element {
            let set = self.model.value(known, &event.path, FieldKind::Set);
            return !matches!(set, TypeValue::Set(all) if all.contains(element));
        }
        let path =
            field.iter().map(|field| [&event.path[..], std::slice::from_ref(field)].concat());
        path.into_iter().any(|path| !self.model.is_present(known, &path))
    }

    fn change(&mut self, at: usize, dice: &mut Dice) {
        let index = dice.below(self.contexts.len() as u64 * 2 + 1) as usize;
        let context = self.contexts.get(index).cloned();
        let (operation, event) = self.operation(at, context.as_ref().map(|(_, seen)| *seen), dice);
        let is_absent = context.is_none() && self.is_absent(self.replicas[at].1, &event);
        let (replica, known) = &mut self.replicas[at];
        // Counters leap now and then, as after the loss of a row.
        replica.count += dice.below(3) / 2;
        let context = context.as_ref().map(|(context, _)| context);
        let result = replica.change(&operation, context);
        assert_eq!(result == Err(ApplyError::NotFound), is_absent, "{operation:?}");
        if result.is_ok() {
            *known |= 1 << self.model.all.len();
            self.model.all.push(event);
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        let at = dice.below(3) as usize;
        let other = dice.below(3) as usize;
        match dice.below(6) {
            0..=2 if self.model.all.len() < 60 => self.change(at, dice),
            3 => {
                let (replica, known) = &self.replicas[at];
                self.contexts.push((replica.typed.context().clone(), *known));
            }
            _ => {
                let theirs = self.replicas[other].clone();
                self.replicas[at].0.merge_from(&theirs.0);
                self.replicas[at].1 |= theirs.1;
            }
        }
        let (replica, known) = &self.replicas[at];
        assert_eq!(replica.typed.value(), self.model.value(*known, &[], FieldKind::Map));
    }
}

fn nested(path: &[Field], operation: TypeOperation) -> TypeOperation {
    path.iter().rev().fold(operation, |inner, field| {
        TypeOperation::Fields(vec![FieldStep::Update(field.clone(), inner)])
    })
}

#[test]
fn data_types_match_event_history_model() {
    for history in 0..20_000 {
        let mut dice = Dice(history);
        let mut world = World::new();
        for _ in 0..4 + dice.below(24) {
            world.step(&mut dice);
        }
    }
}

#[test]
fn map_merge_is_commutative_associative_idempotent_and_round_trips() {
    for history in 0..4_000 {
        let mut dice = Dice(0x1A35 ^ history);
        let mut world = World::new();
        for _ in 0..24 {
            world.step(&mut dice);
        }
        let [a, b, c] = [0, 1, 2].map(|at: usize| world.replicas[at].0.typed.clone());
        let ab = a.clone().merge(b.clone());
        assert_eq!(ab, b.clone().merge(a.clone()));
        assert_eq!(ab.clone().merge(c.clone()), a.clone().merge(b.clone().merge(c.clone())));
        assert_eq!(a.clone().merge(a.clone()), a);
        assert_eq!(ab.clone().merge(a.clone()), ab);
        assert_eq!(Typed::new(FieldKind::Map).merge(a.clone()), a);
        for typed in [a, b, c, ab] {
            let mut out = Vec::new();
            typed.encode(&mut out);
            assert_eq!(Typed::decode(&out.into()), Ok(typed));
        }
    }
}
