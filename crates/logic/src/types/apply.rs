//! Application of a change to a replica's data type.

use super::dotted::Dotted;
use super::hll::Registers;
use super::state::{ActorTally, Assigned, MapSlot, TypeState, merged_registers};
use super::typed::{Change, Removal, RemoveTarget, Typed};
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation};
use base::limits::{TYPE_DEPTH_MAX, TYPE_STEPS_MAX, TYPE_WAITING_MAX};

/// Reason why a change is refused; nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The operation does not fit this type.
    WrongType(FieldKind),
    /// Without a context, the field or element to remove must exist.
    NotFound,
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
) -> Result<(), ApplyError> {
    let mut cursor = ChangeCursor { change, path: Vec::new(), steps: 0 };
    cursor.apply(typed, change.operation)?;
    if typed.waiting.len() > TYPE_WAITING_MAX { Err(ApplyError::TooMany) } else { Ok(()) }
}

/// Position in the type at which a step is applied.
struct ChangeCursor<'a, I> {
    change: &'a Change<'a, I>,
    path: Vec<Field>,
    steps: usize,
}

impl<I: Ord + Clone> ChangeCursor<'_, I> {
    fn apply(&mut self, typed: &mut Typed<I>, operation: &TypeOperation) -> Result<(), ApplyError> {
        match operation {
            TypeOperation::Fields(steps) => self.apply_fields(typed, steps),
            TypeOperation::Elements(steps) => self.apply_elements(typed, steps),
            TypeOperation::Disable => self.disable(typed),
            TypeOperation::Add(by) => self.add(typed, *by),
            TypeOperation::Assign(value) => {
                let state = self.state(typed);
                let TypeState::Register(dots) = state else { return wrong_type(state) };
                let before = dots.values().map(|it| it.at_ms).max();
                let after = before.map_or(0, |before| before.saturating_add(1));
                let at_ms = self.change.now_ms.max(after);
                let assigned = Assigned { at_ms, value: value.clone() };
                *dots = Dotted::from([(self.change.dot.clone(), assigned)]);
                Ok(())
            }
            TypeOperation::Enable => {
                let state = self.state(typed);
                let TypeState::Flag(dots) = state else { return wrong_type(state) };
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

    fn count_step(&mut self) -> Result<(), ApplyError> {
        self.steps += 1;
        if self.steps > TYPE_STEPS_MAX { Err(ApplyError::TooMany) } else { Ok(()) }
    }

    /// Adds to the actor's tally, and stores the result under the new dot.
    fn add(&mut self, typed: &mut Typed<I>, by: i64) -> Result<(), ApplyError> {
        let state = self.state(typed);
        let TypeState::Counter(dots) = state else { return wrong_type(state) };
        let mut sum = ActorTally::default();
        let own_dots: Vec<_> =
            dots.keys().filter(|(id, _)| *id == self.change.dot.0).cloned().collect();
        let checked_sum = |a: u64, b: u64| a.checked_add(b).ok_or(ApplyError::OutOfRange);
        for tally in own_dots.iter().filter_map(|dot| dots.remove(dot)) {
            sum = ActorTally {
                up: checked_sum(sum.up, tally.up)?,
                down: checked_sum(sum.down, tally.down)?,
            };
        }
        match by {
            0.. => sum.up = checked_sum(sum.up, by.unsigned_abs())?,
            _ => sum.down = checked_sum(sum.down, by.unsigned_abs())?,
        }
        dots.insert(self.change.dot.clone(), sum);
        Ok(())
    }

    fn disable(&mut self, typed: &mut Typed<I>) -> Result<(), ApplyError> {
        let state = self.state(typed);
        let TypeState::Flag(_) = state else { return wrong_type(state) };
        self.remove(typed, RemoveTarget::Content);
        Ok(())
    }

    fn apply_elements(
        &mut self,
        typed: &mut Typed<I>,
        steps: &[ElementStep],
    ) -> Result<(), ApplyError> {
        if let TypeState::Hll(_) = self.state(typed) {
            return self.add_distinct(typed, steps);
        }
        for step in steps {
            self.count_step()?;
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
                        return Err(ApplyError::NotFound);
                    }
                    self.remove(typed, RemoveTarget::Element(element.clone()));
                }
                (state, _) => return wrong_type(state),
            }
        }
        let state = self.state(typed);
        let is_set = matches!(state, TypeState::Set(_) | TypeState::Gset(_));
        if is_set { Ok(()) } else { wrong_type(state) }
    }

    /// Adds elements to the estimate, and stores all counted so far under the new dot.
    fn add_distinct(
        &mut self,
        typed: &mut Typed<I>,
        steps: &[ElementStep],
    ) -> Result<(), ApplyError> {
        let precision = self.change.precision;
        for _ in steps {
            self.count_step()?;
        }
        let TypeState::Hll(dots) = self.state(typed) else { return Ok(()) };
        let registers = merged_registers(dots).or_else(|| Registers::new(precision));
        let mut registers = registers.ok_or(ApplyError::Precision)?;
        for step in steps {
            match step {
                ElementStep::Add(element) => registers.add(element),
                ElementStep::Remove(_) => return Err(ApplyError::WrongType(FieldKind::Hll)),
            }
        }
        *dots = Dotted::from([(self.change.dot.clone(), registers)]);
        Ok(())
    }

    fn apply_fields(
        &mut self,
        typed: &mut Typed<I>,
        steps: &[FieldStep],
    ) -> Result<(), ApplyError> {
        if self.path.len() >= TYPE_DEPTH_MAX {
            return Err(ApplyError::TooDeep);
        }
        for step in steps {
            self.count_step()?;
            let state = self.state(typed);
            let TypeState::Map(fields) = state else { return wrong_type(state) };
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
                        return Err(ApplyError::NotFound);
                    }
                    self.path.push(field.clone());
                    self.remove(typed, RemoveTarget::WholeField);
                    self.path.pop();
                }
            }
        }
        let state = self.state(typed);
        if let TypeState::Map(_) = state { Ok(()) } else { wrong_type(state) }
    }

    /// Removes the parts at the position that the context covers; without a context, all known
    /// parts.
    fn remove(&self, typed: &mut Typed<I>, target: RemoveTarget) {
        let context = self.change.context.unwrap_or(&typed.known_dots).clone();
        typed.remove(Removal { path: self.path.clone(), target, context });
    }
}

fn wrong_type<I: Ord + Clone>(state: &TypeState<I>) -> Result<(), ApplyError> {
    Err(ApplyError::WrongType(state.kind()))
}
