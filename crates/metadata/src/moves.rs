//! Placement of buckets: the group of a new bucket, and the row changes of each step of a move.
//!
//! A move is a field of the bucket's row: the group and the number to which it moves. A copy under
//! a number that is not in the row any more is stale and ignored. `bucket_moves/lib.rs` describes
//! the whole move.

use super::rows::{assert, bucket_key, group_key, mark_dropped, set, write_bucket};
use super::{CallPlan, Directory};
use base::{
    Body, BucketDescription, BucketId, BucketName, BucketPlace, Error, GroupId, MoveDestination,
    MoveStep, Reason, Result, Update, Value,
};

impl Directory {
    /// Returns the group in which a bucket is created, and the step that asserts that it exists.
    pub(super) fn group_for_place(&self, place: BucketPlace) -> Result<(GroupId, Update)> {
        let group = match place {
            BucketPlace::Group(group) => group,
            BucketPlace::Replicas(voters) => self.group_of_voters(voters)?,
        };
        Ok((group, self.assert_data_group(group)?))
    }

    /// Returns the step that asserts that a bucket can be placed in this group: its removal may be
    /// undecided.
    fn assert_data_group(&self, group: GroupId) -> Result<Update> {
        if group == GroupId::DIRECTORY {
            let text = "group 0 is the directory, and holds no buckets: name another group";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let key = group_key(group);
        let row = self.get(&key)?;
        if row.is_some() {
            return Ok(assert(&key, row));
        }
        let text = format!("no group {group}: `credenza group status` lists them");
        Err(Error::new(Reason::NotFound, text))
    }

    /// Returns the group with the fewest buckets among those with this number of desired voters.
    fn group_of_voters(&self, wanted: u32) -> Result<GroupId> {
        let cluster = self.describe_cluster()?;
        let candidates = cluster.groups.iter().filter(|placement| {
            let voters = placement.members.iter().filter(|(_, part)| part.can_vote()).count();
            placement.group != GroupId::DIRECTORY && voters == wanted as usize
        });
        let counts = self.catalog.counts();
        let fewest = candidates.min_by_key(|placement| {
            (counts.get(&placement.group).copied().unwrap_or(0), placement.group)
        });
        fewest.map(|placement| placement.group).ok_or_else(|| {
            let text = format!(
                "no group has {wanted} voters: create one first (`credenza group create --replicas \
                 {wanted}`)"
            );
            Error::new(Reason::NotFound, text)
        })
    }

    pub(super) fn move_bucket(&self, name: &BucketName, group: GroupId) -> Result<CallPlan> {
        let (value, bucket) = self.bucket(name)?;
        match bucket.moving {
            Some(moving) if moving.group == group => return Ok(CallPlan::Answer(Body::Done)),
            Some(moving) => {
                let text = format!(
                    "the bucket `{name}` is moving to group {}: cancel that first (`credenza \
                     bucket move {name} --cancel`)",
                    moving.group
                );
                return Err(Error::new(Reason::Changed, text));
            }
            None if bucket.group == group => return Ok(CallPlan::Answer(Body::Done)),
            None => {}
        }
        let has_group = self.assert_data_group(group)?;
        let (mut steps, id) = self.next_id()?;
        steps.push(has_group);
        let moving = Some(MoveDestination { group, id });
        steps.extend(replace_bucket_row(name, value, &BucketDescription { moving, ..bucket }));
        Ok(CallPlan::Change(steps))
    }

    pub(super) fn cancel_move(&self, name: &BucketName) -> Result<CallPlan> {
        let (value, bucket) = self.bucket(name)?;
        let Some(moving) = bucket.moving else { return Ok(CallPlan::Answer(Body::Done)) };
        let mut steps =
            replace_bucket_row(name, value, &BucketDescription { moving: None, ..bucket });
        steps.push(mark_dropped(moving.id, moving.group));
        Ok(CallPlan::Change(steps))
    }

    pub(super) fn step_move(
        &self,
        name: &BucketName,
        id: BucketId,
        moving: BucketId,
        step: MoveStep,
    ) -> Result<CallPlan> {
        let (value, bucket) = self.bucket(name)?;
        if step == MoveStep::Finish && bucket.id == moving {
            return Ok(CallPlan::Answer(Body::Done));
        }
        let target = bucket.moving.filter(|target| bucket.id == id && target.id == moving);
        let Some(target) = target else {
            let text = format!("this move of the bucket `{name}` has ended or was cancelled");
            return Err(Error::new(Reason::Changed, text));
        };
        match step {
            MoveStep::Renew => {
                let (mut steps, new_id) = self.next_id()?;
                let moving = Some(MoveDestination { id: new_id, ..target });
                steps.extend(replace_bucket_row(
                    name,
                    value,
                    &BucketDescription { moving, ..bucket },
                ));
                steps.push(mark_dropped(target.id, target.group));
                Ok(CallPlan::Change(steps))
            }
            MoveStep::Finish => {
                let drop_source = mark_dropped(bucket.id, bucket.group);
                let MoveDestination { group, id } = target;
                let moved = BucketDescription { group, id, moving: None, ..bucket };
                let mut steps = replace_bucket_row(name, value, &moved);
                steps.extend(self.move_indexes(name, id)?);
                steps.push(drop_source);
                Ok(CallPlan::Change(steps))
            }
        }
    }
}

/// Returns the steps that replace a bucket's row if it is unchanged.
fn replace_bucket_row(name: &BucketName, before: Value, bucket: &BucketDescription) -> Vec<Update> {
    let key = bucket_key(name);
    vec![assert(&key, Some(before)), set(key, write_bucket(bucket))]
}
