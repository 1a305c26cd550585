//! Warnings: what an operator should know now, and do: one sentence each, the gravest first.

use crate::cluster::{ClusterStatus, MemberStatus};
use crate::disk_health::DiskHealth;
use crate::readiness::{self, Unreached};
use crate::status::GroupStatus;
use base::duration::text_of_ms;
use base::{Error, Membership, NodeId};

/// State of this node, its groups and its cluster that may need a warning.
pub(crate) struct WarningSigns<'a> {
    /// Reason, if the node has failed.
    pub failure: Option<Error>,
    pub unreached: &'a [Unreached],
    pub groups: &'a [GroupStatus],
    pub cluster: &'a ClusterStatus,
    /// Id of this node.
    pub own: NodeId,
    pub disk: &'a DiskHealth,
    /// True if a key of an available bucket has so many siblings that writes may be refused.
    pub has_many_siblings: bool,
    /// Milliseconds of updates that a power cut may lose. `None`: none.
    pub unsynced_ms: Option<u64>,
}

impl WarningSigns<'_> {
    /// All warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let failed = self.failure.as_ref();
        let failed =
            failed.map(|error| format!("the node has failed and must be restarted: {error}"));
        let mut all: Vec<String> = failed.into_iter().collect();
        if all.is_empty() {
            all.extend(readiness::sentences(self.unreached));
        }
        all.extend(of_disk(self.disk));
        for group in self.groups {
            let torn = group.torn.as_ref().filter(|torn| !all.contains(torn)).cloned();
            all.extend(torn);
            all.extend(differences(group));
            all.extend(group.waits_for_witness.clone());
            all.extend(group.lacks_ballots.then(|| lacks_ballots(group)));
            all.extend(group.unsound.as_ref().map(|member| unsound(group, member)));
        }
        all.extend(of_members(self.cluster, self.own));
        all.extend(self.cluster.warnings());
        if self.has_many_siblings {
            all.push(
                "a key of an available bucket has many siblings (the log names its bucket): let \
                 its writers send the context that they read; with too many, writes are refused"
                    .into(),
            );
        }
        if let Some(unsynced_ms) = self.unsynced_ms {
            all.push(format!(
                "a power cut may lose up to {unsynced_ms} ms of updates of buckets with \
                 sync=interval: set sync=always where that is too much"
            ));
        }
        all
    }
}

/// The disk: full, hanging, slow, nearly full.
fn of_disk(disk: &DiskHealth) -> impl Iterator<Item = String> {
    let DiskHealth { space, log_writer, metrics, .. } = disk;
    let full = space
        .is_full()
        .then(|| format!("{}: writes are refused, deletes go on; give it room", space.lack()));
    let hangs = disk.hangs().then(|| {
        format!(
            "the disk hangs: what was written to the log is not answered for {} s; no write \
             ends here, and where this node is master others that go on take over; look at \
             the disk (dmesg)",
            log_writer.unanswered_ms() / 1_000
        )
    });
    let slow = metrics.is_slow().then(|| {
        format!(
            "the disk is slow: a sync of the log takes {} ms; where this node is master a \
             quicker one takes over, unless masters are set; look what else uses the disk",
            metrics.sync_mean_us() / 1_000
        )
    });
    let fills = space.fills_up().then(|| {
        format!(
            "the disk fills up: {} MiB are free, and with less than {} MiB writes are \
             refused; give it room",
            space.free_bytes() >> 20,
            space.reserve_bytes() >> 20
        )
    });
    [full, hangs, slow, fills].into_iter().flatten()
}

/// Places in which a group's replicas differ.
fn differences(group: &GroupStatus) -> impl Iterator<Item = String> {
    let found = group.comparison.iter().flat_map(|found| &found.differences);
    found.map(|difference| {
        format!(
            "replicas of group {} differ: {}; keep the logs, take a checkpoint, then \
             `credenza cluster replace` the member that stands alone",
            group.id, difference.text
        )
    })
}

fn lacks_ballots(group: &GroupStatus) -> String {
    format!(
        "this node can't be elected master of group {} any more: a member used the last ballot \
         of this configuration; while there is a master, change the group's members once \
         (`credenza cluster demote` and `promote`, say), which begins new ballots; if there is \
         none, see `credenza cluster recover`",
        group.id
    )
}

fn unsound(group: &GroupStatus, member: &str) -> String {
    format!(
        "{member} sends messages for group {} that no member can send: run the same version \
         everywhere, and `credenza cluster replace {member}` if it goes on",
        group.id
    )
}

/// Members that this node does not reach, and whether it is one itself.
fn of_members(cluster: &ClusterStatus, own: NodeId) -> Vec<String> {
    let this = cluster.members.iter().find(|member| member.member.node == own);
    let leaving = this.is_some_and(|this| this.member.membership == Membership::Leaving);
    if leaving || this.is_none() && !cluster.members.is_empty() {
        return vec!["this node was removed from the cluster: stop it".into()];
    }
    // A leaving member may be stopped.
    let stays = |member: &&MemberStatus| member.member.membership != Membership::Leaving;
    let missing = cluster.members.iter().filter(|member| !member.connected);
    missing.filter(stays).map(absent).collect()
}

fn absent(member: &MemberStatus) -> String {
    let (name, node) = (&member.member.name, member.member.node);
    let lasts =
        member.unreachable_ms.map(|ms| format!(" for {}", text_of_ms(ms))).unwrap_or_default();
    let why = member.connection_error.as_deref().unwrap_or("no connection yet");
    let why = why.strip_prefix("not reached: ").unwrap_or(why);
    let remedy = match member.member.membership {
        Membership::Replaceable => format!(
            "it is to be replaced: start a fresh node called {name} with --join, on an empty data \
             directory"
        ),
        Membership::Member | Membership::Leaving => {
            format!("start it, or if its disk is lost `credenza cluster replace {name}`")
        }
    };
    format!("{name} ({node}) is not reached{lasts} ({why}); {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MemberDescription;

    fn member(node: u64, connected: bool, membership: Membership) -> MemberStatus {
        let described = MemberDescription {
            node: NodeId(node),
            name: format!("n{node}"),
            peer: String::new(),
            client: String::new(),
            incarnation: 1,
            membership,
        };
        MemberStatus {
            member: described,
            connected,
            last_heard_ms_ago: None,
            unreachable_ms: (!connected).then_some(12_000),
            rtt_us: 0,
            connection_error: (!connected).then(|| "not reached: Connection refused".into()),
            health: "up",
            hints: 0,
        }
    }

    fn cluster(members: Vec<MemberStatus>) -> ClusterStatus {
        ClusterStatus { members, ..ClusterStatus::default() }
    }

    #[test]
    fn a_member_that_is_not_reached_is_named_with_its_id_since_when_why_and_the_remedy() {
        let two = [member(1, true, Membership::Member), member(2, false, Membership::Member)];
        assert_eq!(
            of_members(&cluster(two.to_vec()), NodeId(1)),
            ["n2 (0000000000000002) is not reached for 12 s (Connection refused); start it, \
                 or if its disk is lost `credenza cluster replace n2`"]
        );
        let gone = [member(1, true, Membership::Member), member(2, false, Membership::Replaceable)];
        assert!(of_members(&cluster(gone.to_vec()), NodeId(1))[0].contains("start a fresh node"));
    }

    #[test]
    fn leaving_members_may_be_down_and_a_removed_node_is_to_be_stopped() {
        let leaving = [member(1, true, Membership::Member), member(2, false, Membership::Leaving)];
        assert_eq!(of_members(&cluster(leaving.to_vec()), NodeId(1)), Vec::<String>::new());
        assert_eq!(of_members(&cluster(Vec::new()), NodeId(1)), Vec::<String>::new());
        let removed = of_members(&cluster(leaving.to_vec()), NodeId(3));
        assert_eq!(removed, ["this node was removed from the cluster: stop it"]);
    }
}
