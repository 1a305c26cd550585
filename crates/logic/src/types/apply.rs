//! A change applied to what a replica holds.

use super::dotted::Dotted;
use super::hll::Registers;
use super::state::{ActorTally, Assigned, MapSlot, TypeState, together};
use super::typed::{Change, Removal, RemoveTarget, Typed};
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation};
use base::limits::{TYPE_DEPTH_MAX, TYPE_STEPS_MAX, TYPE_WAITING_MAX};

/// Why a change can't be applied; nothing was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The operation is none of this type's.
    WrongType(FieldKind),
    /// Without a context, what is to be removed must be there.
    NotThere,
    /// The counter would leave its range.
    OutOfRange,
    /// Maps in maps end at `TYPE_DEPTH_MAX`.
    TooDeep,
    /// More steps than `TYPE_STEPS_MAX`, or more removes waiting than `TYPE_WAITING_MAX`.
    TooMany,
    /// There is no such precision.
    Precision,
}

/// Applies to a copy; whoever calls keeps the old one if this fails.
pub(super) fn apply<I: Ord + Clone>(
    typed: &mut Typed<I>,
    change: &Change<'_, I>,
) -> Result<(), Refused> {
    let mut at = ChangeCursor { change, path: Vec::new(), steps: 0 };
    at.apply(typed, change.operation)?;
    if typed.waiting.len() > TYPE_WAITING_MAX { Err(Refused::TooMany) } else { Ok(()) }
}

/// Where in the type a step works.
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

    /// What is at the place. Its fields are there: they were made on the way.
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

    /// All that the actor added before, and this, under the new dot.
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

    /// Everything counted so far, and these, under the new dot.
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

    /// Removes at the place what the client has seen; without a context, what the replica knows.
    fn remove(&self, typed: &mut Typed<I>, target: RemoveTarget) {
        let context = self.change.context.unwrap_or(&typed.heard).clone();
        typed.remove(Removal { path: self.path.clone(), target, context });
    }
}

fn wrong<I: Ord + Clone>(state: &TypeState<I>) -> Result<(), Refused> {
    Err(Refused::WrongType(state.kind()))
}
