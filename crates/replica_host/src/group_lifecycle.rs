//! Beginning and end of a group's replica on this node.

use crate::flush::StoreFlusher;
use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::recovery;
use crate::settings::HostSettings;
use base::{Placement, Reason, Result};
use metadata::Directory;
use replication::group::Group;
use runtime::{FileTasks, Watch};
use std::sync::Arc;
use std::time::Duration;

/// Longest pause of a group's driver.
const DRIVER_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time within which a dropped group's rows are removed: what is to be flushed before may be much.
const END_MAX: Duration = Duration::from_secs(3_600);

/// Runs a group's driver on this node.
pub fn drive(lifecycle: &Arc<Lifecycle>, group: Arc<Group>) {
    let (owner, tasks) = (lifecycle.clone(), &lifecycle.tasks.groups);
    let stop = tasks.cancellation_token().clone();
    let name = format!("group {}", group.id);
    tasks.spawn(&name, Watch::Every(DRIVER_PAUSE_MAX), async move {
        if let Err(error) = group.drive(stop).await {
            owner.fail(error);
        }
    });
}

/// Starts and stops replicas of groups on this node.
pub struct GroupHost {
    /// Settings of the replicas.
    pub settings: Arc<HostSettings>,
    /// Groups with a replica here.
    pub groups: Arc<Groups>,
    /// Directory of buckets and members.
    pub directory: Arc<Directory>,
    /// Runner of flush rounds.
    pub flusher: Arc<StoreFlusher>,
    /// Tasks that write files.
    pub file_tasks: Arc<FileTasks>,
    /// State of the node.
    pub lifecycle: Arc<Lifecycle>,
}

impl GroupHost {
    /// Starts a group's replica on this node, unless it runs. Its founders are stored already, so
    /// that after a crash the node finds that it is a voter.
    pub fn begin(&self, placement: &Placement) -> Result<()> {
        if self.groups.get(placement.group).is_some() {
            return Ok(());
        }
        let shared = self.directory.group.shared.clone();
        let own = (shared.node, &*self.settings, shared.is_witness);
        let recovered = recovery::new_group(placement, own, &*shared.trees)?;
        let group = Arc::new(Group::new(recovered, shared));
        if self.groups.add(Arc::clone(&group)) {
            tracing::info!(
                target: "node", group = group.id.0, "this node is now a member of the group"
            );
            drive(&self.lifecycle, group);
        }
        Ok(())
    }

    /// Stops the replica of a dropped group, then removes its rows. Its log records are collapsed
    /// like others that are not needed. After an interruption the next start continues.
    pub fn end(self: &Arc<GroupHost>, group: Arc<Group>) {
        if !group.driver.drop_group() {
            return;
        }
        let (host, name) = (self.clone(), format!("end of group {}", group.id));
        self.lifecycle.tasks.loops.spawn(&name, Watch::Round(END_MAX), async move {
            // The driver first: an entry applied later would restore rows.
            group.driver.wait_for_end().await;
            let id = group.id;
            host.groups.remove(id);
            group.shared.build_pacer.forget(id.0);
            let (flusher, file_tasks) = (host.flusher.clone(), host.file_tasks.clone());
            let drop_rows = move || {
                let _task = file_tasks.begin()?;
                flusher.drop_prefix(&id.0.to_be_bytes())
            };
            match host.lifecycle.tasks.loops.run_blocking(drop_rows).await {
                Some(Ok(())) => tracing::info!(
                    target: "node", group = id.0, "a dropped group's rows are removed"
                ),
                Some(Err(error)) if error.reason == Reason::Corrupt => host.lifecycle.fail(error),
                Some(Err(error)) => {
                    tracing::warn!(
                        target: "node", %error, "a dropped group's rows could not be removed"
                    )
                }
                None => tracing::error!(
                    target: "node", group = id.0, "the removal of a dropped group was interrupted"
                ),
            }
        });
    }
}
