//! Warnings: what an operator should know now, and do: one sentence each, the gravest first.

use crate::cluster::{ClusterStatus, MemberStatus};
use crate::disk_health::DiskHealth;
use crate::readiness::{self, Unreached};
use crate::status::{GroupStatus, StoreStatus};
use base::duration::format_ms;
use base::{Error, Membership, NodeId};
use store::Pressure;

/// Lag of the store's flushes or merges, for which writes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreLag {
    None,
    /// Writes are slowed: this many runs wait for merges, and this many bytes.
    Merges {
        runs: u64,
        bytes: u64,
    },
    /// A merge is due for whose output the disk has no space. Writes may be slowed.
    Space,
    /// Memory is full, and writes wait for a flush.
    Flushes,
}

impl StoreLag {
    pub(crate) fn of(pressure: &Pressure, store: &StoreStatus) -> StoreLag {
        match pressure.slowdown_permille() {
            _ if pressure.must_wait() => StoreLag::Flushes,
            _ if pressure.lacks_merge_space => StoreLag::Space,
            0 => StoreLag::None,
            _ => StoreLag::Merges { runs: store.runs, bytes: store.merge_debt_bytes },
        }
    }

    fn warning(self) -> Option<String> {
        match self {
            StoreLag::None => None,
            StoreLag::Merges { runs, bytes } => Some(format!(
                "writes are slowed, because merges of the store lag: it has {runs} runs of files, \
                 and {} MiB are to be merged; if this lasts, the disk or the processors are too \
                 slow for these writes: write less, or add nodes",
                bytes >> 20
            )),
            StoreLag::Space => Some(
                "merges of the store wait for free space on the disk: until then deleted and \
                 overwritten rows take theirs, reads get slower, and writes may be slowed; free \
                 some space"
                    .into(),
            ),
            StoreLag::Flushes => Some(
                "writes wait for memory: rows are written to the store's files more slowly than \
                 they come; if this lasts, check the disk, and what else uses it"
                    .into(),
            ),
        }
    }
}

/// State of this node, its groups and its cluster that may need a warning.
pub(crate) struct WarningInput<'a> {
    /// Reason, if the node has failed.
    pub failure: Option<Error>,
    pub unreached: &'a [Unreached],
    pub groups: &'a [GroupStatus],
    pub cluster: &'a ClusterStatus,
    /// Id of this node.
    pub own: NodeId,
    pub disk: &'a DiskHealth,
    pub store_lag: StoreLag,
    /// True if a key of an available bucket has so many siblings that writes may be refused.
    pub has_many_siblings: bool,
    /// Milliseconds of updates that a power cut may lose. `None`: none.
    pub unsynced_ms: Option<u64>,
}

impl WarningInput<'_> {
    /// Returns all warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let failed = self.failure.as_ref();
        let failed =
            failed.map(|error| format!("the node has failed and must be restarted: {error}"));
        let mut all: Vec<String> = failed.into_iter().collect();
        if all.is_empty() {
            all.extend(readiness::sentences(self.unreached));
        }
        all.extend(disk_warnings(self.disk));
        all.extend(self.store_lag.warning());
        for group in self.groups {
            let torn = group.torn.as_ref().filter(|torn| !all.contains(torn)).cloned();
            all.extend(torn);
            all.extend(differences(group));
            all.extend(group.waits_for_witness.clone());
            all.extend(group.lacks_ballots.then(|| lacks_ballots(group)));
            all.extend(group.unsound.as_ref().map(|member| unsound(group, member)));
        }
        all.extend(member_warnings(self.cluster, self.own));
        all.extend(self.cluster.warnings());
        if self.has_many_siblings {
            all.push(
                "a key of an available bucket has many siblings (the log names the bucket): \
                 clients must send the context that they read; at `siblings_max`, writes are \
                 refused"
                    .into(),
            );
        }
        if let Some(unsynced_ms) = self.unsynced_ms {
            all.push(format!(
                "a power cut may lose up to {unsynced_ms} ms of updates of buckets with \
                 sync=interval: set sync=sync if that is too much"
            ));
        }
        all
    }
}

/// Returns warnings about the disk: full, hanging, slow, nearly full.
fn disk_warnings(disk: &DiskHealth) -> impl Iterator<Item = String> {
    let DiskHealth { space, log_writer, metrics, .. } = disk;
    let full = space.is_full().then(|| {
        format!("{}: writes are refused, deletes continue; free some space", space.shortage_text())
    });
    let hangs = disk.hangs().then(|| {
        format!(
            "the disk hangs: a write to the log has not completed for {} s; other nodes take over \
             the groups that this node leads; check the disk (dmesg)",
            log_writer.unanswered_ms() / 1_000
        )
    });
    let slow = metrics.is_slow().then(|| {
        format!(
            "the disk is slow: a sync of the log takes {} ms; a node with a faster disk takes over \
             the groups that this node leads, unless masters are set; check what else uses the \
             disk",
            metrics.sync_mean_us() / 1_000
        )
    });
    let fills = space.is_nearly_full().then(|| {
        format!(
            "the disk fills up: {} MiB are free, and writes are refused below {} MiB; free some \
             space",
            space.free_bytes() >> 20,
            space.reserve_bytes() >> 20
        )
    });
    [full, hangs, slow, fills].into_iter().flatten()
}

/// Returns warnings about key ranges in which a group's replicas differ.
fn differences(group: &GroupStatus) -> impl Iterator<Item = String> {
    let found = group.comparison.iter().flat_map(|found| &found.differences);
    found.map(|difference| {
        format!(
            "replicas of group {} differ: {}; keep the logs, take a checkpoint, then run `credenza \
             cluster replace` for the member that differs from the others",
            group.id, difference.text
        )
    })
}

fn lacks_ballots(group: &GroupStatus) -> String {
    format!(
        "this node can't be elected master of group {} any more: a member used the last ballot of \
         this configuration; if there is a master, change the group's members once to get new \
         ballots (for example `credenza cluster demote`, then `promote`); if there is none, see \
         `credenza cluster recover`",
        group.id
    )
}

fn unsound(group: &GroupStatus, member: &str) -> String {
    format!(
        "{member} sends messages for group {} that violate the protocol: run the same version \
         everywhere, and run `credenza cluster replace {member}` if this continues",
        group.id
    )
}

/// Returns warnings about unreachable members, or that this node is no member.
fn member_warnings(cluster: &ClusterStatus, own: NodeId) -> Vec<String> {
    let own_member = cluster.members.iter().find(|member| member.member.node == own);
    let leaving =
        own_member.is_some_and(|own_member| own_member.member.membership == Membership::Leaving);
    if leaving || own_member.is_none() && !cluster.members.is_empty() {
        return vec!["this node was removed from the cluster: stop it".into()];
    }
    // A leaving member may be stopped.
    let is_staying = |member: &&MemberStatus| member.member.membership != Membership::Leaving;
    let missing = cluster.members.iter().filter(|member| !member.connected);
    missing.filter(is_staying).map(absent).collect()
}

fn absent(member: &MemberStatus) -> String {
    let (name, node) = (&member.member.name, member.member.node);
    let lasts =
        member.unreachable_ms.map(|ms| format!(" for {}", format_ms(ms))).unwrap_or_default();
    let why = member.connection_error.as_deref().unwrap_or("no connection yet");
    let why = why.strip_prefix("not reached: ").unwrap_or(why);
    let remedy = match member.member.membership {
        Membership::Replaceable => format!(
            "it is to be replaced: start a new node named {name} with --join on an empty data \
             directory"
        ),
        Membership::Member | Membership::Leaving => {
            format!("start it, or if its disk is lost, run `credenza cluster replace {name}`")
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
    fn unreached_member_warning_names_id_time_cause_and_remedy() {
        let two = [member(1, true, Membership::Member), member(2, false, Membership::Member)];
        assert_eq!(
            member_warnings(&cluster(two.to_vec()), NodeId(1)),
            ["n2 (0000000000000002) is not reached for 12 s (Connection refused); start it, \
                 or if its disk is lost, run `credenza cluster replace n2`"]
        );
        let gone = [member(1, true, Membership::Member), member(2, false, Membership::Replaceable)];
        assert!(
            member_warnings(&cluster(gone.to_vec()), NodeId(1))[0].contains("start a new node")
        );
    }

    #[test]
    fn lag_of_merges_of_flushes_and_of_space_are_told_apart() {
        let store = StoreStatus { runs: 60, merge_debt_bytes: 900 << 20, ..Default::default() };
        let warning = |pressure: &Pressure| StoreLag::of(pressure, &store).warning();
        let pressure = Pressure { active_bytes_max: 1 << 20, runs: 10, ..Pressure::default() };
        assert_eq!(warning(&pressure), None);
        let slow = warning(&Pressure { runs: 60, ..pressure }).expect("a warning");
        assert!(slow.contains("60 runs of files, and 900 MiB are to be merged"), "{slow}");
        let space = warning(&Pressure { lacks_merge_space: true, runs: 60, ..pressure });
        assert!(space.expect("a warning").starts_with("merges of the store wait for free space"));
        let full = warning(&Pressure { sealed_tables: 9, runs: 60, ..pressure });
        assert!(full.expect("a warning").starts_with("writes wait for memory"));
    }

    #[test]
    fn leaving_member_raises_no_warning_and_removed_node_warns_itself() {
        let leaving = [member(1, true, Membership::Member), member(2, false, Membership::Leaving)];
        assert_eq!(member_warnings(&cluster(leaving.to_vec()), NodeId(1)), Vec::<String>::new());
        assert_eq!(member_warnings(&cluster(Vec::new()), NodeId(1)), Vec::<String>::new());
        let removed = member_warnings(&cluster(leaving.to_vec()), NodeId(3));
        assert_eq!(removed, ["this node was removed from the cluster: stop it"]);
    }
}
