//! Ring of available buckets: its routes, and their calls.

use super::json::ring::{change, epoch};
use super::routes::{Gives, HttpRoute, RouteName, Takes, cluster};
use crate::http::Method;
use base::{Error, RingCall};

const RING: &str = "/v1/cluster/ring";
const PLAN: &str = "/v1/cluster/ring/plan";

pub const SEE: HttpRoute = cluster(
    (RouteName::SeeRing, Method::Get, RING),
    (Takes::Nothing, Gives::Json("Ring")),
    "Who owns which partition of available buckets.",
);

pub const CLAIM: HttpRoute = cluster(
    (RouteName::ClaimRing, Method::Put, RING),
    (Takes::Nothing, Gives::Json("Ring")),
    "Every member that stays takes an even part of the ring, while that holds no data.",
);

pub const SEE_PLAN: HttpRoute = cluster(
    (RouteName::SeeRingPlan, Method::Get, PLAN),
    (Takes::Nothing, Gives::Json("RingPlan")),
    "What the planned changes of the ring would do.",
);

pub const STAGE: HttpRoute = cluster(
    (RouteName::StageRing, Method::Post, PLAN),
    (Takes::Json("RingChange"), Gives::Json("RingPlan")),
    "Lays one more change of the ring down; nothing moves yet.",
);

pub const CLEAR: HttpRoute = cluster(
    (RouteName::ClearRingPlan, Method::Delete, PLAN),
    (Takes::Nothing, Gives::Nothing),
    "Discards the planned changes of the ring.",
);

pub const COMMIT: HttpRoute = cluster(
    (RouteName::CommitRing, Method::Post, "/v1/cluster/ring/commit"),
    (Takes::MaybeJson("RingEpoch"), Gives::Json("Ring")),
    "Begins the planned changes of the ring, if it is still at this epoch.",
);

pub const CANCEL: HttpRoute = cluster(
    (RouteName::CancelRing, Method::Post, "/v1/cluster/ring/cancel"),
    (Takes::Nothing, Gives::Json("Ring")),
    "Calls the change of the ring off that is under way: what has gone over goes back.",
);

pub const TRANSFERS: HttpRoute = cluster(
    (RouteName::SeeTransfers, Method::Get, "/v1/cluster/ring/transfers"),
    (Takes::Nothing, Gives::Json("RingTransfers")),
    "How far the change of the ring is, node by node.",
);

/// Returns the call of a route of the ring.
pub fn call(name: RouteName, body: &[u8]) -> Result<RingCall, Error> {
    Ok(match name {
        RouteName::SeeRing => RingCall::Describe,
        RouteName::ClaimRing => RingCall::Claim,
        RouteName::SeeRingPlan => RingCall::Plan,
        RouteName::StageRing => RingCall::Stage(change(body)?),
        RouteName::CommitRing => RingCall::Commit { epoch: epoch(body)? },
        RouteName::CancelRing => RingCall::Cancel,
        RouteName::SeeTransfers => RingCall::Transfers,
        other => unreachable!("{other:?} is no route of the ring"),
    })
}
