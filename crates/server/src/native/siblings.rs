//! Routes of available buckets: siblings with their contexts, data types, and the reset of
//! properties to the type's.

use super::errors::malformed;
use super::parameters::Parameter;
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, route};
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
    response_body: ResponseBody::Json("Siblings"),
    errors: &[404, 413],
    operation: OperationKind::Get,
    ..route(
        RouteName::FetchSiblings,
        Method::Get,
        SIBLINGS,
        "Returns all siblings of a key in an available bucket, with their causal context.",
    )
};

pub const STORE: HttpRoute = HttpRoute {
    query: &[Parameter::Context],
    request_body: RequestBody::Value,
    response_body: ResponseBody::Json("Stored"),
    errors: &[404, 409, 411, 413],
    operation: OperationKind::Put,
    ..route(
        RouteName::StoreSibling,
        Method::Put,
        SIBLINGS,
        "Writes a value that replaces the siblings covered by the context; without a context it \
         adds a sibling.",
    )
};

pub const REMOVE: HttpRoute = HttpRoute {
    query: &[Parameter::Context],
    response_body: ResponseBody::Json("Stored"),
    errors: &[404, 409, 413],
    operation: OperationKind::Delete,
    ..route(
        RouteName::RemoveSiblings,
        Method::Delete,
        SIBLINGS,
        "Deletes the siblings covered by the context; without a context, all siblings.",
    )
};

pub const FETCH_TYPE: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("Typed"),
    errors: &[404, 409, 413],
    operation: OperationKind::Get,
    ..route(
        RouteName::FetchType,
        Method::Get,
        DATATYPE,
        "Returns the data type stored under a key.",
    )
};

pub const CHANGE_TYPE: HttpRoute = HttpRoute {
    request_body: RequestBody::Json("TypeOperation"),
    response_body: ResponseBody::Json("Typed"),
    errors: &[404, 409, 413, 415],
    operation: OperationKind::Update,
    ..route(
        RouteName::ChangeType,
        Method::Post,
        DATATYPE,
        "Updates a data type; removals apply only to elements covered by the context.",
    )
};

pub const RESET: HttpRoute = HttpRoute {
    errors: &[404],
    operation: OperationKind::Directory,
    ..route(
        RouteName::ResetBucket,
        Method::Delete,
        "/v1/buckets/{type}/{bucket}/properties",
        "Resets the properties of an available bucket to those of its type.",
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
