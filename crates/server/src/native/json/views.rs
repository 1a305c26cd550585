//! Answers with the node's views of itself and of the cluster.

use base::LogIndex;
use node::{DifferenceStatus, PartStatus};

/// Returns the cluster as this node sees it, with the alarms of its status.
pub fn cluster(view: &node::ClusterStatus, alarms: Vec<api::Alarm>) -> api::ClusterStatus {
    api::ClusterStatus {
        cluster: view.cluster.into(),
        founder: view.founder.into(),
        lease_ms: view.lease_ms,
        changes: view.changes,
        level: view.level.0,
        name: view.name.clone(),
        members: view.members.iter().map(member).collect(),
        groups: view.groups.iter().map(placement).collect(),
        alarms,
    }
}

/// Returns a member, with the state of this node's connection to it.
fn member(view: &node::MemberStatus) -> api::MemberStatus {
    let api::MemberReply { node, name, peer, client, incarnation, membership } =
        (&view.member).into();
    api::MemberStatus {
        node,
        name,
        peer,
        client,
        incarnation,
        membership,
        connected: view.connected,
        last_heard_ms_ago: view.last_heard_ms_ago,
        unreachable_ms: view.unreachable_ms,
        rtt_us: view.rtt_us,
        connection_error: view.connection_error.clone(),
        health: view.health.into(),
        hints: view.hints,
        level: view.level.map(|level| level.0),
    }
}

fn parts(members: &[PartStatus]) -> Vec<api::GroupMember> {
    let to_api = |member: &PartStatus| api::GroupMember {
        node: member.node.into(),
        name: member.name.clone(),
        part: member.part,
        match_index: member.match_index.map(|LogIndex(index)| index),
    };
    members.iter().map(to_api).collect()
}

fn placement(placement: &node::PlaceStatus) -> api::PlaceStatus {
    let (save, elect) = placement.quorums;
    api::PlaceStatus {
        group: placement.group.0,
        local: placement.local,
        master: placement.master.clone(),
        desired: parts(&placement.desired),
        members: parts(&placement.members),
        quorum: (save > 0).then_some(save as u64),
        quorum_elects: (elect > 0).then_some(elect as u64),
        plan: placement.plan.clone(),
        waits_for: placement.waits_for.clone(),
        expect_progress_possible: placement.expect_progress_possible,
        comparison: placement.comparison.as_ref().map(comparison),
    }
}

fn comparison(view: &node::ComparisonStatus) -> api::Comparison {
    let compared =
        |(name, rows): &(String, u64)| api::ComparedReplica { name: name.clone(), rows: *rows };
    let difference = |status: &DifferenceStatus| {
        let DifferenceStatus { bucket, from, upto, agreeing, text } = status.clone();
        api::Difference { bucket, from, upto, agreeing, text }
    };
    api::Comparison {
        running: view.running,
        passes: view.passes,
        error: view.error.clone(),
        ended_ms_ago: view.ended_ms_ago,
        rows: view.rows,
        bytes: view.bytes,
        replicas: view.replicas.iter().map(compared).collect(),
        differences: view.differences.iter().map(difference).collect(),
    }
}

/// Returns the node's own part of its status. The listeners add their figures.
pub fn status(view: &node::Status) -> api::NodeStatus {
    let node::DiskStatus { total_bytes, free_bytes, free_files, full } = view.disk;
    api::NodeStatus {
        name: view.name.clone(),
        node: view.node.into(),
        cluster: view.cluster.into(),
        incarnation: view.incarnation,
        version: view.version.into(),
        uptime_ms: view.uptime_ms,
        groups: view.groups.iter().map(group).collect(),
        snapshots: view.snapshots.iter().map(snapshot).collect(),
        log: log(&view.log),
        store: store(&view.store),
        disk: api::DiskStatus { total_bytes, free_bytes, free_files, full },
        memory: api::MemoryStatus { resident_bytes: view.resident_bytes },
        available: available(&view.available),
        lease_ms: view.lease_ms,
        members: view.members.iter().map(member).collect(),
        buckets: view.buckets as u64,
        interval_buckets: view.interval_buckets.clone(),
        alarms: view.alarms.iter().map(api::Alarm::from).collect(),
        beats: view.beats.iter().map(beat).collect(),
        ..api::NodeStatus::default()
    }
}

fn beat(beat: &node::BeatStatus) -> api::TaskBeat {
    api::TaskBeat {
        name: beat.name.clone(),
        activity: beat.activity.name().into(),
        waits_for: beat.place.map(Into::into),
        unchanged_ms: beat.unchanged_ms,
        stalled: beat.is_late,
    }
}

fn group(group: &node::GroupStatus) -> api::GroupStatus {
    api::GroupStatus {
        id: group.id.0,
        role: group.role.into(),
        master: group.master.clone(),
        ballot: group.ballot.to_string(),
        decided: group.decided.0,
        applied: group.applied.0,
        flushed: group.flushed.0,
        undecided: group.undecided,
        sessions: group.sessions,
        expect_progress_possible: group.expect_progress_possible,
        members: parts(&group.members),
        comparison: group.comparison.as_ref().map(comparison),
    }
}

fn store(store: &node::StoreStatus) -> api::StoreStatus {
    api::StoreStatus {
        disk_bytes: store.disk_bytes,
        memory_bytes: store.memory_bytes,
        cached_rows: store.cached_rows,
        cached_bytes: store.cached_bytes,
        rows_estimated: store.rows_estimated,
        runs: store.runs,
        unmerged_runs: store.unmerged_runs,
        merge_debt_bytes: store.merge_debt_bytes,
        write_slowdown_permille: store.write_slowdown_permille,
        writes_waited_ms: store.writes_waited_ms,
    }
}

fn snapshot(snapshot: &node::SnapshotStatus) -> api::SnapshotStatus {
    api::SnapshotStatus {
        group: snapshot.group.0,
        from: snapshot.from.into(),
        last_index: snapshot.last_index.0,
        rows: snapshot.rows,
        rows_estimated: snapshot.rows_estimated,
        bytes: snapshot.bytes,
        bytes_per_second: snapshot.bytes_per_second,
        eta_ms: snapshot.eta_ms,
        resumes: snapshot.resumes,
        restarts: snapshot.restarts,
    }
}

fn log(log: &node::LogStatus) -> api::LogStatus {
    api::LogStatus {
        bytes: log.bytes,
        segments: log.segments,
        syncs: log.syncs,
        sync_us_p50: log.sync_us_p50,
        sync_us_p99: log.sync_us_p99,
        sync_us_mean: log.sync_us_mean,
        slow: log.slow,
        hangs: log.hangs,
        unanswered_ms: log.unanswered_ms,
    }
}

fn available(view: &node::AvailableStatus) -> api::AvailableStatus {
    let hints = |status: &node::HintsStatus| api::HintsStatus {
        node: status.node.clone(),
        rows: status.rows,
        age_ms: status.age_ms,
    };
    api::AvailableStatus {
        ring_epoch: view.ring_epoch,
        partitions: view.partitions,
        suspected_nodes: view.suspected_nodes.clone(),
        hints: view.hints.iter().map(hints).collect(),
    }
}
