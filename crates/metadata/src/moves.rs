//! Placement of buckets: the group of a new bucket, and the row changes of each step of a move.
//!
//! A move is a field of the bucket's row: the group and the number to which it moves. A copy under
//! a number that is not in the row any more is stale and ignored. `../transfer/mod.rs` describes
//! the whole move.

use super::rows::{assert, bucket_key, dropped, set, write_bucket};
use super::{CallPlan, Directory};
use base::{
    Body, BucketDescription, BucketId, BucketName, BucketPlace, Error, GroupId, MoveStep, Moving,
    Reason, Result, Update, Value,
};

impl Directory {
    /// Returns the group in which a bucket is created.
    pub(super) fn place_for(&self, place: BucketPlace) -> Result<GroupId> {
        match place {
            BucketPlace::Group(group) => self.data_group(group).map(|()| group),
            BucketPlace::Replicas(voters) => self.group_of_voters(voters),
        }
    }

    /// Checks that a bucket can be placed in this group.
    fn data_group(&self, group: GroupId) -> Result<()> {
        if group == GroupId::DIRECTORY {
            let text = "group 0 is the directory, and holds no buckets: name another group";
            return Err(Error::new(Reason::NotSupported, text));
        }
        if self.described()?.groups.iter().any(|known| known.group == group) {
            return Ok(());
        }
        let text = format!("no group {group}: `credenza group status` lists them");
        Err(Error::new(Reason::NotFound, text))
    }

    /// Returns the group with the fewest buckets among those with this number of desired voters.
    fn group_of_voters(&self, wanted: u32) -> Result<GroupId> {
        let known = self.described()?;
        let fits = known.groups.iter().filter(|placement| {
            let voters = placement.members.iter().filter(|(_, part)| part.votes()).count();
            placement.group != GroupId::DIRECTORY && voters == wanted as usize
        });
        let counts = self.catalog.counts();
        let fewest = fits.min_by_key(|placement| {
            (counts.get(&placement.group).copied().unwrap_or(0), placement.group)
        });
        fewest.map(|placement| placement.group).ok_or_else(|| {
            let text = format!(
                "no group has {wanted} voters: make one first (`credenza group create --replicas \
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
                    "the bucket `{name}` is on its way to group {}: cancel that first (`credenza \
                     bucket move {name} --cancel`)",
                    moving.group
                );
                return Err(Error::new(Reason::Changed, text));
            }
            None if bucket.group == group => return Ok(CallPlan::Answer(Body::Done)),
            None => {}
        }
        self.data_group(group)?;
        let (mut steps, id) = self.next_id()?;
        let moving = Some(Moving { group, id });
        steps.extend(changed(name, value, &BucketDescription { moving, ..bucket }));
        Ok(CallPlan::Change(steps))
    }

    pub(super) fn cancel_move(&self, name: &BucketName) -> Result<CallPlan> {
        let (value, bucket) = self.bucket(name)?;
        let Some(moving) = bucket.moving else { return Ok(CallPlan::Answer(Body::Done)) };
        let mut steps = changed(name, value, &BucketDescription { moving: None, ..bucket });
        steps.push(dropped(moving.id, moving.group));
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
        let there = bucket.moving.filter(|there| bucket.id == id && there.id == moving);
        let Some(there) = there else {
            let text = format!("the bucket `{name}` is not on this way any more");
            return Err(Error::new(Reason::Changed, text));
        };
        match step {
            MoveStep::Renew => {
                let (mut steps, fresh) = self.next_id()?;
                let moving = Some(Moving { id: fresh, ..there });
                steps.extend(changed(name, value, &BucketDescription { moving, ..bucket }));
                steps.push(dropped(there.id, there.group));
                Ok(CallPlan::Change(steps))
            }
            MoveStep::Finish => {
                let left = dropped(bucket.id, bucket.group);
                let Moving { group, id } = there;
                let moved = BucketDescription { group, id, moving: None, ..bucket };
                let mut steps = changed(name, value, &moved);
                steps.push(left);
                Ok(CallPlan::Change(steps))
            }
        }
    }
}

/// Returns the steps that replace a bucket's row if it is unchanged.
fn changed(name: &BucketName, before: Value, bucket: &BucketDescription) -> Vec<Update> {
    let key = bucket_key(name);
    vec![assert(&key, Some(before)), set(key, write_bucket(bucket))]
}
