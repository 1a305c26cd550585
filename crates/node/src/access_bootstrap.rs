//! First users and roles of a cluster: written at the start of its only member, before it serves
//! anybody.
//!
//! Promises: they are written in one change, and only in a cluster that has never had any; the
//! audit log has a line on disk before.
//! Never: changes users or roles that exist; applies a file in a cluster of several members, of
//! which each could have another one.

use crate::Node;
use audit_log::{AuditOutcome, AuditRecord};
use base::access::AccessBootstrap;
use base::{AccessCall, DirectoryCall, Error, Result};

/// Setting that names the file, for messages.
const SETTING: &str = "access_bootstrap_file";

/// Writes the first users and roles, if the settings have them and the cluster has none.
/// `is_only_member`: false if the cluster has other members, too.
pub(crate) async fn apply(node: &Node, is_only_member: bool) -> Result<()> {
    let Some(bootstrap) = node.cluster.settings.access_bootstrap.clone() else { return Ok(()) };
    if node.access_version() > 0 {
        tracing::debug!(
            target: "node", setting = SETTING, "not applied: the cluster has had users or roles"
        );
        return Ok(());
    }
    if !is_only_member {
        tracing::warn!(
            target: "node", setting = SETTING,
            "not applied: the cluster has several members and was founded without it; use \
             `credenza access init`"
        );
        return Ok(());
    }
    write(node, &bootstrap).await.map_err(|error| {
        Error::new(error.reason, format!("{SETTING}: nothing was changed: {}", error.text()))
    })
}

async fn write(node: &Node, bootstrap: &AccessBootstrap) -> Result<()> {
    bootstrap.check()?;
    let call = DirectoryCall::Access(AccessCall::Switch { on: bootstrap.is_on });
    node.router.locator.check_level(&call)?;
    let trail = &node.router.recorder.trail;
    let record = |outcome| AuditRecord {
        who: "(node)".into(),
        operation: "bootstrap_access",
        scope: "cluster".into(),
        outcome,
        ..AuditRecord::default()
    };
    trail.confirm(record(AuditOutcome::Allowed)).await?;
    let is_written = node.router.directory.bootstrap_access(bootstrap).await;
    let outcome = match &is_written {
        Ok(_) => AuditOutcome::Done,
        Err(error) => AuditOutcome::Failed(error.reason),
    };
    trail.record(record(outcome));
    if is_written? {
        let AccessBootstrap { is_on, roles, users } = bootstrap;
        let (roles, users) = (roles.len(), users.len());
        tracing::info!(
            target: "node", setting = SETTING, is_on, users, roles,
            "applied: the file may be deleted"
        );
    }
    Ok(())
}
