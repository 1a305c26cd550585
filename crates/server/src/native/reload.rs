//! Route of a reload of the settings.

use super::routes::{HttpRoute, ResponseBody, RouteName, route};
use crate::counters::OperationKind;
use crate::http::Method;

pub const ROUTE: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("Reloaded"),
    operation: OperationKind::Admin,
    ..route(
        RouteName::Reload,
        Method::Post,
        "/v1/admin/reload",
        "Reads the settings file again and returns what changed and what waits for a restart.",
    )
};
