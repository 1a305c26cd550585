//! What only available buckets have: siblings with their contexts, data types, properties that go
//! back to the type's. Their routes, and what these ask.

use super::errors::malformed;
use super::parameters::Parameter;
use super::routes::{Gives, Name, Route, Takes, route};
use super::target::Target;
use super::translate::Shape;
use crate::counters::Operation;
use crate::http::Method;
use crate::typed;
use base::available::TypeChange;
use base::{AvailableCall, Call, Content, DirectoryCall, Error, FetchOptions, Store, StoreOptions};
use bytes::Bytes;

const SIBLINGS: &str = "/v1/buckets/{type}/{bucket}/siblings/{key}";
const DATATYPE: &str = "/v1/buckets/{type}/{bucket}/datatypes/{key}";

pub const FETCH: Route = Route {
    gives: Gives::Json("Siblings"),
    errors: &[404, 413],
    operation: Operation::Get,
    ..route(
        Name::FetchSiblings,
        Method::Get,
        SIBLINGS,
        "All values of a key of an available bucket, with the context that has seen them.",
    )
};

pub const STORE: Route = Route {
    query: &[Parameter::Context],
    takes: Takes::Value,
    gives: Gives::Json("Stored"),
    errors: &[404, 409, 411, 413],
    operation: Operation::Put,
    ..route(
        Name::StoreSibling,
        Method::Put,
        SIBLINGS,
        "Writes a value instead of those that the context has seen; without one beside them.",
    )
};

pub const REMOVE: Route = Route {
    query: &[Parameter::Context],
    gives: Gives::Json("Stored"),
    errors: &[404, 409, 413],
    operation: Operation::Delete,
    ..route(
        Name::RemoveSiblings,
        Method::Delete,
        SIBLINGS,
        "Deletes the values that the context has seen; without one, all that are there.",
    )
};

pub const LOOK: Route = Route {
    gives: Gives::Json("Typed"),
    errors: &[404, 409, 413],
    operation: Operation::Get,
    ..route(
        Name::FetchType,
        Method::Get,
        DATATYPE,
        "The data type under a key of a bucket that holds such.",
    )
};

pub const CHANGE: Route = Route {
    takes: Takes::Json("TypeOperation"),
    gives: Gives::Json("Typed"),
    errors: &[404, 409, 413, 415],
    operation: Operation::Update,
    ..route(
        Name::ChangeType,
        Method::Post,
        DATATYPE,
        "Changes a data type; what it removes is what its context has seen.",
    )
};

pub const RESET: Route = Route {
    errors: &[404],
    operation: Operation::Directory,
    ..route(
        Name::ResetBucket,
        Method::Delete,
        "/v1/buckets/{type}/{bucket}/properties",
        "An available bucket has its type's properties again.",
    )
};

/// What one of these routes asks; none: it is another one.
pub fn call(target: &mut Target, body: &Bytes) -> Result<Option<(Call, Shape)>, Error> {
    let context = target.query.context.take();
    let mut key = || std::mem::take(&mut target.key);
    let (call, shape) = match target.route.name {
        Name::FetchSiblings => {
            let options = FetchOptions::default();
            (AvailableCall::Fetch { key: key(), options }, Shape::Found)
        }
        Name::StoreSibling => {
            let content = Content::plain(body.clone());
            let store = Store { key: key(), content, context, ..Store::default() };
            (AvailableCall::Store(Box::new(store)), Shape::Json)
        }
        Name::RemoveSiblings => {
            let options = StoreOptions::default();
            (AvailableCall::Remove { key: key(), context, options }, Shape::Json)
        }
        Name::FetchType => {
            let options = FetchOptions::default();
            (AvailableCall::FetchType { key: key(), options }, Shape::Found)
        }
        Name::ChangeType => {
            let (operation, context) = typed::operation(body).map_err(malformed)?;
            let options = StoreOptions { return_body: true, ..StoreOptions::default() };
            let change = TypeChange { key: key(), operation, context, options };
            (AvailableCall::Change(Box::new(change)), Shape::Json)
        }
        Name::ResetBucket => {
            let call = Call::Directory(DirectoryCall::ResetBucket);
            return Ok(Some((call, Shape::Nothing)));
        }
        _ => return Ok(None),
    };
    Ok(Some((Call::Available(call), shape)))
}
