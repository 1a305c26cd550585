//! Beginning and end of a group's replica on this node.

use crate::{Inner, recovery};
use base::{Placement, Reason, Result};
use replication::group::Group;
use runtime::keeper::store_error;
use runtime::world;
use std::sync::Arc;

/// Has a group do its part on this node.
pub(crate) fn drive(inner: &Arc<Inner>, group: Arc<Group>) {
    let (owner, stop) = (inner.clone(), inner.stop.subscribe());
    world::spawn(async move {
        if let Err(error) = group.drive(stop).await {
            owner.fail(error);
        }
    });
}

/// Begins a group on this node, unless it is here. Whom it began with is written down already:
/// after any crash the node knows that it has a word in it.
pub(crate) fn begin_group(inner: &Arc<Inner>, placement: &Placement) -> Result<()> {
    if inner.groups.get(placement.group).is_some() {
        return Ok(());
    }
    let shared = inner.directory.group.shared.clone();
    let own = (shared.node, &inner.settings, shared.witness);
    let found = recovery::begin(placement, own, &*shared.trees)?;
    let group = Arc::new(Group::new(found, shared));
    if inner.groups.add(Arc::clone(&group)) {
        tracing::info!(target: "node", group = group.id.0, "a group begins here");
        drive(inner, group);
    }
    Ok(())
}

/// Ends a group that was dropped: its part here, then its rows. The log lets go of its records as
/// of all that nobody needs. Cut short, the next start goes on.
pub(crate) fn end_group(inner: &Arc<Inner>, group: Arc<Group>) {
    if !group.driver.end() {
        return;
    }
    let inner = inner.clone();
    tokio::spawn(async move {
        group.driver.ends().await;
        let id = group.id;
        inner.groups.remove(id);
        let owner = inner.clone();
        let dropping = move || {
            owner.at_work(|| {
                owner.trees.drop_prefix(&id.0.to_be_bytes()).map_err(store_error)?;
                owner.flush_and_collapse()
            })
        };
        match tokio::task::spawn_blocking(dropping).await {
            Ok(Ok(())) => tracing::info!(target: "node", group = id.0, "a group has ended"),
            Ok(Err(error)) if error.reason == Reason::Corrupt => inner.fail(error),
            Ok(Err(error)) => tracing::warn!(target: "node", %error, "a group's rows stay"),
            Err(error) => tracing::error!(target: "node", %error, "ending a group broke off"),
        }
    });
}
