//! The ring of available buckets: its routes, and what is asked by them.

use super::json::ring::{change, epoch};
use super::routes::{Gives, Name, Route, Takes, cluster};
use crate::http::Method;
use base::{Error, RingCall};

const RING: &str = "/v1/cluster/ring";
const PLAN: &str = "/v1/cluster/ring/plan";

pub const SEE: Route = cluster(
    (Name::SeeRing, Method::Get, RING),
    (Takes::Nothing, Gives::Json("Ring")),
    "Who owns which partition of available buckets.",
);

pub const CLAIM: Route = cluster(
    (Name::ClaimRing, Method::Put, RING),
    (Takes::Nothing, Gives::Json("Ring")),
    "Every member that stays takes an even part of the ring, while that holds no data.",
);

pub const SEE_PLAN: Route = cluster(
    (Name::SeeRingPlan, Method::Get, PLAN),
    (Takes::Nothing, Gives::Json("RingPlan")),
    "What the planned changes of the ring would do.",
);

pub const STAGE: Route = cluster(
    (Name::StageRing, Method::Post, PLAN),
    (Takes::Json("RingChange"), Gives::Json("RingPlan")),
    "Lays one more change of the ring down; nothing moves yet.",
);

pub const CLEAR: Route = cluster(
    (Name::ClearRingPlan, Method::Delete, PLAN),
    (Takes::Nothing, Gives::Nothing),
    "Discards the planned changes of the ring.",
);

pub const COMMIT: Route = cluster(
    (Name::CommitRing, Method::Post, "/v1/cluster/ring/commit"),
    (Takes::MaybeJson("RingEpoch"), Gives::Json("Ring")),
    "Begins the planned changes of the ring, if it is still at this epoch.",
);

pub const CANCEL: Route = cluster(
    (Name::CancelRing, Method::Post, "/v1/cluster/ring/cancel"),
    (Takes::Nothing, Gives::Json("Ring")),
    "Calls the change of the ring off that is under way: what has gone over goes back.",
);

pub const TRANSFERS: Route = cluster(
    (Name::SeeTransfers, Method::Get, "/v1/cluster/ring/transfers"),
    (Takes::Nothing, Gives::Json("RingTransfers")),
    "How far the change of the ring is, node by node.",
);

/// What is asked by a route of the ring.
pub fn call(name: Name, body: &[u8]) -> Result<RingCall, Error> {
    Ok(match name {
        Name::SeeRing => RingCall::Describe,
        Name::ClaimRing => RingCall::Claim,
        Name::SeeRingPlan => RingCall::Plan,
        Name::StageRing => RingCall::Stage(change(body)?),
        Name::CommitRing => RingCall::Commit { epoch: epoch(body)? },
        Name::CancelRing => RingCall::Cancel,
        Name::SeeTransfers => RingCall::Transfers,
        other => unreachable!("{other:?} is no route of the ring"),
    })
}
