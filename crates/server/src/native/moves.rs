//! Moves of buckets between groups: their routes, and their JSON.

use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, cluster};
use crate::http::Method;
use base::BucketName;
use node::MoveStatus;

const MOVE: &str = "/v1/buckets/{type}/{bucket}/move";

pub const BEGIN: HttpRoute = cluster(
    (RouteName::MoveBucket, Method::Post, MOVE),
    (RequestBody::Json("MoveTo"), ResponseBody::Nothing),
    "Starts moving a bucket to another group; the bucket stays available during the move.",
);

pub const DESCRIBE: HttpRoute = cluster(
    (RouteName::SeeMove, Method::Get, MOVE),
    (RequestBody::Nothing, ResponseBody::Json("Move")),
    "Returns a bucket's group and the progress of its move.",
);

pub const CANCEL: HttpRoute = cluster(
    (RouteName::CancelMove, Method::Delete, MOVE),
    (RequestBody::Nothing, ResponseBody::Nothing),
    "Cancels a bucket's move; the bucket stays in its group.",
);

/// Returns the progress of a move.
pub fn describe(bucket: &BucketName, movement: &MoveStatus) -> api::BucketMove {
    let progress = movement.progress.as_ref().map(|progress| api::BucketMoveProgress {
        phase: progress.phase.word().into(),
        rows: progress.rows,
        rows_total: progress.rows_total,
        bytes: progress.bytes,
        bytes_total: progress.bytes_total,
        recopied: progress.again,
        remaining: progress.left,
        waits_for: progress.waits_for.clone(),
    });
    let (group, to) = (movement.group.0, movement.to.map(|group| group.0));
    api::BucketMove { name: bucket.full().into(), group, to, progress }
}
