//! Comparison with the simplest model: a set of all events, evaluated anew each time.

use super::Replica;
use crate::types::{Refused, Typed};
use base::Actor;
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation, TypeValue};
use base::dots::DotContext;
use bytes::Bytes;

/// Event of the model. Events are numbered; a set of them is a word.
#[derive(Clone, Debug)]
struct Happened {
    /// Path of nested fields that it changed; it makes the fields on the way present.
    path: Vec<Field>,
    what: What,
    /// Replica that carried it out.
    by: usize,
}

#[derive(Clone, Debug)]
enum What {
    Added(Bytes),
    Enabled,
    Assigned(u64, Bytes),
    /// Sum of the actor's additions, this one and all that it replaces.
    Counted {
        total: i64,
        replaces: u64,
    },
    /// Removes at its path what it has seen: one element, or the whole content; for a field of the
    /// path also its presence.
    Removed {
        element: Option<Bytes>,
        field: Option<Field>,
        seen: u64,
    },
}

#[derive(Default)]
struct Model {
    all: Vec<Happened>,
}

impl Model {
    fn known(&self, set: u64) -> impl Iterator<Item = (usize, &Happened)> {
        self.all.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0)
    }

    /// Returns true if a known remove takes away the event at a path: `element` in it, or the
    /// presence of the path's last field.
    fn taken(
        &self,
        known: u64,
        at: usize,
        path: &[Field],
        element: Option<&Bytes>,
        presence: bool,
    ) -> bool {
        self.known(known).any(|(_, other)| {
            let What::Removed { element: gone, field, seen } = &other.what else { return false };
            if seen & (1 << at) == 0 {
                return false;
            }
            match (gone, field) {
                (Some(gone), _) => !presence && other.path == path && element == Some(gone),
                (None, Some(field)) => {
                    let whole = other.path.len() + 1;
                    path.len() >= whole
                        && path[..whole - 1] == other.path[..]
                        && path[whole - 1] == *field
                }
                (None, None) => !presence && other.path == path,
            }
        })
    }

    fn there(&self, known: u64, path: &[Field]) -> bool {
        self.known(known).any(|(at, happened)| {
            happened.path.starts_with(path) && !self.taken(known, at, path, None, true)
        })
    }

    fn leaves<'a>(
        &'a self,
        known: u64,
        path: &'a [Field],
    ) -> impl Iterator<Item = (usize, &'a What)> {
        let alive = move |(at, happened): &(usize, &'a Happened)| {
            let element = match &happened.what {
                What::Added(element) => Some(element),
                _ => None,
            };
            happened.path == path && !self.taken(known, *at, path, element, false)
        };
        self.known(known).filter(alive).map(|(at, happened)| (at, &happened.what))
    }

    fn counted(&self, known: u64, path: &[Field]) -> Vec<(usize, i64)> {
        let replaced = self.known(known).fold(0, |all, (_, happened)| match happened.what {
            What::Counted { replaces, .. } => all | replaces,
            _ => all,
        });
        let own = |(at, what): (usize, &What)| match what {
            What::Counted { total, .. } if replaced & (1 << at) == 0 => Some((at, *total)),
            _ => None,
        };
        self.leaves(known, path).filter_map(own).collect()
    }

    fn value(&self, known: u64, path: &[Field], kind: FieldKind) -> TypeValue {
        match kind {
            FieldKind::Counter => {
                let sum: i64 = self.counted(known, path).iter().map(|(_, total)| total).sum();
                TypeValue::Counter(sum.into())
            }
            FieldKind::Set => {
                let added = |(_, what): (usize, &What)| match what {
                    What::Added(element) => Some(element.clone()),
                    _ => None,
                };
                let mut elements: Vec<_> = self.leaves(known, path).filter_map(added).collect();
                elements.sort_unstable();
                elements.dedup();
                TypeValue::Set(elements)
            }
            FieldKind::Register => {
                let assigned = |(_, what): (usize, &What)| match what {
                    What::Assigned(at, value) => Some((*at, value.clone())),
                    _ => None,
                };
                let latest = self.leaves(known, path).filter_map(assigned).max();
                TypeValue::Register(latest.map(|(_, value)| value).unwrap_or_default())
            }
            FieldKind::Flag => {
                let on = self.leaves(known, path).any(|(_, what)| matches!(what, What::Enabled));
                TypeValue::Flag(on)
            }
            _ => {
                let below = self.known(known).filter_map(|(_, happened)| {
                    happened.path.starts_with(path).then(|| happened.path.get(path.len()))?
                });
                let mut fields: Vec<Field> = below.cloned().collect();
                fields.sort_unstable();
                fields.dedup();
                let shown = |field: Field| {
                    let inner = [path, std::slice::from_ref(&field)].concat();
                    let there = self.there(known, &inner);
                    there.then(|| (field.clone(), self.value(known, &inner, field.kind)))
                };
                TypeValue::Map(fields.into_iter().filter_map(shown).collect())
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
    ) -> (TypeOperation, Happened) {
        let known = self.replicas[at].1;
        let mut path = self.path(dice);
        let last = path.last().expect("never empty").clone();
        let seen = context.unwrap_or(known);
        if dice.below(6) == 0 || last.kind == FieldKind::Map {
            path.pop();
            let what = What::Removed { element: None, field: Some(last.clone()), seen };
            let operation = TypeOperation::Fields(vec![FieldStep::Remove(last)]);
            return (within(&path, operation), Happened { path, what, by: at });
        }
        let word = Bytes::from(["a", "b", "c"][dice.below(3) as usize]);
        let (operation, what) = match last.kind {
            FieldKind::Counter => {
                let by = dice.below(9) as i64 - 4;
                let counted = self.model.counted(known, &path);
                let mine = counted.iter().filter(|(it, _)| self.model.all[*it].by == at);
                let (total, replaces) =
                    mine.fold((by, 0), |(sum, all), (it, total)| (sum + total, all | 1 << it));
                (TypeOperation::Add(by), What::Counted { total, replaces })
            }
            FieldKind::Set if dice.below(2) == 0 => {
                let step = ElementStep::Remove(word.clone());
                let what = What::Removed { element: Some(word), field: None, seen };
                (TypeOperation::Elements(vec![step]), what)
            }
            FieldKind::Set => {
                let step = ElementStep::Add(word.clone());
                (TypeOperation::Elements(vec![step]), What::Added(word))
            }
            FieldKind::Register => {
                let latest = self.model.leaves(known, &path).filter_map(|(_, what)| match what {
                    What::Assigned(at, _) => Some(at + 1),
                    _ => None,
                });
                let at = latest.max().unwrap_or(0).max(1_000);
                (TypeOperation::Assign(word.clone()), What::Assigned(at, word))
            }
            _ if dice.below(2) == 0 => {
                let what = What::Removed { element: None, field: None, seen };
                (TypeOperation::Disable, what)
            }
            _ => (TypeOperation::Enable, What::Enabled),
        };
        (within(&path, operation), Happened { path, what, by: at })
    }

    /// Returns true if the target of a remove without a context is absent.
    fn absent(&self, known: u64, happened: &Happened) -> bool {
        let What::Removed { element, field, .. } = &happened.what else { return false };
        if let Some(element) = element {
            let set = self.model.value(known, &happened.path, FieldKind::Set);
            return !matches!(set, TypeValue::Set(all) if all.contains(element));
        }
        let path =
            field.iter().map(|field| [&happened.path[..], std::slice::from_ref(field)].concat());
        path.into_iter().any(|path| !self.model.there(known, &path))
    }

    fn change(&mut self, at: usize, dice: &mut Dice) {
        let chosen = dice.below(self.contexts.len() as u64 * 2 + 1) as usize;
        let context = self.contexts.get(chosen).cloned();
        let (operation, happened) =
            self.operation(at, context.as_ref().map(|(_, seen)| *seen), dice);
        let absent = context.is_none() && self.absent(self.replicas[at].1, &happened);
        let (replica, known) = &mut self.replicas[at];
        // Counters leap now and then, as after the loss of a row.
        replica.count += dice.below(3) / 2;
        let context = context.as_ref().map(|(context, _)| context);
        let result = replica.change(&operation, context);
        assert_eq!(result == Err(Refused::NotThere), absent, "{operation:?}");
        if result.is_ok() {
            *known |= 1 << self.model.all.len();
            self.model.all.push(happened);
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
                self.replicas[at].0.hear(&theirs.0);
                self.replicas[at].1 |= theirs.1;
            }
        }
        let (replica, known) = &self.replicas[at];
        assert_eq!(replica.typed.value(), self.model.value(*known, &[], FieldKind::Map));
    }
}

fn within(path: &[Field], operation: TypeOperation) -> TypeOperation {
    path.iter().rev().fold(operation, |inner, field| {
        TypeOperation::Fields(vec![FieldStep::Update(field.clone(), inner)])
    })
}

#[test]
fn types_equal_everything_that_happened_in_twenty_thousand_histories() {
    for history in 0..20_000 {
        let mut dice = Dice(history);
        let mut world = World::new();
        for _ in 0..4 + dice.below(24) {
            world.step(&mut dice);
        }
    }
}

#[test]
fn merging_is_commutative_associative_and_idempotent_and_bytes_read_back() {
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
