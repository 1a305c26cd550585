//! Acts of operators that are no requests: they concern one node, or its view of the cluster.

use super::need::Need;
use crate::access::Verb;

/// Act of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operate {
    /// Reads the node's status.
    ShowStatus,
    /// Reads the node's metrics.
    ShowMetrics,
    /// Reads members and groups as the node sees them, with their masters' reports.
    ShowCluster,
    /// Reads the progress of a bucket's move.
    ShowMove,
    /// Reads figures of the cluster, the machine and the process in a protocol's statistics.
    ShowStatistics,
    /// Lists the connections of other clients.
    ListClients,
    /// Lists checkpoints.
    ListCheckpoints,
    /// Reads log levels.
    ShowLogLevels,
    /// Reads the slow log.
    ShowSlowRequests,
    /// Lists hot keys; the keys themselves are shown to those who may read them.
    ShowHotKeys,
    /// Closes connections of other clients.
    EndClients,
    /// Resets counters.
    ResetCounts,
    /// Removes the entries of the slow log.
    ClearSlowRequests,
    /// Reads the node's settings again.
    Reload,
    /// Takes a checkpoint.
    MakeCheckpoint,
    /// Removes a checkpoint.
    RemoveCheckpoint,
    /// Changes log levels.
    SetLogLevels,
    /// Compares the replicas of a group.
    CompareReplicas,
    /// Transfers the mastership of a group.
    TransferMaster,
    /// Reads a decided entry of a group's log, whatever its buckets.
    ReadLogEntry,
    /// Reads users, roles and tokens, and which grant decides.
    ShowAccess,
    /// Changes users, roles, tokens or the switch of access: calls to the directory follow.
    ChangeAccess,
}

impl Operate {
    /// All acts.
    pub const ALL: [Operate; 22] = [
        Operate::ShowStatus,
        Operate::ShowMetrics,
        Operate::ShowCluster,
        Operate::ShowMove,
        Operate::ShowStatistics,
        Operate::ListClients,
        Operate::ListCheckpoints,
        Operate::ShowLogLevels,
        Operate::ShowSlowRequests,
        Operate::ShowHotKeys,
        Operate::EndClients,
        Operate::ResetCounts,
        Operate::ClearSlowRequests,
        Operate::Reload,
        Operate::MakeCheckpoint,
        Operate::RemoveCheckpoint,
        Operate::SetLogLevels,
        Operate::CompareReplicas,
        Operate::TransferMaster,
        Operate::ReadLogEntry,
        Operate::ShowAccess,
        Operate::ChangeAccess,
    ];

    /// Returns what the act needs.
    pub fn needs(self) -> Need<'static> {
        Need::Cluster(match self {
            Operate::ShowStatus
            | Operate::ShowMetrics
            | Operate::ShowCluster
            | Operate::ShowMove
            | Operate::ShowStatistics
            | Operate::ListClients
            | Operate::ListCheckpoints
            | Operate::ShowLogLevels
            | Operate::ShowSlowRequests
            | Operate::ShowHotKeys => Verb::Watch,
            Operate::EndClients
            | Operate::ResetCounts
            | Operate::ClearSlowRequests
            | Operate::Reload
            | Operate::MakeCheckpoint
            | Operate::RemoveCheckpoint
            | Operate::SetLogLevels
            | Operate::CompareReplicas => Verb::Operate,
            Operate::TransferMaster => Verb::Place,
            Operate::ReadLogEntry | Operate::ShowAccess | Operate::ChangeAccess => Verb::Secure,
        })
    }
}
