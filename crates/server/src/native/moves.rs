//! Moves of buckets between groups: their routes, and their JSON.

use super::routes::{Gives, HttpRoute, RouteName, Takes, cluster};
use crate::http::Method;
use base::BucketName;
use node::Movement;

const MOVE: &str = "/v1/buckets/{type}/{bucket}/move";

pub const BEGIN: HttpRoute = cluster(
    (RouteName::MoveBucket, Method::Post, MOVE),
    (Takes::Json("MoveTo"), Gives::Nothing),
    "Begins to move a bucket to another group; it is used as ever meanwhile.",
);

pub const SEE: HttpRoute = cluster(
    (RouteName::SeeMove, Method::Get, MOVE),
    (Takes::Nothing, Gives::Json("Move")),
    "Where a bucket lives, where it moves to, and how far that is.",
);

pub const CANCEL: HttpRoute = cluster(
    (RouteName::CancelMove, Method::Delete, MOVE),
    (Takes::Nothing, Gives::Nothing),
    "Gives up a bucket's move: it stays where it is.",
);

/// Returns the progress of a move.
pub fn seen(bucket: &BucketName, movement: &Movement) -> api::BucketMove {
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
