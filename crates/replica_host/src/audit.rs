//! Scrub scheduler: compares the replicas of groups, one group at a time, in the background or when
//! an operator asks.

use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::peer_links::PeerLinks;
use crate::settings::{HostSettings, SCRUB_BYTES_PER_SECOND};
use base::{BucketId, GroupId, NodeId, Result};
use metadata::catalog::Catalog;
use replica_state::comparison::{
    ComparisonReport, ComparisonStatus, Comparisons, Difference, DifferenceStatus,
};
use replica_state::layout::Space;
use replication::GroupComparison;
use replication::group::Group;
use replication::seals::BOOKKEEPING_BUCKET;
use runtime::{round, world};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use transport::{IncomingCall, Peers};

/// Period of the checks for groups that are due.
const PERIOD: Duration = Duration::from_secs(1);

/// Compares replicas of groups whose master is this node, and keeps the results.
pub struct ReplicaAudit {
    /// Settings of the replicas.
    pub settings: Arc<HostSettings>,
    /// Groups with a replica here.
    pub groups: Arc<Groups>,
    /// The applied directory.
    pub catalog: Arc<Catalog>,
    /// Links to the other nodes.
    pub links: Arc<PeerLinks>,
    /// Comparisons of the replicas here.
    pub comparisons: Arc<Comparisons>,
    /// State of the node.
    pub lifecycle: Arc<Lifecycle>,
}

impl ReplicaAudit {
    /// Runs until the node stops.
    pub async fn run(self: Arc<ReplicaAudit>) {
        let stop = self.lifecycle.stop_signal();
        let mut due = BTreeMap::new();
        while !stop.is_cancelled() {
            self.comparisons.close_expired();
            if let Some(error) = self.comparisons.damage() {
                return self.lifecycle.fail(error);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.compare_due_groups(&mut due) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.comparisons.wake.notified() => {}
                () = round::rest(world::sleep(world::until_next(PERIOD))) => {}
            }
        }
    }

    /// Compares the groups that are due.
    async fn compare_due_groups(&self, due: &mut BTreeMap<GroupId, u64>) {
        let pause = self.settings.scrub_interval_ms;
        for group in self.groups.all() {
            round::progress();
            let now = world::milliseconds();
            if !group.leadership.is_master() {
                self.comparisons.forget(group.id);
                due.remove(&group.id);
                continue;
            }
            let is_due = *due.entry(group.id).or_insert(now + pause) <= now;
            let background = self.settings.scrub_bytes_per_second > 0 && !group.is_sole_member();
            if self.comparisons.take_request(group.id) || (background && is_due) {
                self.compare(&group).await;
                due.insert(group.id, world::milliseconds() + pause);
            }
        }
    }

    async fn compare(&self, group: &Arc<Group>) {
        let rate = match self.settings.scrub_bytes_per_second {
            0 => SCRUB_BYTES_PER_SECOND,
            rate => rate,
        };
        let live_buckets =
            || self.catalog.of_group(group.id).into_keys().collect::<BTreeSet<BucketId>>();
        let describe =
            |found: &Difference| describe_without_keys(&self.difference(group.id, found));
        let peers = self.links.peers.get();
        let comparing = GroupComparison {
            group,
            peers,
            rate,
            live_buckets: &live_buckets,
            describe: &describe,
        };
        match comparing.run().await {
            Ok(()) => tracing::debug!(target: "consensus", group = group.id.0, "compared"),
            Err(error) => tracing::info!(
                target: "consensus", group = group.id.0, %error,
                "comparison of replicas failed; it is repeated later"
            ),
        }
    }

    /// See `Node::verify`.
    pub fn verify(&self, id: GroupId) -> Result<u64> {
        let group = self.groups.find(id)?;
        if !group.leadership.is_master() {
            return Err(self.links.master_of(&group));
        }
        Ok(self.comparisons.request(id))
    }

    /// Handles a comparison call of a group's master.
    pub fn on_comparison_call(&self, peers: &Peers, call: IncomingCall) {
        // A witness has no rows to compare.
        let group = self.groups.get(call.group).filter(|group| !group.is_witness_replica());
        let applied = group.map(|group| group.applied.index());
        self.comparisons.on_call(peers, call, applied);
    }

    /// Returns the comparison status of a group's replicas. `None`: this node is not its master, or
    /// has no report.
    pub fn comparison(&self, group: &Group) -> Option<ComparisonStatus> {
        let is_master = group.leadership.is_master();
        let report = self.comparisons.report(group.id).filter(|_| is_master)?;
        let differences = report.differences();
        let differences = differences.iter().map(|found| self.difference(group.id, found));
        let differences = differences.collect();
        let ComparisonReport { running, passes, error, ended_ms, rows, bytes, compared, .. } =
            report;
        let compared = compared.into_iter().map(|(node, rows)| (self.links.name_of(node), rows));
        Some(ComparisonStatus {
            running,
            passes,
            error,
            ended_ms_ago: ended_ms.map(|ended| world::milliseconds().saturating_sub(ended)),
            rows,
            bytes,
            replicas: compared.collect(),
            differences,
        })
    }

    /// Describes a difference for operators.
    fn difference(&self, group: GroupId, difference: &Difference) -> DifferenceStatus {
        let bucket = difference.bucket().map(|id| match id {
            BOOKKEEPING_BUCKET => "the directory".into(),
            _ => match self.catalog.of_group(group).remove(&id) {
                Some(name) => name.full().to_string(),
                None => format!("number {}", id.0),
            },
        });
        let (from, upto) = difference.keys();
        let (from, upto) = (from.escape_ascii().to_string(), upto.escape_ascii().to_string());
        let names = |nodes: &BTreeSet<NodeId>| -> Vec<String> {
            nodes.iter().map(|node| self.links.name_of(*node)).collect()
        };
        let agreeing: Vec<_> = difference.agreeing.iter().map(names).collect();
        let kind = match difference.space() {
            Some(Space::Index) => "index entries",
            Some(Space::Feed) => "feed entries",
            _ => "keys",
        };
        let range = match (&bucket, upto.is_empty()) {
            (Some(bucket), true) => format!("bucket `{bucket}`, {kind} from `{from}` to the end"),
            (Some(bucket), false) => format!("bucket `{bucket}`, {kind} from `{from}` to `{upto}`"),
            (None, _) => format!("internal rows of the group, from `{from}` to `{upto}`"),
        };
        let text = format!("{range}: {} hold different rows", join_agreeing(&agreeing));
        DifferenceStatus { bucket, from, upto, agreeing, text }
    }
}

fn join_agreeing(agreeing: &[Vec<String>]) -> String {
    let agreeing: Vec<_> = agreeing.iter().map(|names| names.join(", ")).collect();
    agreeing.join(" | ")
}

/// Describes a difference for the log, without keys.
fn describe_without_keys(found: &DifferenceStatus) -> String {
    let place = match &found.bucket {
        Some(bucket) => format!("bucket `{bucket}`"),
        None => "internal rows of the group".into(),
    };
    format!(
        "{place}: {} hold different rows; `credenza group verify` names the keys",
        join_agreeing(&found.agreeing)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_difference_is_logged_without_its_keys() {
        let mut found = DifferenceStatus {
            bucket: Some("default/b".into()),
            from: "alice@example.com".into(),
            upto: "bob@example.com".into(),
            agreeing: vec![vec!["n1".into(), "n3".into()], vec!["n2".into()]],
            text: "from alice@example.com to bob@example.com".into(),
        };
        let logged = describe_without_keys(&found);
        assert!(logged.starts_with("bucket `default/b`: n1, n3 | n2 hold"), "{logged}");
        assert!(!logged.contains("example.com"), "{logged}");
        // Expiry hints and sessions hold keys of clients, too.
        found.bucket = None;
        assert!(!describe_without_keys(&found).contains("example.com"));
    }
}
