//! Names of operations for the audit log, what they are about, and which of them it records.

use super::need::Need;
use super::operate::Operate;
use crate::access::{AccessCall, Verb};
use crate::{
    AvailableCall, Call, ClusterCall, DirectoryCall, Read, Request, RingCall, SessionCall, Update,
};

/// Class of an operation in the audit log, by the verbs that it needs. A later one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditClass {
    /// Reads of status, members and lists of buckets; work of members. Not recorded.
    View,
    /// Reads of keys. Recorded if the bucket's properties say so.
    Read,
    /// Changes of keys. Recorded if the bucket's properties say so.
    Write,
    /// Acts that need `own`, `operate` or `place`, and what a join token allows. Recorded.
    Act,
    /// Acts that need `secure`. Recorded before they are done.
    Secure,
}

impl AuditClass {
    fn of(need: &Need<'_>) -> AuditClass {
        match need.verb() {
            Some(Verb::Watch) | None => AuditClass::View,
            Some(Verb::Read | Verb::List | Verb::Call) => AuditClass::Read,
            Some(Verb::Write) => AuditClass::Write,
            Some(Verb::Own | Verb::Operate | Verb::Place) => AuditClass::Act,
            Some(Verb::Secure) => AuditClass::Secure,
        }
    }
}

impl Request {
    /// Returns the class of the request.
    pub fn audit_class(&self) -> AuditClass {
        let mut class = AuditClass::View;
        // The visitor never fails.
        let _ = self.needs(&mut |need| {
            class = class.max(AuditClass::of(&need));
            Ok(())
        });
        match &self.call {
            Call::Directory(DirectoryCall::Cluster(ClusterCall::WithToken { .. })) => {
                AuditClass::Act
            }
            // Descriptions and lists of buckets.
            Call::Directory(_) if class < AuditClass::Act => AuditClass::View,
            _ => class,
        }
    }

    /// Returns the scope of the request: `cluster`, `TYPE/*` or `TYPE/BUCKET`.
    pub fn audit_scope(&self) -> String {
        let mut scope = None;
        // The first need tells it.
        let _ = self.needs(&mut |need| {
            scope.get_or_insert_with(|| need.scope());
            Ok(())
        });
        scope.unwrap_or_else(|| "cluster".into())
    }

    /// Returns the name of the request's operation.
    pub fn operation_name(&self) -> &'static str {
        match &self.call {
            Call::Read(read, _) => read_name(read),
            Call::Update(update) => update_name(update),
            Call::Directory(call) => directory_name(call),
            Call::Session(SessionCall::Open) => "open_session",
            Call::Session(SessionCall::Close(_)) => "close_session",
            Call::Available(call) => available_name(call),
        }
    }
}

impl Operate {
    /// Returns the name of the act.
    pub fn operation_name(self) -> &'static str {
        match self {
            Operate::ShowStatus => "show_status",
            Operate::ShowMetrics => "show_metrics",
            Operate::ShowCluster => "show_cluster",
            Operate::ShowMove => "show_move",
            Operate::ShowStatistics => "show_statistics",
            Operate::ListClients => "list_clients",
            Operate::ListCheckpoints => "list_checkpoints",
            Operate::ShowLogLevels => "show_log_levels",
            Operate::ShowSlowRequests => "show_slow_requests",
            Operate::ShowHotKeys => "show_hot_keys",
            Operate::EndClients => "end_clients",
            Operate::ResetCounts => "reset_counts",
            Operate::ClearSlowRequests => "clear_slow_requests",
            Operate::Reload => "reload",
            Operate::MakeCheckpoint => "make_checkpoint",
            Operate::RemoveCheckpoint => "remove_checkpoint",
            Operate::SetLogLevels => "set_log_levels",
            Operate::CompareReplicas => "compare_replicas",
            Operate::TransferMaster => "transfer_master",
            Operate::ReadLogEntry => "read_log_entry",
            Operate::ShowAccess => "show_access",
            Operate::ChangeAccess => "change_access",
        }
    }
}

impl DirectoryCall {
    /// Returns the user, role, member, group or setting that the call is about.
    pub fn audit_target(&self) -> Option<String> {
        match self {
            DirectoryCall::MoveBucket { group } => Some(format!("group {group}")),
            DirectoryCall::Cluster(call) => cluster_target(call),
            DirectoryCall::Ring(RingCall::Stage(change)) => Some(change.name().into()),
            DirectoryCall::Ring(RingCall::Commit { epoch: Some(epoch) }) => {
                Some(format!("epoch {epoch}"))
            }
            DirectoryCall::Access(call) => access_target(call),
            _ => None,
        }
    }
}

fn cluster_target(call: &ClusterCall) -> Option<String> {
    match call {
        ClusterCall::AddMember { member, .. } => Some(member.name.clone()),
        ClusterCall::UpdateMember { name, .. }
        | ClusterCall::RemoveMember { name }
        | ClusterCall::ReplaceMember { name, .. }
        | ClusterCall::SetPart { name, .. } => Some(name.clone()),
        ClusterCall::PlaceGroup { group, .. }
        | ClusterCall::SetQuorum { group, .. }
        | ClusterCall::DropGroup { group } => Some(format!("group {group}")),
        ClusterCall::RaiseLevel { level } => Some(format!("level {level}")),
        ClusterCall::WithToken { call, .. } => cluster_target(call),
        ClusterCall::Describe
        | ClusterCall::CreateGroup { .. }
        | ClusterCall::AddToken { .. }
        | ClusterCall::RevokeTokens
        | ClusterCall::MakeSecret => None,
    }
}

fn access_target(call: &AccessCall) -> Option<String> {
    Some(match call {
        AccessCall::Switch { on } => if *on { "on" } else { "off" }.into(),
        AccessCall::Init { .. } => "admin".into(),
        AccessCall::AddUser { name, .. }
        | AccessCall::ChangeUser { name, .. }
        | AccessCall::SetPassword { name, .. }
        | AccessCall::SetQuota { user: name, .. }
        | AccessCall::RemoveUser { name }
        | AccessCall::SetRole { name, .. }
        | AccessCall::RemoveRole { name } => name.clone(),
        AccessCall::AddApiToken { user, label, .. }
        | AccessCall::RevokeApiToken { user, label } => format!("{user}/{label}"),
    })
}

fn read_name(read: &Read) -> &'static str {
    match read {
        Read::Get(_) => "get",
        Read::Exists(_) => "exists",
        Read::MultiGet(_) | Read::MultiGetAll(_) => "multi_get",
        Read::Range(_) => "range",
        Read::KeyCount => "key_count",
        Read::Assert { .. } => "assert",
        Read::AssertExists(_) => "assert_exists",
    }
}

fn update_name(update: &Update) -> &'static str {
    match update {
        Update::Set { .. } => "set",
        Update::SetIf { .. } => "set_if",
        Update::Delete { .. } => "delete",
        Update::TestAndSet { .. } => "test_and_set",
        Update::Replace { .. } => "replace",
        Update::Confirm { .. } => "confirm",
        Update::Assert { .. } => "assert",
        Update::AssertExists { .. } => "assert_exists",
        Update::AssertRange { .. } => "assert_range",
        Update::AssertVersion { .. } => "assert_version",
        Update::DeletePrefix { .. } => "delete_prefix",
        Update::Add { .. } => "add",
        Update::AddFloat { .. } => "add_float",
        Update::Append { .. } => "append",
        Update::SetRange { .. } => "set_range",
        Update::Rename { .. } => "rename",
        Update::Copy { .. } => "copy",
        Update::Expire { .. } => "expire",
        Update::Read(read) => read_name(read),
        Update::Nop => "nop",
        Update::Sequence { .. } => "sequence",
    }
}

fn available_name(call: &AvailableCall) -> &'static str {
    match call {
        AvailableCall::Fetch { .. } => "fetch",
        AvailableCall::Store(_) => "store",
        AvailableCall::Remove { .. } => "remove",
        AvailableCall::FetchType { .. } => "fetch_type",
        AvailableCall::Change(_) => "change",
        AvailableCall::Owners { .. } => "owners",
        AvailableCall::Keys { .. } => "list_keys",
        AvailableCall::Buckets { .. } => "list_buckets",
    }
}

fn directory_name(call: &DirectoryCall) -> &'static str {
    match call {
        DirectoryCall::CreateBucket(_) | DirectoryCall::PlaceBucket { .. } => "create_bucket",
        DirectoryCall::AlterBucket(_) => "alter_bucket",
        DirectoryCall::ResetBucket => "reset_bucket",
        DirectoryCall::DropBucket => "drop_bucket",
        DirectoryCall::ClearBucket => "clear_bucket",
        DirectoryCall::DescribeBucket => "describe_bucket",
        DirectoryCall::ListBuckets { .. } => "list_buckets",
        DirectoryCall::CreateType(_) => "create_type",
        DirectoryCall::AlterType(_) => "alter_type",
        DirectoryCall::DropType => "drop_type",
        DirectoryCall::ListTypes => "list_types",
        DirectoryCall::MoveBucket { .. } => "move_bucket",
        DirectoryCall::CancelMove => "cancel_move",
        DirectoryCall::StepMove { .. } => "step_move",
        DirectoryCall::Cluster(call) => cluster_name(call),
        DirectoryCall::Ring(call) => ring_name(call),
        DirectoryCall::Access(call) => access_name(call),
    }
}

fn cluster_name(call: &ClusterCall) -> &'static str {
    match call {
        ClusterCall::Describe => "describe_cluster",
        ClusterCall::AddMember { .. } => "add_member",
        ClusterCall::UpdateMember { .. } => "update_member",
        ClusterCall::RemoveMember { .. } => "remove_member",
        ClusterCall::ReplaceMember { .. } => "replace_member",
        ClusterCall::SetPart { .. } => "set_part",
        ClusterCall::PlaceGroup { .. } => "place_group",
        ClusterCall::SetQuorum { .. } => "set_quorum",
        ClusterCall::RaiseLevel { .. } => "raise_level",
        ClusterCall::CreateGroup { .. } => "create_group",
        ClusterCall::DropGroup { .. } => "drop_group",
        ClusterCall::WithToken { call, .. } => cluster_name(call),
        ClusterCall::AddToken { .. } => "add_join_token",
        ClusterCall::RevokeTokens => "revoke_join_tokens",
        ClusterCall::MakeSecret => "make_secret",
    }
}

fn ring_name(call: &RingCall) -> &'static str {
    match call {
        RingCall::Describe => "describe_ring",
        RingCall::Plan => "show_ring_plan",
        RingCall::Transfers => "list_ring_transfers",
        RingCall::Claim => "claim_ring",
        RingCall::Stage(_) => "stage_ring_change",
        RingCall::Clear => "clear_ring_plan",
        RingCall::Commit { .. } => "commit_ring_plan",
        RingCall::Cancel => "cancel_ring_change",
        RingCall::Received { .. } => "report_received",
        RingCall::Cleared { .. } => "report_cleared",
    }
}

fn access_name(call: &AccessCall) -> &'static str {
    match call {
        AccessCall::Switch { .. } => "switch_access",
        AccessCall::Init { .. } => "init_access",
        AccessCall::AddUser { .. } => "add_user",
        AccessCall::ChangeUser { .. } => "change_user",
        AccessCall::SetPassword { .. } => "set_password",
        AccessCall::SetQuota { .. } => "set_quota",
        AccessCall::RemoveUser { .. } => "remove_user",
        AccessCall::AddApiToken { .. } => "add_api_token",
        AccessCall::RevokeApiToken { .. } => "revoke_api_token",
        AccessCall::SetRole { .. } => "set_role",
        AccessCall::RemoveRole { .. } => "remove_role",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BucketName, FeatureLevel, ReadLevel, TokenDigest};
    use bytes::Bytes;

    fn request(call: Call) -> Request {
        Request { bucket: BucketName::from_full("logs/web").expect("a name"), call, retry: None }
    }

    fn directory(call: DirectoryCall) -> Request {
        request(Call::Directory(call))
    }

    #[test]
    fn requests_have_the_class_of_their_gravest_need() {
        let token = TokenDigest([1; TokenDigest::BYTES]);
        let describe = Box::new(ClusterCall::Describe);
        let with_token = ClusterCall::WithToken { digest: token, call: describe };
        let raise = ClusterCall::RaiseLevel { level: FeatureLevel::FIRST };
        let key = Bytes::from_static(b"k");
        let get = Read::Get(key.clone());
        for (request, class) in [
            (directory(DirectoryCall::ListTypes), AuditClass::View),
            (directory(DirectoryCall::DescribeBucket), AuditClass::View),
            (directory(DirectoryCall::Cluster(ClusterCall::Describe)), AuditClass::View),
            (directory(DirectoryCall::DropBucket), AuditClass::Act),
            (directory(DirectoryCall::DropType), AuditClass::Act),
            (directory(DirectoryCall::Cluster(raise)), AuditClass::Act),
            (directory(DirectoryCall::Cluster(with_token)), AuditClass::Act),
            (directory(DirectoryCall::Cluster(ClusterCall::RevokeTokens)), AuditClass::Secure),
            (directory(DirectoryCall::Access(AccessCall::Switch { on: true })), AuditClass::Secure),
            (request(Call::Read(get.clone(), ReadLevel::Dirty)), AuditClass::Read),
            (request(Call::Update(Update::Read(get))), AuditClass::Read),
            (request(Call::Update(Update::Replace { key, wanted: None })), AuditClass::Write),
        ] {
            assert_eq!(request.audit_class(), class, "{request:?}");
        }
    }

    #[test]
    fn scope_and_target_name_what_a_call_is_about() {
        let role = AccessCall::RemoveRole { name: "web".into() };
        let revoke = AccessCall::RevokeApiToken { user: "ada".into(), label: "ci".into() };
        let remove = ClusterCall::RemoveMember { name: "n2".into() };
        for (call, operation, scope, target) in [
            (DirectoryCall::ClearBucket, "clear_bucket", "logs/web", None),
            (DirectoryCall::DropType, "drop_type", "logs/*", None),
            (DirectoryCall::Access(role), "remove_role", "cluster", Some("web")),
            (DirectoryCall::Access(revoke), "revoke_api_token", "cluster", Some("ada/ci")),
            (DirectoryCall::Cluster(remove), "remove_member", "cluster", Some("n2")),
        ] {
            assert_eq!(call.audit_target().as_deref(), target);
            let request = directory(call);
            assert_eq!((request.operation_name(), &*request.audit_scope()), (operation, scope));
        }
    }
}
