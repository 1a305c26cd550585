//! Alarms of a node: which rows of the table in `base/alarm.rs` hold now, by the state of this node
//! and what it sees of its cluster.

use crate::alarm_register::Finding;
use crate::cluster::{ClusterStatus, MemberStatus};
use crate::readiness::{self, Unreached};
use crate::status::{GroupStatus, StoreStatus};
use base::duration::format_ms;
use base::{AlarmCode, Error, LogIndex, Membership, NodeId};
use dynamo::AvailableStatus;
use replica_host::DiskHealth;
use runtime::BeatStatus;
use std::sync::Arc;
use store::Pressure;
use tls::TlsWarning;
use usage::ConcentratedAccess;

/// Entries by which a member may lag behind its master without an alarm.
const BEHIND_ENTRIES: u64 = 1_000;
/// Time for which it must lag, in milliseconds: every burst of writes makes a member lag.
const BEHIND_MS: u64 = 30_000;
/// Age of undelivered hints that is an alarm, in milliseconds.
const HINTS_OLD_MS: u64 = 3_600_000;
/// Time for which the log must exceed its limit, in milliseconds: a truncation may be under way.
const LOG_HELD_MS: u64 = 60_000;
/// Time for which one key must take most accesses, in milliseconds: a burst is no pattern.
const HOT_KEY_MS: u64 = 60_000;

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

    fn finding(self) -> Option<Finding> {
        let found = |code, detail: String| Some(Finding::new(code, "store", detail));
        match self {
            StoreLag::None => None,
            StoreLag::Flushes => found(AlarmCode::WritesWait, String::new()),
            StoreLag::Space => found(AlarmCode::MergesWait, String::new()),
            StoreLag::Merges { runs, bytes } => found(
                AlarmCode::WritesSlowed,
                format!("it has {runs} runs of files, and {} MiB are to be merged", bytes >> 20),
            ),
        }
    }
}

/// State of this node, its groups and its cluster that may be an alarm.
pub(crate) struct AlarmInput<'a> {
    /// Reason, if the node has failed.
    pub failure: Option<Error>,
    pub unreached: &'a [Unreached],
    pub groups: &'a [GroupStatus],
    pub cluster: &'a ClusterStatus,
    pub available: &'a AvailableStatus,
    /// Id and name of this node.
    pub own: (NodeId, &'a str),
    pub disk: &'a DiskHealth,
    /// Time for which the disk has not completed a write to the log, in milliseconds. `None`: it
    /// does not hang.
    pub hangs_ms: Option<u64>,
    /// Size of the log in bytes, and the size at which it is truncated.
    pub log_bytes: (u64, u64),
    pub store_lag: StoreLag,
    /// True if a key of an available bucket has so many siblings that writes may be refused.
    pub has_many_siblings: bool,
    /// Milliseconds of updates that a power cut may lose. `None`: none.
    pub unsynced_ms: Option<u64>,
    /// Members whose program is older, each with what it lacks.
    pub older_members: &'a [(String, String)],
    /// Last jump of the wall clock in milliseconds, while it is recent.
    pub clock_jump_ms: Option<i64>,
    /// Tasks that stand still.
    pub late_tasks: &'a [BeatStatus],
    /// Keys that take most reads, or writes, of this node.
    pub concentrated: Vec<ConcentratedAccess>,
    /// Listeners beyond this machine. Empty: there are none.
    pub exposed: &'a str,
    /// Names of the members with which plain connections last while they may be encrypted.
    pub plain_peers: &'a [String],
    /// Warnings about the files of TLS.
    pub tls: Vec<TlsWarning>,
    /// Last refusal of a client, while it is recent.
    pub refusal: Option<String>,
    /// Cause for which the audit log can't be written.
    pub audit_failure: Option<Arc<str>>,
}

impl AlarmInput<'_> {
    /// Returns what was found, in no order.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let (own, name) = self.own;
        let mut all = Vec::new();
        match &self.failure {
            Some(error) => {
                all.push(Finding::new(AlarmCode::NodeFailed, name, error.to_string()));
            }
            None => all.extend(readiness::findings(self.unreached)),
        }
        all.extend(self.disk_findings());
        all.extend(self.groups.iter().flat_map(group_findings));
        all.extend(member_findings(self.cluster, own, name));
        all.extend(lagging_members(self.groups, self.cluster, own));
        all.extend(self.cluster.groups.iter().filter_map(|place| {
            let voters = place.members.iter().filter(|member| member.part.can_vote()).count();
            let subject = format!("group {}", place.group);
            (voters == 2).then(|| Finding::new(AlarmCode::TwoVoters, &subject, ""))
        }));
        all.extend(
            self.available.hints.iter().filter(|hints| hints.age_ms >= HINTS_OLD_MS).map(|hints| {
                Finding::new(AlarmCode::HintsOld, &hints.node, format_ms(hints.age_ms))
            }),
        );
        all.extend(
            self.older_members
                .iter()
                .map(|(member, lacks)| Finding::new(AlarmCode::LevelMixed, member, lacks.clone())),
        );
        all.extend(self.late_tasks.iter().map(stalled));
        all.extend(self.concentrated.iter().map(concentrated));
        all.extend(self.store_lag.finding());
        all.extend(
            self.tls.iter().map(|warning| {
                Finding::new(warning.code, &warning.subject, warning.detail.clone())
            }),
        );
        all.extend(self.own_findings());
        all
    }

    /// Returns what is wrong with the disk and the log on it.
    fn disk_findings(&self) -> impl Iterator<Item = Finding> {
        let DiskHealth { space, metrics, .. } = self.disk;
        let full = space
            .is_full()
            .then(|| Finding::new(AlarmCode::DiskFull, "disk", space.shortage_text()));
        let hangs = self.hangs_ms.map(|hangs_ms| {
            let detail = format!("a write to the log has not completed for {} s", hangs_ms / 1_000);
            Finding::new(AlarmCode::DiskHangs, "log", detail)
        });
        let slow = metrics.is_slow().then(|| {
            let detail = format!("a sync of the log takes {} ms", metrics.sync_mean_us() / 1_000);
            Finding::new(AlarmCode::DiskSlow, "log", detail)
        });
        let fills = space.is_nearly_full().then(|| {
            let (free, reserve) = (space.free_bytes() >> 20, space.reserve_bytes() >> 20);
            let detail = format!("{free} MiB are free, and writes are refused below {reserve} MiB");
            Finding::new(AlarmCode::DiskFilling, "disk", detail)
        });
        let (bytes, bytes_max) = self.log_bytes;
        let held = (bytes > bytes_max).then(|| {
            let (size, limit) = (bytes >> 20, bytes_max >> 20);
            let detail = format!("it has {size} MiB, more than `log_bytes_max` ({limit} MiB)");
            Finding::new(AlarmCode::LogHeld, "log", detail).lasting(LOG_HELD_MS)
        });
        [full, hangs, slow, fills, held].into_iter().flatten()
    }

    /// Returns what concerns this node as a whole.
    fn own_findings(&self) -> impl Iterator<Item = Finding> {
        let siblings = self.has_many_siblings;
        let siblings =
            siblings.then(|| Finding::new(AlarmCode::SiblingsMany, "available buckets", ""));
        let unsynced = self.unsynced_ms.map(|unsynced_ms| {
            let subject = "buckets with sync=interval";
            Finding::new(AlarmCode::UnsyncedWrites, subject, format!("{unsynced_ms} ms"))
        });
        let jump = self.clock_jump_ms.map(|jump_ms| {
            let sign = if jump_ms < 0 { "-" } else { "+" };
            let detail = format!("{sign}{}", format_ms(jump_ms.unsigned_abs()));
            Finding::new(AlarmCode::ClockJump, "wall clock", detail)
        });
        let exposed = (!self.exposed.is_empty())
            .then(|| Finding::new(AlarmCode::Exposed, "listeners", self.exposed));
        let plain = self.plain_peers.join(", ");
        let plain = (!plain.is_empty()).then(|| Finding::new(AlarmCode::PeersPlain, &plain, ""));
        let refusal = self.refusal.as_ref();
        let refusal =
            refusal.map(|text| Finding::new(AlarmCode::ClientsRefused, "clients", text.clone()));
        let audit = self.audit_failure.as_deref();
        let audit = audit.map(|cause| Finding::new(AlarmCode::AuditFailed, "audit log", cause));
        [siblings, unsynced, jump, exposed, plain, refusal, audit].into_iter().flatten()
    }
}

/// Returns the finding of a task that stands still, with what waits for it.
fn stalled(beat: &BeatStatus) -> Finding {
    let consequence = match beat.name.as_str() {
        "threads: log writer" => "every write of this node waits for it",
        "loops: housekeeper" => {
            "it holds the flush of the store and the truncation of the log, and watches the disk"
        }
        "loops: merger" | "loops: small merger" => "it holds the compaction of the store",
        "available: vnodes" => "every write of available buckets on this node waits for it",
        name if name.starts_with("groups: ") => "writes and elections of the group wait for it",
        name if name.starts_with("peers: peer ") => "the connection with that member waits for it",
        name if name.starts_with("front-ends: ") => "new clients wait for it",
        _ => "its work waits",
    };
    let (activity, duration) = (beat.activity_text(), format_ms(beat.unchanged_ms));
    let detail = format!("it {activity} for {duration} without a beat; {consequence}");
    Finding::new(AlarmCode::Stalled, &beat.name, detail)
}

/// Returns the finding of a key that takes most accesses. The key is data, and no part of it.
fn concentrated(found: &ConcentratedAccess) -> Finding {
    let ConcentratedAccess { bucket, access, share, per_second } = found;
    let (percent, bucket) = (share * 100.0, bucket.full());
    let detail = format!("{percent:.0} % of them, {per_second:.0} a second, in bucket `{bucket}`");
    Finding::new(AlarmCode::HotKey, access.name(), detail).lasting(HOT_KEY_MS)
}

/// Returns what is wrong with a group.
fn group_findings(group: &GroupStatus) -> impl Iterator<Item = Finding> {
    let subject = format!("group {}", group.id);
    let found = |code, detail: &str| Finding::new(code, &subject, detail);
    let torn = group.torn.as_ref().map(|text| found(AlarmCode::LogTorn, text));
    let witness = group.waits_for_witness.as_ref().map(|text| found(AlarmCode::WitnessFull, text));
    let ballots = group.lacks_ballots.then(|| found(AlarmCode::BallotsUsed, ""));
    let unsound = group.unsound.as_ref();
    let unsound =
        unsound.map(|member| Finding::new(AlarmCode::MemberUnsound, member, subject.clone()));
    let differences = group.comparison.iter().flat_map(|found| &found.differences);
    let mut differences = differences.map(|difference| difference.text.as_str());
    let differing = differences.next().map(|first| {
        let detail = match differences.count() {
            0 => first.to_string(),
            more => format!("{first}; and {more} more key ranges"),
        };
        found(AlarmCode::ReplicasDiffer, &detail)
    });
    [torn, witness, ballots, unsound, differing].into_iter().flatten()
}

/// Returns the members that are not reached, or that this node is no member.
fn member_findings(cluster: &ClusterStatus, own: NodeId, name: &str) -> Vec<Finding> {
    let own_member = cluster.members.iter().find(|member| member.member.node == own);
    let leaving =
        own_member.is_some_and(|own_member| own_member.member.membership == Membership::Leaving);
    if leaving || own_member.is_none() && !cluster.members.is_empty() {
        return vec![Finding::new(AlarmCode::NotMember, name, "")];
    }
    // A leaving member may be stopped.
    let is_staying = |member: &&MemberStatus| member.member.membership != Membership::Leaving;
    let missing = cluster.members.iter().filter(|member| !member.connected);
    missing.filter(is_staying).map(absent).collect()
}

fn absent(member: &MemberStatus) -> Finding {
    let duration =
        member.unreachable_ms.map(|ms| format!(", for {}", format_ms(ms))).unwrap_or_default();
    let cause = member.connection_error.as_deref().unwrap_or("no connection yet");
    let cause = cause.strip_prefix("not reached: ").unwrap_or(cause);
    let detail = format!("{}{duration}: {cause}", member.member.node);
    Finding::new(AlarmCode::MemberDown, &member.member.name, detail)
}

/// Returns the connected members that lag in a group that this node leads.
fn lagging_members(groups: &[GroupStatus], cluster: &ClusterStatus, own: NodeId) -> Vec<Finding> {
    let is_connected = |node: NodeId| {
        let mut members = cluster.members.iter();
        members.any(|member| member.member.node == node && member.connected)
    };
    let mut all = Vec::new();
    for group in groups.iter().filter(|group| group.role == "master") {
        let index_of = |node: NodeId| {
            let member = group.members.iter().find(|member| member.node == node);
            member.and_then(|member| member.match_index)
        };
        let Some(LogIndex(last)) = index_of(own) else { continue };
        for member in group.members.iter().filter(|member| member.node != own) {
            let Some(LogIndex(saved)) = member.match_index else { continue };
            let missing = last.saturating_sub(saved);
            if missing > BEHIND_ENTRIES && is_connected(member.node) {
                let detail = format!("{missing} entries of group {}", group.id);
                let found = Finding::new(AlarmCode::MemberBehind, &member.name, detail);
                all.push(found.lasting(BEHIND_MS));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
