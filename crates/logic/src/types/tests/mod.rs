//! Tests of data types: examples, a plain model, encoding, and the error of estimates.

mod coding;
mod examples;
mod hll;
mod model;

use super::{ApplyError, Change, Typed};
use base::datatype::{ElementStep, Field, FieldKind, FieldStep, TypeOperation};
use base::dots::DotContext;
use base::{Actor, NodeId};
use bytes::Bytes;

fn actor(node: u64) -> Actor {
    Actor { node: NodeId(node), vnode: 7, incarnation: 1 }
}

fn text(value: &'static str) -> Bytes {
    Bytes::from_static(value.as_bytes())
}

fn field(name: &'static str, kind: FieldKind) -> Field {
    Field { name: text(name), kind }
}

fn add(element: &'static str) -> TypeOperation {
    TypeOperation::Elements(vec![ElementStep::Add(text(element))])
}

fn remove(element: &'static str) -> TypeOperation {
    TypeOperation::Elements(vec![ElementStep::Remove(text(element))])
}

fn update(field: Field, operation: TypeOperation) -> TypeOperation {
    TypeOperation::Fields(vec![FieldStep::Update(field, operation)])
}

fn drop_field(field: Field) -> TypeOperation {
    TypeOperation::Fields(vec![FieldStep::Remove(field)])
}

/// Replica that counts its own changes.
#[derive(Clone)]
struct Replica {
    typed: Typed<Actor>,
    id: Actor,
    count: u64,
}

impl Replica {
    fn new(node: u64, kind: FieldKind) -> Replica {
        Replica { typed: Typed::new(kind), id: actor(node), count: 0 }
    }

    fn change(
        &mut self,
        operation: &TypeOperation,
        context: Option<&DotContext<Actor>>,
    ) -> Result<(), ApplyError> {
        let dot = (self.id, self.count + 1);
        let change = Change { operation, dot, context, now_ms: 1_000, precision: 14 };
        self.typed = self.typed.clone().apply(&change)?;
        self.count += 1;
        Ok(())
    }

    fn apply(&mut self, operation: &TypeOperation) {
        self.change(operation, None).expect("applies");
    }

    fn merge_from(&mut self, other: &Replica) {
        self.typed = self.typed.clone().merge(other.typed.clone());
    }
}
