//! Scrub scheduler: compares the replicas of groups, one group at a time, in the background or when
//! an operator asks.

use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::peer_links::PeerLinks;
use crate::settings::NodeSettings;
use base::{BucketId, GroupId, NodeId, Result};
use metadata::catalog::Catalog;
use replication::Comparing;
use replication::comparison::{
    ComparisonReport, ComparisonStatus, Comparisons, Difference, DifferenceStatus,
};
use replication::group::Group;
use replication::seals::OWN;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use transport::{IncomingCall, Peers};

/// Pause between checks for groups that are due.
const LOOK: Duration = Duration::from_secs(1);

/// Compares replicas of groups whose master is this node, and keeps the results.
pub(crate) struct ReplicaAudit {
    pub settings: Arc<NodeSettings>,
    pub groups: Arc<Groups>,
    pub catalog: Arc<Catalog>,
    pub links: Arc<PeerLinks>,
    pub comparisons: Arc<Comparisons>,
    pub lifecycle: Arc<Lifecycle>,
}

impl ReplicaAudit {
    /// Runs until the node stops.
    pub(crate) async fn run(self: Arc<ReplicaAudit>) {
        let stop = self.lifecycle.stop_signal();
        let mut due = BTreeMap::new();
        while !stop.is_cancelled() {
            self.comparisons.sweep();
            if let Some(error) = self.comparisons.damage() {
                return self.lifecycle.fail(error);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.look_for_due(&mut due) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.comparisons.wake.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Compares the groups that are due.
    async fn look_for_due(&self, due: &mut BTreeMap<GroupId, u64>) {
        let pause = self.settings.scrub_interval_ms;
        for group in self.groups.all() {
            let now = world::milliseconds();
            if !group.leadership.is_master() {
                self.comparisons.forget(group.id);
                due.remove(&group.id);
                continue;
            }
            let is_due = *due.entry(group.id).or_insert(now + pause) <= now;
            let background = self.settings.scrub_bytes_per_second > 0 && !group.is_alone();
            if self.comparisons.is_asked(group.id) || (background && is_due) {
                self.compare(&group).await;
                due.insert(group.id, world::milliseconds() + pause);
            }
        }
    }

    async fn compare(&self, group: &Arc<Group>) {
        let rate = match self.settings.scrub_bytes_per_second {
            0 => NodeSettings::default().scrub_bytes_per_second,
            rate => rate,
        };
        let live = || self.catalog.of_group(group.id).into_keys().collect::<BTreeSet<BucketId>>();
        let words = |found: &Difference| describe_without_keys(&self.difference(group.id, found));
        let peers = self.links.peers.get();
        let comparing = Comparing { group, peers, rate, live: &live, words: &words };
        match comparing.pass().await {
            Ok(()) => tracing::debug!(target: "consensus", group = group.id.0, "compared"),
            Err(error) => tracing::info!(
                target: "consensus", group = group.id.0, %error, "replicas not compared this time"
            ),
        }
    }

    /// See [`crate::Node::verify`].
    pub(crate) fn verify(&self, id: GroupId) -> Result<u64> {
        let group = self.groups.find(id)?;
        if !group.leadership.is_master() {
            return Err(self.links.master_of(&group));
        }
        Ok(self.comparisons.ask(id))
    }

    /// Another replica's master asks what stands here.
    pub(crate) fn asked_for_rows(&self, peers: &Peers, asked: IncomingCall) {
        // A witness has none.
        let group = self.groups.get(asked.group).filter(|group| !group.is_bare());
        let applied = group.map(|group| group.applied.index());
        self.comparisons.asked(peers, asked, applied);
    }

    /// Returns the comparison status of a group's replicas. `None`: this node is not its master, or
    /// has no report.
    pub(crate) fn comparison(&self, group: &Group) -> Option<ComparisonStatus> {
        let is_master = group.leadership.is_master();
        let report = self.comparisons.report(group.id).filter(|_| is_master)?;
        let differences = report.differences();
        let differences = differences.iter().map(|found| self.difference(group.id, found));
        let differences = differences.collect();
        let ComparisonReport { running, passes, trouble, ended_ms, rows, bytes, compared, .. } =
            report;
        let compared = compared.into_iter().map(|(node, rows)| (self.links.name_of(node), rows));
        Some(ComparisonStatus {
            running,
            passes,
            error: trouble,
            ended_ms_ago: ended_ms.map(|ended| world::milliseconds().saturating_sub(ended)),
            rows,
            bytes,
            replicas: compared.collect(),
            differences,
        })
    }

    /// A difference as operators see it.
    fn difference(&self, group: GroupId, difference: &Difference) -> DifferenceStatus {
        let bucket = difference.bucket().map(|id| match id {
            OWN => "the directory".into(),
            _ => match self.catalog.of_group(group).remove(&id) {
                Some(name) => name.full().to_string(),
                None => format!("number {}", id.0),
            },
        });
        let (from, upto) = difference.keys();
        let (from, upto) = (from.escape_ascii().to_string(), upto.escape_ascii().to_string());
        let names = |camp: &BTreeSet<NodeId>| -> Vec<String> {
            camp.iter().map(|node| self.links.name_of(*node)).collect()
        };
        let agreeing: Vec<_> = difference.camps.iter().map(names).collect();
        let range = match (&bucket, upto.is_empty()) {
            (Some(bucket), true) => format!("bucket `{bucket}` from key `{from}` on"),
            (Some(bucket), false) => format!("bucket `{bucket}` from key `{from}` to `{upto}`"),
            (None, _) => format!("the group's own rows from `{from}` to `{upto}`"),
        };
        let text = format!("{range}: {} hold different rows", join_camps(&agreeing));
        DifferenceStatus { bucket, from, upto, agreeing, text }
    }
}

fn join_camps(camps: &[Vec<String>]) -> String {
    let camps: Vec<_> = camps.iter().map(|camp| camp.join(", ")).collect();
    camps.join(" | ")
}

/// Describes a difference for the log, without keys.
fn describe_without_keys(found: &DifferenceStatus) -> String {
    let place = match &found.bucket {
        Some(bucket) => format!("bucket `{bucket}`"),
        None => "the group's own rows".into(),
    };
    format!(
        "{place}: {} hold different rows; `credenza group verify` names the keys",
        join_camps(&found.agreeing)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_logged_without_its_keys() {
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
