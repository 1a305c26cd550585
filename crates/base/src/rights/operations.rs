//! Names of operations for the audit log, and what they are about.

use super::operate::Operate;
use crate::access::AccessCall;
use crate::index::IndexCall;
use crate::limits::NAME_BYTES_MAX;
use crate::properties::{Changes, PROPERTIES};
use crate::{
    AvailableCall, Call, ClusterCall, DirectoryCall, Read, Request, RingCall, SessionCall, Update,
};
use std::collections::BTreeMap;

/// Longest value of a property that is written, in bytes: that of any sound one is shorter.
const PROPERTY_TEXT_BYTES_MAX: usize = 32;

impl Request {
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

    /// Returns the names of a sequence's steps with their numbers, those of nested steps too.
    /// Empty: the request is no sequence.
    pub fn step_counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        if let Call::Update(Update::Sequence { steps, .. }) = &self.call {
            count_steps(steps, &mut counts);
        }
        counts
    }
}

/// Counts steps by name. The depth of sequences is bounded where they are decoded and checked.
fn count_steps(steps: &[Update], counts: &mut BTreeMap<&'static str, u64>) {
    for step in steps {
        match step {
            Update::Sequence { steps, .. } => count_steps(steps, counts),
            step => *counts.entry(update_name(step)).or_default() += 1,
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
    /// Returns the user, role, member, group, setting, properties or index that the call is about.
    pub fn audit_target(&self) -> Option<String> {
        match self {
            DirectoryCall::CreateBucket(changes)
            | DirectoryCall::PlaceBucket { changes, .. }
            | DirectoryCall::AlterBucket(changes)
            | DirectoryCall::CreateType(changes)
            | DirectoryCall::AlterType(changes) => changes_target(changes),
            DirectoryCall::MoveBucket { group } => Some(format!("group {group}")),
            DirectoryCall::Cluster(call) => cluster_target(call),
            DirectoryCall::Ring(RingCall::Stage(change)) => Some(change.name().into()),
            DirectoryCall::Ring(RingCall::Commit { epoch: Some(epoch) }) => {
                Some(format!("epoch {epoch}"))
            }
            DirectoryCall::Access(call) => access_target(call),
            DirectoryCall::Index(call) => index_target(call),
            _ => None,
        }
    }
}

/// Returns the changed properties: a client may have sent anything, so only what can be a property
/// is repeated.
fn changes_target(changes: &Changes) -> Option<String> {
    let text = |(name, text): &(String, String)| {
        let property = PROPERTIES.iter().find(|property| property.name == name)?;
        let is_shown = text.len() <= PROPERTY_TEXT_BYTES_MAX;
        Some(format!("{}={}", property.name, if is_shown { text.as_str() } else { "..." }))
    };
    let texts: Vec<_> = changes.iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
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

/// Returns the name of an index, if it can be one: a client may have sent anything.
fn index_target(call: &IndexCall) -> Option<String> {
    let name = match call {
        IndexCall::Create(spec) => &spec.name,
        IndexCall::Drop { name } | IndexCall::Describe { name } => name,
        IndexCall::List | IndexCall::Report(_) => return None,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_shown = name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain);
    Some(format!("index {}", if is_shown { name } else { "..." }))
}

fn read_name(read: &Read) -> &'static str {
    match read {
        Read::Get(_) => "get",
        Read::Exists(_) => "exists",
        Read::MultiGet(_) | Read::MultiGetAll(_) => "multi_get",
        Read::Range(_) => "range",
        Read::KeyCount => "key_count",
        Read::KeyVersions(_) => "key_versions",
        Read::Assert { .. } => "assert",
        Read::AssertExists(_) => "assert_exists",
        Read::Index(_) => "query_index",
        Read::Feed(_) => "read_feed",
    }
}

fn update_name(update: &Update) -> &'static str {
    match update {
        Update::Set { .. } => "set",
        Update::SetIf { .. } => "set_if",
        Update::SetTagged(_) => "set_tagged",
        Update::Delete { .. } => "delete",
        Update::TestAndSet { .. } => "test_and_set",
        Update::Replace { .. } => "replace",
        Update::Confirm { .. } => "confirm",
        Update::Assert { .. } => "assert",
        Update::AssertExists { .. } => "assert_exists",
        Update::AssertRange { .. } => "assert_range",
        Update::AssertVersion { .. } => "assert_version",
        Update::AssertAbsentSince { .. } => "assert_absent_since",
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
        DirectoryCall::Index(call) => index_name(call),
    }
}

fn index_name(call: &IndexCall) -> &'static str {
    match call {
        IndexCall::Create(_) => "create_index",
        IndexCall::Drop { .. } => "drop_index",
        IndexCall::Describe { .. } => "describe_index",
        IndexCall::List => "list_indexes",
        IndexCall::Report(_) => "report_index",
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
    use crate::request::SequenceMode;
    use crate::{BucketName, Key, ReadLevel};

    fn request(call: Call) -> Request {
        Request { bucket: BucketName::from_full("logs/web").expect("a name"), call, retry: None }
    }

    fn directory(call: DirectoryCall) -> Request {
        request(Call::Directory(call))
    }

    #[test]
    fn scope_and_target_name_what_a_call_is_about() {
        let role = AccessCall::RemoveRole { name: "web".into() };
        let revoke = AccessCall::RevokeApiToken { user: "ada".into(), label: "ci".into() };
        let remove = ClusterCall::RemoveMember { name: "n2".into() };
        let change = |name: &str, text: &str| (String::from(name), String::from(text));
        let typed_by_mistake = change("hunter2", "hunter2");
        let altered = DirectoryCall::AlterBucket(vec![change("audit", "off"), typed_by_mistake]);
        let long = DirectoryCall::CreateType(vec![change("sync", &"x".repeat(40))]);
        let drop_index = |name: &str| DirectoryCall::Index(IndexCall::Drop { name: name.into() });
        for (call, operation, scope, target) in [
            (DirectoryCall::ClearBucket, "clear_bucket", "logs/web", None),
            (DirectoryCall::DropType, "drop_type", "logs/*", None),
            (altered, "alter_bucket", "logs/web", Some("audit=off")),
            (long, "create_type", "logs/*", Some("sync=...")),
            (DirectoryCall::AlterBucket(Vec::new()), "alter_bucket", "logs/web", None),
            (DirectoryCall::Access(role), "remove_role", "cluster", Some("web")),
            (DirectoryCall::Access(revoke), "revoke_api_token", "cluster", Some("ada/ci")),
            (DirectoryCall::Cluster(remove), "remove_member", "cluster", Some("n2")),
            (drop_index("by-name"), "drop_index", "logs/web", Some("index by-name")),
            (drop_index("hunter 2"), "drop_index", "logs/web", Some("index ...")),
            (drop_index(&"x".repeat(64)), "drop_index", "logs/web", Some("index ...")),
            (DirectoryCall::Index(IndexCall::List), "list_indexes", "logs/web", None),
        ] {
            assert_eq!(call.audit_target().as_deref(), target);
            let request = directory(call);
            assert_eq!((request.operation_name(), &*request.audit_scope()), (operation, scope));
        }
    }

    #[test]
    fn steps_of_a_sequence_are_counted_by_name_through_all_levels() {
        let get = Read::Get(Key::from_static(b"k"));
        let delete = || Update::DeletePrefix { prefix: Key::from_static(b"p") };
        let sequence = |steps| Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
        let inner =
            sequence(vec![delete(), sequence(vec![Update::Nop, Update::Read(get.clone())])]);
        let outer = request(Call::Update(sequence(vec![delete(), inner])));
        let counts = [("delete_prefix", 2), ("get", 1), ("nop", 1)];
        assert_eq!(outer.step_counts(), BTreeMap::from(counts));
        assert!(request(Call::Update(delete())).step_counts().is_empty());
        assert!(request(Call::Read(get, ReadLevel::Dirty)).step_counts().is_empty());
    }
}
