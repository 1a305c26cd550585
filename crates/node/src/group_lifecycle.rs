//! Beginning and end of a group's replica on this node.

use crate::flush::StoreFlusher;
use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::recovery;
use crate::settings::NodeSettings;
use base::{Placement, Reason, Result};
use metadata::Directory;
use replication::group::Group;
use runtime::FileTasks;
use std::sync::Arc;

/// Runs a group's driver on this node.
pub(crate) fn drive(lifecycle: &Arc<Lifecycle>, group: Arc<Group>) {
    let (owner, tasks) = (lifecycle.clone(), &lifecycle.tasks.groups);
    let stop = tasks.stop().clone();
    tasks.spawn(&format!("group {}", group.id), async move {
        if let Err(error) = group.drive(stop).await {
            owner.fail(error);
        }
    });
}

/// Begins and ends groups here.
pub(crate) struct GroupHost {
    pub settings: Arc<NodeSettings>,
    pub groups: Arc<Groups>,
    pub directory: Arc<Directory>,
    pub flusher: Arc<StoreFlusher>,
    pub file_tasks: Arc<FileTasks>,
    pub lifecycle: Arc<Lifecycle>,
}

impl GroupHost {
    /// Begins a group on this node, unless it is here. The members it began with are written down
    /// already: after any crash the node knows that it has a word in it.
    pub(crate) fn begin(&self, placement: &Placement) -> Result<()> {
        if self.groups.get(placement.group).is_some() {
            return Ok(());
        }
        let shared = self.directory.group.shared.clone();
        let own = (shared.node, &*self.settings, shared.witness);
        let found = recovery::begin(placement, own, &*shared.trees)?;
        let group = Arc::new(Group::new(found, shared));
        if self.groups.add(Arc::clone(&group)) {
            tracing::info!(target: "node", group = group.id.0, "a group begins here");
            drive(&self.lifecycle, group);
        }
        Ok(())
    }

    /// Ends a dropped group: its replica here, then its rows. The log drops its records like any
    /// others that are not needed. After an interruption the next start continues.
    pub(crate) fn end(self: &Arc<GroupHost>, group: Arc<Group>) {
        if !group.driver.end() {
            return;
        }
        let (host, name) = (self.clone(), format!("end of group {}", group.id));
        self.lifecycle.tasks.loops.spawn(&name, async move {
            // The driver first: an entry that it still applied would bring rows back.
            group.driver.ends().await;
            let id = group.id;
            host.groups.remove(id);
            let (flusher, file_tasks) = (host.flusher.clone(), host.file_tasks.clone());
            let dropping = move || {
                let _task = file_tasks.begin()?;
                flusher.drop_prefix(&id.0.to_be_bytes())
            };
            match host.lifecycle.tasks.loops.run_blocking(dropping).await {
                Some(Ok(())) => tracing::info!(target: "node", group = id.0, "a group has ended"),
                Some(Err(error)) if error.reason == Reason::Corrupt => host.lifecycle.fail(error),
                Some(Err(error)) => tracing::warn!(target: "node", %error, "a group's rows stay"),
                None => tracing::error!(target: "node", group = id.0, "ending a group broke off"),
            }
        });
    }
}
