//! Application of a change to a replica's data type.

use super::dotted::Dotted;
use super::hll::Registers;
use super::state::{ActorTally, Assigned, MapSlot, TypeState, together};
use super::typed::{Change, Removal, RemoveTarget, Typed};
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation};
use base::limits::{TYPE_DEPTH_MAX, TYPE_STEPS_MAX, TYPE_WAITING_MAX};

/// Reason why a change is refused; nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The operation does not fit this type.
    WrongType(FieldKind),
    /// Without a context, the field or element to remove must exist.
    NotThere,
    /// The counter would overflow.
    OutOfRange,
    /// Maps would nest deeper than `TYPE_DEPTH_MAX`.
    TooDeep,
    /// The change has more than `TYPE_STEPS_MAX` steps, or leaves more than `TYPE_WAITING_MAX`
    /// removes waiting.
    TooMany,
    /// The precision is out of range.
    Precision,
}

/// Applies a change to a copy; the caller keeps the old one if it fails.
pub(super) fn apply<I: Ord + Clone>(
    typed: &mut Typed<I>,
    change: &Change<'_, I>,
) -> Result<(), Refused> {
    let mut at = ChangeCursor { change, path: Vec::new(), steps: 0 };
    at.apply(typed, change.operation)?;
    if typed.waiting.len() > TYPE_WAITING_MAX { Err(Refused::TooMany) } else { Ok(()) }
}

/// Position in the type at which a step is applied.
struct ChangeCursor<'a, I> {
    change: &'a Change<'a, I>,
    path: Vec<Field>,
    steps: usize,
}

impl<I: Ord + Clone> ChangeCursor<'_, I> {
    fn apply(&mut self, typed: &mut Typed<I>, operation: &TypeOperation) -> Result<(), Refused> {
        match operation {
            TypeOperation::Fields(steps) => self.fields(typed, steps),
            TypeOperation::Elements(steps) => self.elements(typed, steps),
            TypeOperation::Disable => self.disable(typed),
            TypeOperation::Add(by) => self.add(typed, *by),
            TypeOperation::Assign(value) => {
                let state = self.state(typed);
                let TypeState::Register(dots) = state else { return wrong(state) };
                let before = dots.values().map(|it| it.at_ms).max();
                let after = before.map_or(0, |before| before.saturating_add(1));
                let at_ms = self.change.now_ms.max(after);
                let assigned = Assigned { at_ms, value: value.clone() };
                *dots = Dotted::from([(self.change.dot.clone(), assigned)]);
                Ok(())
            }
            TypeOperation::Enable => {
                let state = self.state(typed);
                let TypeState::Flag(dots) = state else { return wrong(state) };
                *dots = Dotted::from([(self.change.dot.clone(), ())]);
                Ok(())
            }
        }
    }

    /// Returns the state at the position. Its fields exist: they were created on the way.
    fn state<'t>(&self, typed: &'t mut Typed<I>) -> &'t mut TypeState<I> {
        let mut state = &mut typed.state;
        for field in &self.path {
            state = match state {
                TypeState::Map(fields) => {
                    let slot = fields.entry(field.clone());
                    &mut slot.or_insert_with(|| MapSlot::empty(field.kind)).state
                }
                other => return other,
            };
        }
        state
    }

    fn step(&mut self) -> Result<(), Refused> {
        self.steps += 1;
        if self.steps > TYPE_STEPS_MAX { Err(Refused::TooMany) } else { Ok(()) }
    }

    /// Adds to the actor's tally, and stores the result under the new dot.
    fn add(&mut self, typed: &mut Typed<I>, by: i64) -> Result<(), Refused> {
        let state = self.state(typed);
        let TypeState::Counter(dots) = state else { return wrong(state) };
        let mut sum = ActorTally::default();
        let own: Vec<_> = dots.keys().filter(|(id, _)| *id == self.change.dot.0).cloned().collect();
        let plus = |a: u64, b: u64| a.checked_add(b).ok_or(Refused::OutOfRange);
        for tally in own.iter().filter_map(|dot| dots.remove(dot)) {
            sum = ActorTally { up: plus(sum.up, tally.up)?, down: plus(sum.down, tally.down)? };
        }
        match by {
            0.. => sum.up = plus(sum.up, by.unsigned_abs())?,
            _ => sum.down = plus(sum.down, by.unsigned_abs())?,
        }
        dots.insert(self.change.dot.clone(), sum);
        Ok(())
    }

    fn disable(&mut self, typed: &mut Typed<I>) -> Result<(), Refused> {
        let state = self.state(typed);
        let TypeState::Flag(_) = state else { return wrong(state) };
        self.remove(typed, RemoveTarget::Inside);
        Ok(())
    }

    fn elements(&mut self, typed: &mut Typed<I>, steps: &[ElementStep]) -> Result<(), Refused> {
        if let TypeState::Hll(_) = self.state(typed) {
            return self.distinct(typed, steps);
        }
        for step in steps {
            self.step()?;
            match (self.state(typed), step) {
                (
                    TypeState::Set(elements) | TypeState::Gset(elements),
                    ElementStep::Add(element),
                ) => {
                    let dots = Dotted::from([(self.change.dot.clone(), ())]);
                    elements.insert(element.clone(), dots);
                }
                (TypeState::Set(elements), ElementStep::Remove(element)) => {
                    if self.change.context.is_none() && !elements.contains_key(element) {
                        return Err(Refused::NotThere);
                    }
                    self.remove(typed, RemoveTarget::Element(element.clone()));
                }
                (state, _) => return wrong(state),
            }
        }
        let state = self.state(typed);
        let fits = matches!(state, TypeState::Set(_) | TypeState::Gset(_));
        if fits { Ok(()) } else { wrong(state) }
    }

    /// Adds elements to the estimate, and stores all counted so far under the new dot.
    fn distinct(&mut self, typed: &mut Typed<I>, steps: &[ElementStep]) -> Result<(), Refused> {
        let precision = self.change.precision;
        for _ in steps {
            self.step()?;
        }
        let TypeState::Hll(dots) = self.state(typed) else { return Ok(()) };
        let registers = together(dots).or_else(|| Registers::new(precision));
        let mut registers = registers.ok_or(Refused::Precision)?;
        for step in steps {
            match step {
                ElementStep::Add(element) => registers.add(element),
                ElementStep::Remove(_) => return Err(Refused::WrongType(FieldKind::Hll)),
            }
        }
        *dots = Dotted::from([(self.change.dot.clone(), registers)]);
        Ok(())
    }

    fn fields(&mut self, typed: &mut Typed<I>, steps: &[FieldStep]) -> Result<(), Refused> {
        if self.path.len() >= TYPE_DEPTH_MAX {
            return Err(Refused::TooDeep);
        }
        for step in steps {
            self.step()?;
            let state = self.state(typed);
            let TypeState::Map(fields) = state else { return wrong(state) };
            match step {
                FieldStep::Update(field, operation) => {
                    let slot = fields.entry(field.clone());
                    let slot = slot.or_insert_with(|| MapSlot::empty(field.kind));
                    slot.present = Dotted::from([(self.change.dot.clone(), ())]);
                    self.path.push(field.clone());
                    self.apply(typed, operation)?;
                    self.path.pop();
                }
                FieldStep::Remove(field) => {
                    if self.change.context.is_none() && !fields.contains_key(field) {
                        return Err(Refused::NotThere);
                    }
                    self.path.push(field.clone());
                    self.remove(typed, RemoveTarget::Whole);
                    self.path.pop();
                }
            }
        }
        let state = self.state(typed);
        if let TypeState::Map(_) = state { Ok(()) } else { wrong(state) }
    }

    /// Removes at the position what the context covers; without a context, what the replica knows.
    fn remove(&self, typed: &mut Typed<I>, target: RemoveTarget) {
        let context = self.change.context.unwrap_or(&typed.heard).clone();
        typed.remove(Removal { path: self.path.clone(), target, context });
    }
}

fn wrong<I: Ord + Clone>(state: &TypeState<I>) -> Result<(), Refused> {
    Err(Refused::WrongType(state.kind()))
}
