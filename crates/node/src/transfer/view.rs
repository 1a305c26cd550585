//! View of a bucket's location and of its move, from any node.

use super::BucketMoves;
use super::message::{MoveAnswer, MoveQuestion};
use super::progress::MoveProgress;
use super::target::MoveTarget;
use base::bucket::no_such_bucket;
use base::{BucketName, GroupId, Result};
use std::sync::Arc;

/// Group of a bucket and its move, as this node knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    /// Group that keeps it.
    pub group: GroupId,
    /// Group to which it moves. `None`: it stays.
    pub to: Option<GroupId>,
    /// Progress of the move by the master of its group. `None`: that can't be asked now.
    pub progress: Option<MoveProgress>,
}

impl BucketMoves {
    /// See [`crate::Node::movement`].
    pub(crate) async fn movement(self: &Arc<BucketMoves>, name: &BucketName) -> Result<Movement> {
        let bucket = self.directory.catalog.find(name).ok_or_else(|| no_such_bucket(name))?;
        let group = bucket.group;
        let Some(moving) = bucket.moving else {
            return Ok(Movement { group, to: None, progress: None });
        };
        let mut master = MoveTarget::new(self.clone(), group);
        let mut progress = None;
        // Once to the master, or to a node that names it.
        for _ in 0..2 {
            let asked = master.ask(MoveQuestion::Progress { bucket: bucket.id }).await;
            if let Ok(MoveAnswer::Progress(Some(found))) = asked {
                progress = Some(found);
                break;
            }
        }
        Ok(Movement { group, to: Some(moving.group), progress })
    }
}
