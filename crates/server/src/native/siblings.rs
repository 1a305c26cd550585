//! Routes of available buckets: siblings with their contexts, data types, and the reset of
//! properties to the type's.

use super::errors::malformed;
use super::parameters::Parameter;
use super::routes::{Gives, HttpRoute, RouteName, Takes, route};
use super::target::RequestTarget;
use super::translate::NativeShape;
use crate::counters::OperationKind;
use crate::http::Method;
use crate::typed;
use base::available::TypeChange;
use base::{AvailableCall, Call, Content, DirectoryCall, Error, FetchOptions, Store, StoreOptions};
use bytes::Bytes;

const SIBLINGS: &str = "/v1/buckets/{type}/{bucket}/siblings/{key}";
const DATATYPE: &str = "/v1/buckets/{type}/{bucket}/datatypes/{key}";

pub const FETCH: HttpRoute = HttpRoute {
    gives: Gives::Json("Siblings"),
    errors: &[404, 413],
    operation: OperationKind::Get,
    ..route(
        RouteName::FetchSiblings,
        Method::Get,
        SIBLINGS,
        "All values of a key of an available bucket, with the context that has seen them.",
    )
};

pub const STORE: HttpRoute = HttpRoute {
    query: &[Parameter::Context],
    takes: Takes::Value,
    gives: Gives::Json("Stored"),
    errors: &[404, 409, 411, 413],
    operation: OperationKind::Put,
    ..route(
        RouteName::StoreSibling,
        Method::Put,
        SIBLINGS,
        "Writes a value instead of those that the context has seen; without one beside them.",
    )
};

pub const REMOVE: HttpRoute = HttpRoute {
    query: &[Parameter::Context],
    gives: Gives::Json("Stored"),
    errors: &[404, 409, 413],
    operation: OperationKind::Delete,
    ..route(
        RouteName::RemoveSiblings,
        Method::Delete,
        SIBLINGS,
        "Deletes the values that the context has seen; without one, all that are there.",
    )
};

pub const LOOK: HttpRoute = HttpRoute {
    gives: Gives::Json("Typed"),
    errors: &[404, 409, 413],
    operation: OperationKind::Get,
    ..route(
        RouteName::FetchType,
        Method::Get,
        DATATYPE,
        "The data type under a key of a bucket that holds such.",
    )
};

pub const CHANGE: HttpRoute = HttpRoute {
    takes: Takes::Json("TypeOperation"),
    gives: Gives::Json("Typed"),
    errors: &[404, 409, 413, 415],
    operation: OperationKind::Update,
    ..route(
        RouteName::ChangeType,
        Method::Post,
        DATATYPE,
        "Changes a data type; what it removes is what its context has seen.",
    )
};

pub const RESET: HttpRoute = HttpRoute {
    errors: &[404],
    operation: OperationKind::Directory,
    ..route(
        RouteName::ResetBucket,
        Method::Delete,
        "/v1/buckets/{type}/{bucket}/properties",
        "An available bucket has its type's properties again.",
    )
};

/// Returns the call of one of these routes, or `None` for another route.
pub fn call(
    target: &mut RequestTarget,
    body: &Bytes,
) -> Result<Option<(Call, NativeShape)>, Error> {
    let context = target.query.context.take();
    let mut key = || std::mem::take(&mut target.key);
    let (call, shape) = match target.route.name {
        RouteName::FetchSiblings => {
            let options = FetchOptions::default();
            (AvailableCall::Fetch { key: key(), options }, NativeShape::Found)
        }
        RouteName::StoreSibling => {
            let content = Content::plain(body.clone());
            let store = Store { key: key(), content, context, ..Store::default() };
            (AvailableCall::Store(Box::new(store)), NativeShape::Json)
        }
        RouteName::RemoveSiblings => {
            let options = StoreOptions::default();
            (AvailableCall::Remove { key: key(), context, options }, NativeShape::Json)
        }
        RouteName::FetchType => {
            let options = FetchOptions::default();
            (AvailableCall::FetchType { key: key(), options }, NativeShape::Found)
        }
        RouteName::ChangeType => {
            let (operation, context) = typed::operation(body).map_err(malformed)?;
            let options = StoreOptions { return_body: true, ..StoreOptions::default() };
            let change = TypeChange { key: key(), operation, context, options };
            (AvailableCall::Change(Box::new(change)), NativeShape::Json)
        }
        RouteName::ResetBucket => {
            let call = Call::Directory(DirectoryCall::ResetBucket);
            return Ok(Some((call, NativeShape::Nothing)));
        }
        _ => return Ok(None),
    };
    Ok(Some((Call::Available(call), shape)))
}
