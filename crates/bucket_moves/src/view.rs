//! View of a bucket's location and of its move, from any node.

use crate::BucketMoves;
use crate::message::{MoveReply, MoveRequest};
use crate::progress::MoveProgress;
use crate::target::MoveTarget;
use base::bucket::no_such_bucket;
use base::{BucketName, GroupId, Result};
use std::sync::Arc;

/// Group of a bucket and its move, as this node knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveStatus {
    /// Group that keeps it.
    pub group: GroupId,
    /// Group to which it moves. `None`: it stays.
    pub to: Option<GroupId>,
    /// Progress of the move by the master of its group. `None`: that can't be asked now.
    pub progress: Option<MoveProgress>,
}

impl BucketMoves {
    /// Returns the group of a bucket and its move; asks the master for the progress.
    pub async fn move_status(self: &Arc<BucketMoves>, name: &BucketName) -> Result<MoveStatus> {
        let bucket = self.directory.catalog.find(name).ok_or_else(|| no_such_bucket(name))?;
        let group = bucket.group;
        let Some(moving) = bucket.moving else {
            return Ok(MoveStatus { group, to: None, progress: None });
        };
        let mut master = MoveTarget::new(self.clone(), group);
        let mut progress = None;
        // One attempt at the master, or two if the first node names it.
        for _ in 0..2 {
            let answer = master.ask(MoveRequest::Progress { bucket: bucket.id }).await;
            if let Ok(MoveReply::Progress(Some(reported))) = answer {
                progress = Some(reported);
                break;
            }
        }
        Ok(MoveStatus { group, to: Some(moving.group), progress })
    }
}
