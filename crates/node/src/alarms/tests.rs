//! Tests of the causes of alarms: each code is provoked, and cleared.

use super::*;
use crate::alarm_register::AlarmRegister;
use crate::cluster::{PartStatus, PlaceStatus};
use crate::readiness::{Cause, UnreachableNode};
use base::{BucketName, GroupId, MemberDescription, Part, Reason};
use dynamo::HintsStatus;
use replica_state::comparison::{ComparisonStatus, DifferenceStatus};
use runtime::Activity;
use runtime::disk_space::DiskFigures;
use runtime::log_writer::LogWriterHandle;
use runtime::world;
use std::sync::Arc;
use usage::KeyAccess;

const OWN: NodeId = NodeId(1);

/// State of a node, from which alarms are derived.
struct TestState {
    failure: Option<Error>,
    unreached: Vec<Unreached>,
    groups: Vec<GroupStatus>,
    cluster: ClusterStatus,
    available: AvailableStatus,
    disk: DiskHealth,
    hangs_ms: Option<u64>,
    log_bytes: u64,
    store_lag: StoreLag,
    has_many_siblings: bool,
    unsynced_ms: Option<u64>,
    older_members: Vec<(String, String)>,
    clock_jump_ms: Option<i64>,
    late_tasks: Vec<BeatStatus>,
    concentrated: Vec<ConcentratedAccess>,
    exposed: String,
    plain_peers: Vec<String>,
    tls: Vec<TlsWarning>,
    refusal: Option<String>,
    audit_failure: Option<Arc<str>>,
}

impl TestState {
    /// State of a node whose two fellow members are up.
    fn sound() -> TestState {
        let members = (1..=3).map(|node| member(node, true, Membership::Member)).collect();
        TestState {
            failure: None,
            unreached: Vec::new(),
            groups: vec![group()],
            cluster: ClusterStatus { members, ..ClusterStatus::default() },
            available: AvailableStatus::default(),
            disk: DiskHealth {
                log_writer: LogWriterHandle::new(),
                metrics: Arc::default(),
                space: Arc::default(),
                lease_ms: 600,
            },
            hangs_ms: None,
            log_bytes: 0,
            store_lag: StoreLag::None,
            has_many_siblings: false,
            unsynced_ms: None,
            older_members: Vec::new(),
            clock_jump_ms: None,
            late_tasks: Vec::new(),
            concentrated: Vec::new(),
            exposed: String::new(),
            plain_peers: Vec::new(),
            tls: Vec::new(),
            refusal: None,
            audit_failure: None,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let input = AlarmInput {
            failure: self.failure.clone(),
            unreached: &self.unreached,
            groups: &self.groups,
            cluster: &self.cluster,
            available: &self.available,
            own: (OWN, "n1"),
            disk: &self.disk,
            hangs_ms: self.hangs_ms,
            log_bytes: (self.log_bytes, 1 << 30),
            store_lag: self.store_lag,
            has_many_siblings: self.has_many_siblings,
            unsynced_ms: self.unsynced_ms,
            older_members: &self.older_members,
            clock_jump_ms: self.clock_jump_ms,
            late_tasks: &self.late_tasks,
            concentrated: self.concentrated.clone(),
            exposed: &self.exposed,
            plain_peers: &self.plain_peers,
            tls: self.tls.clone(),
            refusal: self.refusal.clone(),
            audit_failure: self.audit_failure.clone(),
        };
        input.findings()
    }
}

fn group() -> GroupStatus {
    let parts = (1..=3).map(|node| part(node, 5_000)).collect();
    GroupStatus { id: GroupId(1), role: "master", members: parts, ..GroupStatus::default() }
}

fn part(node: u64, saved: u64) -> PartStatus {
    PartStatus {
        node: NodeId(node),
        name: format!("n{node}"),
        part: Part::Voter,
        match_index: Some(LogIndex(saved)),
    }
}

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
        level: None,
    }
}

fn place(voters: u64) -> PlaceStatus {
    PlaceStatus {
        group: GroupId(1),
        local: true,
        master: None,
        desired: Vec::new(),
        members: (1..=voters).map(|node| part(node, 0)).collect(),
        quorums: (2, 2),
        plan: Vec::new(),
        waits_for: Vec::new(),
        expect_progress_possible: false,
        comparison: None,
    }
}

/// Checks that a change of the sound state raises this alarm alone, with this subject and text, and
/// that the sound state clears it.
fn must_raise(code: AlarmCode, subject: &str, text: &str, change: impl Fn(&mut TestState)) {
    let register = AlarmRegister::default();
    let update = |state: &TestState, seconds: u64| {
        world::set_time(Some(seconds * 1_000_000_000));
        let alarms = register.update(state.findings());
        world::set_time(None);
        alarms
    };
    assert_eq!(update(&TestState::sound(), 1), [], "{code:?}");
    let mut state = TestState::sound();
    change(&mut state);
    update(&state, 2);
    // Longer than any cause must last.
    let alarms = update(&state, 120);
    let found: Vec<_> = alarms.iter().map(|alarm| (alarm.code, alarm.subject.as_str())).collect();
    assert_eq!(found, [(code, subject)], "{alarms:?}");
    assert!(alarms[0].text.contains(text), "{}", alarms[0].text);
    assert_eq!(alarms[0].since_ms, 2_000);
    assert_eq!(update(&TestState::sound(), 130), [], "{code:?}");
}

#[test]
fn node_and_group_alarms_are_raised_and_cleared() {
    must_raise(AlarmCode::NodeFailed, "n1", "has failed", |state| {
        state.failure = Some(Error::new(Reason::StoreFailed, "fdatasync"));
    });
    must_raise(AlarmCode::NoQuorum, "group 1", "no majority for group 1: n2 not", |state| {
        let missing = vec![UnreachableNode { name: "n2".into(), unreachable_ms: Some(3_000) }];
        let cause = Cause::Quorum { needed: 2, voters: 3, missing };
        state.unreached = vec![Unreached { group: GroupId(1), cause }];
    });
    must_raise(AlarmCode::Stalled, "loops: merger", "it works for 11 s without", |state| {
        let (name, activity) = ("loops: merger".into(), Activity::Works);
        let late = BeatStatus {
            name,
            activity,
            place: None,
            unchanged_ms: 11_000,
            is_late: true,
            late_ms: 1_000,
        };
        state.late_tasks = vec![late];
    });
    must_raise(AlarmCode::Stalled, "loops: counts", "it waits for a reply for 60 s", |state| {
        let (name, activity) = ("loops: counts".into(), Activity::Waits);
        let place = Some("a reply");
        let late = BeatStatus {
            name,
            activity,
            place,
            unchanged_ms: 60_000,
            is_late: true,
            late_ms: 1_000,
        };
        state.late_tasks = vec![late];
    });
    must_raise(AlarmCode::LogTorn, "group 1", "a log was torn", |state| {
        state.groups[0].torn = Some("a log was torn".into());
        let cause = Cause::Torn("a log was torn".into());
        state.unreached = vec![Unreached { group: GroupId(1), cause }];
    });
    must_raise(AlarmCode::WitnessFull, "group 1", "the witness w", |state| {
        state.groups[0].waits_for_witness = Some("the witness w has no room".into());
    });
    must_raise(AlarmCode::BallotsUsed, "group 1", "elected master of group 1", |state| {
        state.groups[0].lacks_ballots = true;
    });
    must_raise(AlarmCode::MemberUnsound, "n3", "for group 1 that violate", |state| {
        state.groups[0].unsound = Some("n3".into());
    });
    must_raise(AlarmCode::ReplicasDiffer, "group 1", "k2; and 1 more", |state| {
        let difference = |text: &str| DifferenceStatus {
            bucket: None,
            from: String::new(),
            upto: String::new(),
            agreeing: Vec::new(),
            text: text.into(),
        };
        let found = ComparisonStatus {
            differences: vec![difference("keys to k2"), difference("keys to k9")],
            ..ComparisonStatus::default()
        };
        state.groups[0].comparison = Some(found);
    });
    must_raise(AlarmCode::TwoVoters, "group 1", "group 1 has two voters", |state| {
        state.cluster.groups = vec![place(2)];
    });
}

#[test]
fn member_alarms_are_raised_and_cleared() {
    let text = "n2 is not reached (0000000000000002, for 12 s: Connection refused)";
    must_raise(AlarmCode::MemberDown, "n2", text, |state| {
        state.cluster.members[1] = member(2, false, Membership::Member);
    });
    must_raise(AlarmCode::NotMember, "n1", "this node was removed", |state| {
        state.cluster.members.remove(0);
    });
    must_raise(AlarmCode::MemberBehind, "n3", "by 1001 entries of group 1", |state| {
        state.groups[0].members[2] = part(3, 5_000 - BEHIND_ENTRIES - 1);
    });
    must_raise(AlarmCode::HintsOld, "n2", "n2 have been waiting here for 60 min", |state| {
        let hints = HintsStatus { node: "n2".into(), rows: 3, age_ms: HINTS_OLD_MS };
        state.available.hints = vec![hints];
    });
    must_raise(AlarmCode::LevelMixed, "n2", "its highest feature level is 1", |state| {
        let lacks = "its highest feature level is 1".into();
        state.older_members = vec![("n2".into(), lacks)];
    });
}

#[test]
fn disk_alarms_are_raised_and_cleared() {
    let figures = |free_bytes| DiskFigures { free_bytes, total_bytes: 1 << 40, files: None };
    must_raise(AlarmCode::DiskFull, "disk", "writes are refused", |state| {
        state.disk.space.update(&figures(1 << 20), 64 << 20, false);
    });
    must_raise(AlarmCode::DiskFilling, "disk", "100 MiB are free", |state| {
        state.disk.space.update(&figures(100 << 20), 64 << 20, false);
    });
    must_raise(AlarmCode::DiskSlow, "log", "takes 70 ms", |state| {
        (0..200).for_each(|_| state.disk.metrics.record_sync(70_900, 1));
    });
    must_raise(AlarmCode::DiskHangs, "log", "the disk hangs", |state| {
        state.hangs_ms = Some(3_000);
    });
    must_raise(AlarmCode::LogHeld, "log", "it has 1025 MiB", |state| {
        state.log_bytes = 1_025 << 20;
    });
}

#[test]
fn store_alarms_are_raised_and_cleared() {
    let store = StoreStatus { runs: 60, merge_debt_bytes: 900 << 20, ..Default::default() };
    let pressure = Pressure { active_bytes_max: 1 << 20, runs: 10, ..Pressure::default() };
    assert_eq!(StoreLag::of(&pressure, &store), StoreLag::None);
    let slow = StoreLag::of(&Pressure { runs: 60, ..pressure }, &store);
    let text = "60 runs of files, and 900 MiB are to be merged";
    must_raise(AlarmCode::WritesSlowed, "store", text, |state| state.store_lag = slow);
    let pressure = Pressure { lacks_merge_space: true, runs: 60, ..pressure };
    let space = StoreLag::of(&pressure, &store);
    let text = "merges of the store wait for free space";
    must_raise(AlarmCode::MergesWait, "store", text, |state| state.store_lag = space);
    let full = StoreLag::of(&Pressure { sealed_tables: 9, ..pressure }, &store);
    let text = "writes wait for memory";
    must_raise(AlarmCode::WritesWait, "store", text, |state| state.store_lag = full);
}

#[test]
fn tls_alarms_are_raised_and_cleared() {
    let warning = |code, subject: &str, detail: &str| TlsWarning {
        code,
        subject: subject.into(),
        detail: detail.into(),
    };
    let (files, own) = ("files of TLS", "this node's certificate");
    must_raise(AlarmCode::TlsReloadFailed, files, "in force: node.crt", |state| {
        state.tls = vec![warning(AlarmCode::TlsReloadFailed, files, "node.crt")];
    });
    must_raise(AlarmCode::TlsExpires, own, "certificate expires in 3 days", |state| {
        state.tls = vec![warning(AlarmCode::TlsExpires, own, "expires in 3 days")];
    });
    must_raise(AlarmCode::PeersPlain, "n2, n3", "connections to n2, n3 are", |state| {
        state.plain_peers = vec!["n2".into(), "n3".into()];
    });
}

#[test]
fn alarms_of_buckets_clock_and_listeners_are_raised_and_cleared() {
    must_raise(AlarmCode::HotKey, "reads", "73 % of them, 12000 a second, in", |state| {
        let (bucket, access) = (BucketName::default(), KeyAccess::Read);
        state.concentrated =
            vec![ConcentratedAccess { bucket, access, share: 0.73, per_second: 12_000.0 }];
    });
    must_raise(AlarmCode::SiblingsMany, "available buckets", "many siblings", |state| {
        state.has_many_siblings = true;
    });
    must_raise(AlarmCode::UnsyncedWrites, "buckets with sync=interval", "1000 ms", |state| {
        state.unsynced_ms = Some(1_000);
    });
    must_raise(AlarmCode::ClockJump, "wall clock", "jumped by -60 s", |state| {
        state.clock_jump_ms = Some(-60_000);
    });
    must_raise(AlarmCode::Exposed, "listeners", "without encryption or login: 0.0.0.0", |state| {
        state.exposed = "0.0.0.0:7711 (clients)".into();
    });
    must_raise(AlarmCode::ClientsRefused, "clients", "a connection is refused", |state| {
        state.refusal = Some("a connection is refused".into());
    });
    must_raise(AlarmCode::AuditFailed, "audit log", "can't be written: audit: full", |state| {
        state.audit_failure = Some("audit: full".into());
    });
}

#[test]
fn short_lag_and_absence_of_a_leaving_member_are_no_alarms() {
    let mut state = TestState::sound();
    state.groups[0].members[2] = part(3, 0);
    state.cluster.members[1] = member(2, false, Membership::Leaving);
    let register = AlarmRegister::default();
    assert_eq!(register.update(state.findings()), []);
    // A member that is down is no member that lags.
    state.cluster.members[2] = member(3, false, Membership::Member);
    let codes: Vec<_> = state.findings().iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [AlarmCode::MemberDown]);
}
