//! Ring of available buckets: its routes, and their calls.

use super::json::ring::change;
pub use super::json::ring::epoch;
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, cluster, confirmed};
use crate::http::Method;
use base::{Error, RingCall};

const RING: &str = "/v1/cluster/ring";
const PLAN: &str = "/v1/cluster/ring/plan";

pub const DESCRIBE: HttpRoute = cluster(
    (RouteName::SeeRing, Method::Get, RING),
    (RequestBody::Nothing, ResponseBody::Json("Ring")),
    "Returns the owner of each partition of the ring.",
);

pub const CLAIM: HttpRoute = cluster(
    (RouteName::ClaimRing, Method::Put, RING),
    (RequestBody::Nothing, ResponseBody::Json("Ring")),
    "Distributes the ring evenly over all members that are not leaving; only while it holds no \
     data.",
);

pub const DESCRIBE_PLAN: HttpRoute = cluster(
    (RouteName::SeeRingPlan, Method::Get, PLAN),
    (RequestBody::Nothing, ResponseBody::Json("RingPlan")),
    "Returns the planned ring changes and their effect.",
);

pub const STAGE: HttpRoute = cluster(
    (RouteName::StageRing, Method::Post, PLAN),
    (RequestBody::Json("RingChange"), ResponseBody::Json("RingPlan")),
    "Adds a change to the ring plan; nothing moves until the plan is committed.",
);

pub const CLEAR: HttpRoute = cluster(
    (RouteName::ClearRingPlan, Method::Delete, PLAN),
    (RequestBody::Nothing, ResponseBody::Nothing),
    "Discards the planned ring changes.",
);

pub const COMMIT: HttpRoute = confirmed(cluster(
    (RouteName::CommitRing, Method::Post, "/v1/cluster/ring/commit"),
    (RequestBody::MaybeJson("RingEpoch"), ResponseBody::Json("Ring")),
    "Commits the planned ring changes, if the ring still has the confirmed epoch.",
));

pub const CANCEL: HttpRoute = cluster(
    (RouteName::CancelRing, Method::Post, "/v1/cluster/ring/cancel"),
    (RequestBody::Nothing, ResponseBody::Json("Ring")),
    "Cancels the ring change in progress; transferred partitions return to their former owners.",
);

pub const TRANSFERS: HttpRoute = cluster(
    (RouteName::SeeTransfers, Method::Get, "/v1/cluster/ring/transfers"),
    (RequestBody::Nothing, ResponseBody::Json("RingTransfers")),
    "Returns the progress of the ring change for each node.",
);

/// Returns the call of a route of the ring. The commit must be confirmed: `translate.rs` has it.
pub fn call(name: RouteName, body: &[u8]) -> Result<RingCall, Error> {
    Ok(match name {
        RouteName::SeeRing => RingCall::Describe,
        RouteName::ClaimRing => RingCall::Claim,
        RouteName::SeeRingPlan => RingCall::Plan,
        RouteName::StageRing => RingCall::Stage(change(body)?),
        RouteName::CancelRing => RingCall::Cancel,
        RouteName::SeeTransfers => RingCall::Transfers,
        other => unreachable!("{other:?} is no route of the ring"),
    })
}
