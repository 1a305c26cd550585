//! Requests of operators: one method for each, with the types of the crate `api`.

use crate::{Client, HttpCall, encode};
use api::{
    AccessDecision, AccessQuestion, AccessState, AccessSwitch, Administrator, ApiTokenReply, Blob,
    BucketMove, BucketReply, Buckets, Checkpoint, CheckpointTarget, Checkpoints, ClusterStatus,
    ComparisonPass, DesiredMember, DesiredMembers, DesiredQuorum, EmptyPrefix, EmptyPrefixProgress,
    GroupPlacement, HotKeys, IndexReply, Indexes, Integer, JoinReply, JoinTokenReply, LevelChange,
    MasterTransfer, Members, MoveRequest, NewApiToken, NewGroup, NewIndex, NewMember, NewPassword,
    NewToken, NewUser, NodeStatus, PartChange, ReloadReply, Replacement, Ring, RingChange,
    RingEpoch, RingPlan, RingTransfers, RoleGrants, SectionLevels, SlowRequests, Types, UserChange,
    UserQuota,
};
use base::BucketName;
use hyper::Method;
use program::Outcome;

const GROUPS: &str = "/v1/cluster/groups";
const MEMBERS: &str = "/v1/cluster/members";
/// Number of buckets in a page.
const PAGE_BUCKETS: usize = 1_000;

/// Encodes a name for a path; a dot needs no encoding there.
fn encode_name(name: &str) -> String {
    encode(name.as_bytes()).replace("%2E", ".")
}

fn user_path(name: &str, rest: &str) -> String {
    format!("/v1/access/users/{}{rest}", encode_name(name))
}

/// Returns the query that confirms that what has this name is destroyed.
pub fn confirm(name: &str) -> String {
    format!("?confirm={}", encode(name.as_bytes()))
}

/// Returns that query, or none if nothing is destroyed. Nodes of earlier versions take none.
fn confirm_if(destroys: bool, name: &str) -> String {
    if destroys { confirm(name) } else { String::new() }
}

fn role_path(name: &str) -> String {
    format!("/v1/access/roles/{}", encode_name(name))
}

fn member_path(name: &str, rest: &str) -> String {
    format!("{MEMBERS}/{}{rest}", encode(name.as_bytes()))
}

fn checkpoint_path(name: &str) -> String {
    format!("/v1/admin/checkpoints/{}", encode_name(name))
}

/// Returns the path of a page of buckets.
pub(crate) fn bucket_page_path(after: Option<&str>) -> String {
    let after = after.map(|name| format!("&after={}", encode(name.as_bytes())));
    format!("/v1/buckets?limit={PAGE_BUCKETS}{}", after.unwrap_or_default())
}

fn index_path(bucket: &BucketName, name: &str) -> String {
    format!("/v1/buckets/{bucket}/indexes/{}", encode(name.as_bytes()))
}

fn integer(number: u32) -> Integer {
    Integer(number.into())
}

/// Defines a method for each request: `name(arguments): METHOD path, body => answer`.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*):
        $method:ident $path:expr $(, $body:expr)? => $answer:ty;)*) => {
        impl Client {$(
            $(#[$doc])*
            pub async fn $name(&mut self $(, $argument: $kind)*) -> Outcome<$answer> {
                let call = HttpCall::new(Method::$method, $path)$(.with_json(&$body))?;
                self.call(call).await?.read()
            }
        )*}
    };
}

requests! {
    /// Returns the status of the node.
    status(): GET "/status" => NodeStatus;
    /// Returns the cluster in the view of this node, with the reports of the groups' masters.
    cluster(): GET "/v1/cluster" => ClusterStatus;

    /// Returns the members and the placement of groups in the directory.
    members(): GET MEMBERS => Members;
    /// Adds a node to the cluster. Returns the cluster that it has joined.
    add_member(joining: &NewMember): POST MEMBERS, joining => JoinReply;
    /// Removes a member from the cluster.
    remove_member(name: &str): DELETE member_path(name, &confirm(name)) => ();
    /// Replaces a member by another one. `None`: by the next new node of the same name.
    replace_member(name: &str, by: Option<String>):
        POST member_path(name, "/replace") + &confirm_if(by.is_some(), name),
        Replacement { by } => ();
    /// Sets a member's part in a group. `None`: in all groups.
    set_part(name: &str, part: &str, group: Option<u32>):
        PUT member_path(name, "/part") + &confirm_if(part == "none", name),
        PartChange { part: part.into(), group: group.map(integer) } => ();
    /// Creates a join token.
    make_token(token: &NewToken): POST "/v1/cluster/tokens", token => JoinTokenReply;
    /// Revokes all join tokens.
    revoke_tokens(): DELETE "/v1/cluster/tokens" => ();
    /// Raises the feature level.
    raise_level(change: &LevelChange): POST "/v1/cluster/level", change => ();
    /// Creates the secret with which nodes sign their greetings.
    make_secret(): POST "/v1/cluster/secret" => ();

    /// Returns whether access is on, with all users and roles.
    access_state(): GET "/v1/access" => AccessState;
    /// Creates the first administrator, and turns access on.
    init_access(): POST "/v1/access/init" => Administrator;
    /// Turns access on or off; off was confirmed.
    switch_access(on: bool):
        PUT if on { "/v1/access" } else { "/v1/access?confirm=off" }, AccessSwitch { on } => ();
    /// Returns whether a user may do something.
    check_access(question: &AccessQuestion): POST "/v1/access/check", question => AccessDecision;
    /// Creates a user.
    add_user(name: &str, user: &NewUser): PUT user_path(name, ""), user => ();
    /// Changes a user.
    change_user(name: &str, change: &UserChange): PATCH user_path(name, ""), change => ();
    /// Removes a user, which was confirmed.
    remove_user(name: &str): DELETE user_path(name, &confirm(name)) => ();
    /// Sets a user's password.
    set_password(name: &str, password: &NewPassword):
        PUT user_path(name, "/password"), password => ();
    /// Creates an API token of a user.
    add_api_token(name: &str, token: &NewApiToken):
        POST user_path(name, "/tokens"), token => ApiTokenReply;
    /// Revokes an API token of a user.
    revoke_api_token(name: &str, label: &str):
        DELETE user_path(name, &format!("/tokens/{}", encode_name(label))) => ();
    /// Sets a user's quota.
    set_quota(name: &str, quota: &UserQuota): PUT user_path(name, "/quota"), quota => ();
    /// Creates a role, or replaces its grants.
    set_role(name: &str, grants: &RoleGrants): PUT role_path(name), grants => ();
    /// Removes a role, which was confirmed.
    remove_role(name: &str): DELETE role_path(name) + &confirm(name) => ();

    /// Creates a group.
    create_group(group: &NewGroup): POST GROUPS, group => GroupPlacement;
    /// Drops a group that has no bucket.
    drop_group(group: u32): DELETE format!("{GROUPS}/{group}?confirm={group}") => ();
    /// Sets the desired members of a group.
    place_group(group: u32, members: Vec<DesiredMember>):
        PUT format!("{GROUPS}/{group}"), DesiredMembers { members } => ();
    /// Sets the number of voters of a group that save an entry. `None`: a majority.
    set_quorum(group: u32, quorum: Option<u8>):
        PUT format!("{GROUPS}/{group}/quorum"),
        DesiredQuorum { quorum: quorum.map(|quorum| integer(quorum.into())) } => ();
    /// Transfers mastership of a group to another voter.
    transfer(group: u32, to: &str):
        POST format!("{GROUPS}/{group}/transfer"), MasterTransfer { to: to.into() } => ();
    /// Starts a comparison of a group's replicas.
    verify_group(group: u32): POST format!("{GROUPS}/{group}/verify") => ComparisonPass;

    /// Returns the owners of the partitions of available buckets.
    ring(): GET "/v1/cluster/ring" => Ring;
    /// Assigns the ring to all members that stay; a repeated call changes nothing.
    claim_ring(): PUT "/v1/cluster/ring" => Ring;
    /// Returns the planned changes of the ring.
    ring_plan(): GET "/v1/cluster/ring/plan" => RingPlan;
    /// Plans a further change of the ring.
    plan_change(change: &RingChange): POST "/v1/cluster/ring/plan", change => RingPlan;
    /// Discards the planned changes of the ring.
    clear_plan(): DELETE "/v1/cluster/ring/plan" => ();
    /// Commits the planned changes if the ring is still at this epoch.
    commit_plan(epoch: u64):
        POST format!("/v1/cluster/ring/commit?confirm={epoch}"),
        RingEpoch { epoch: Some(Integer(epoch)) } => Ring;
    /// Cancels the present change of the ring.
    cancel_ring(): POST "/v1/cluster/ring/cancel" => Ring;
    /// Returns the progress of the present change of the ring.
    transfers(): GET "/v1/cluster/ring/transfers" => RingTransfers;

    /// Returns a page of the consistent buckets, after one of them. `None`: the first page.
    bucket_page(after: Option<&str>): GET bucket_page_path(after) => Buckets;
    /// Returns a bucket.
    bucket(bucket: &BucketName): GET format!("/v1/buckets/{bucket}") => BucketReply;
    /// Returns all bucket types.
    types(): GET "/v1/types" => Types;
    /// Returns the group of a bucket, and the progress of its move.
    bucket_move(bucket: &BucketName): GET format!("/v1/buckets/{bucket}/move") => BucketMove;
    /// Starts to move a bucket to another group.
    move_bucket(bucket: &BucketName, group: u32):
        POST format!("/v1/buckets/{bucket}/move"), MoveRequest { group: integer(group) } => ();
    /// Cancels the move of a bucket.
    cancel_move(bucket: &BucketName): DELETE format!("/v1/buckets/{bucket}/move") => ();
    /// Deletes keys under a prefix, for about a second, which was confirmed. The answer says how to
    /// continue.
    empty_prefix(bucket: &BucketName, prefix: &[u8], token: Option<String>):
        POST format!("/v1/buckets/{bucket}/empty_prefix{}", confirm(bucket.full())),
        EmptyPrefix { prefix: Blob::from(prefix), r#continue: token } => EmptyPrefixProgress;

    /// Creates an index of a bucket, which is then built.
    create_index(bucket: &BucketName, index: &NewIndex):
        POST format!("/v1/buckets/{bucket}/indexes"), index => IndexReply;
    /// Returns the indexes of a bucket.
    indexes(bucket: &BucketName): GET format!("/v1/buckets/{bucket}/indexes") => Indexes;
    /// Returns an index of a bucket.
    index(bucket: &BucketName, name: &str): GET index_path(bucket, name) => IndexReply;
    /// Drops an index of a bucket.
    drop_index(bucket: &BucketName, name: &str): DELETE index_path(bucket, name) => ();

    /// Creates a checkpoint.
    make_checkpoint(name: &str):
        POST "/v1/admin/checkpoint", CheckpointTarget { target: name.into() } => Checkpoint;
    /// Returns all checkpoints.
    checkpoints(): GET "/v1/admin/checkpoints" => Checkpoints;
    /// Removes a checkpoint.
    remove_checkpoint(name: &str): DELETE checkpoint_path(name) + &confirm(name) => ();
    /// Requests that the node reads its settings again.
    reload(): POST "/v1/admin/reload" => ReloadReply;
    /// Returns the slow log.
    slow_requests(): GET "/v1/admin/slow-requests" => SlowRequests;
    /// Returns the hot keys.
    hot_keys(): GET "/v1/admin/hot-keys" => HotKeys;
    /// Removes the entries of the slow log.
    reset_slow_requests(): DELETE "/v1/admin/slow-requests" => ();
    /// Returns the levels of the log by section.
    log_levels(): GET "/v1/admin/log-levels" => SectionLevels;
    /// Sets levels of the log. Returns all levels after the change.
    set_log_levels(levels: &SectionLevels): PUT "/v1/admin/log-levels", levels => SectionLevels;
}
