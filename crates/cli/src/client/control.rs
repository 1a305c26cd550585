//! Requests of operators: a method for each, with the structs of `api`.

use super::{Client, HttpCall, encode};
use api::{
    Blob, BucketMove, BucketReply, Buckets, Checkpoint, CheckpointTarget, Checkpoints,
    ClusterStatus, DesiredMember, DesiredMembers, DesiredQuorum, Emptied, EmptyPrefix,
    GroupPlacement, JoinTokenReply, Joined, MasterTransfer, Members, MoveTo, NewGroup, NewMember,
    NewToken, NodeStatus, PartChange, Pass, Replacement, Ring, RingChange, RingEpoch, RingPlan,
    RingTransfers, SectionLevels, Types, Whole,
};
use base::BucketName;
use hyper::Method;
use program::Outcome;

const GROUPS: &str = "/v1/cluster/groups";
const MEMBERS: &str = "/v1/cluster/members";
/// Buckets in a page.
const PAGE_BUCKETS: usize = 1_000;

fn member(name: &str, rest: &str) -> String {
    format!("{MEMBERS}/{}{rest}", encode(name.as_bytes()))
}

/// A dot is plain in the name of a checkpoint.
fn checkpoint(name: &str) -> String {
    format!("/v1/admin/checkpoints/{}", encode(name.as_bytes()).replace("%2E", "."))
}

/// Path of a page of buckets.
pub(super) fn bucket_page(after: Option<&str>) -> String {
    let after = after.map(|name| format!("&after={}", encode(name.as_bytes())));
    format!("/v1/buckets?limit={PAGE_BUCKETS}{}", after.unwrap_or_default())
}

fn whole(number: u32) -> Whole {
    Whole(number.into())
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
    /// Returns the node as it sees itself.
    status(): GET "/status" => NodeStatus;
    /// Returns the cluster as the node sees it, with what its groups' masters told that node.
    cluster(): GET "/v1/cluster" => ClusterStatus;

    /// Returns what the directory knows of members and placement.
    members(): GET MEMBERS => Members;
    /// Has a node let in; returns the cluster that it belongs to then.
    add_member(joining: &NewMember): POST MEMBERS, joining => Joined;
    /// Takes a member out of the cluster.
    remove_member(name: &str): DELETE member(name, "") => ();
    /// Has a member replaced: by another, or by the next fresh node of its name.
    replace_member(name: &str, by: Option<String>):
        POST member(name, "/replace"), Replacement { by } => ();
    /// Gives a member a part in a group, or in all.
    set_part(name: &str, part: &str, group: Option<u32>):
        PUT member(name, "/part"), PartChange { part: part.into(), group: group.map(whole) } => ();
    /// Makes a join token.
    make_token(token: &NewToken): POST "/v1/cluster/tokens", token => JoinTokenReply;
    /// Ends all join tokens made so far.
    revoke_tokens(): DELETE "/v1/cluster/tokens" => ();
    /// Makes the secret by which nodes sign their greetings.
    make_secret(): POST "/v1/cluster/secret" => ();

    /// Makes a group.
    create_group(group: &NewGroup): POST GROUPS, group => GroupPlacement;
    /// Ends a group in which no bucket lives.
    drop_group(group: u32): DELETE format!("{GROUPS}/{group}") => ();
    /// Sets the members that a group is to have.
    place_group(group: u32, members: Vec<DesiredMember>):
        PUT format!("{GROUPS}/{group}"), DesiredMembers { members } => ();
    /// Sets how many voters of a group save a value; none: a majority.
    set_quorum(group: u32, quorum: Option<u8>):
        PUT format!("{GROUPS}/{group}/quorum"),
        DesiredQuorum { quorum: quorum.map(|quorum| whole(quorum.into())) } => ();
    /// Makes another voter master of a group.
    transfer(group: u32, to: &str):
        POST format!("{GROUPS}/{group}/transfer"), MasterTransfer { to: to.into() } => ();
    /// Has a group's replicas compared.
    verify_group(group: u32): POST format!("{GROUPS}/{group}/verify") => Pass;

    /// Returns the owners of the partitions of available buckets.
    ring(): GET "/v1/cluster/ring" => Ring;
    /// Gives the ring out to all members that stay; asked again it changes nothing.
    claim_ring(): PUT "/v1/cluster/ring" => Ring;
    /// Returns the planned changes of the ring.
    ring_plan(): GET "/v1/cluster/ring/plan" => RingPlan;
    /// Plans one more change of the ring.
    plan_change(change: &RingChange): POST "/v1/cluster/ring/plan", change => RingPlan;
    /// Discards the planned changes of the ring.
    clear_plan(): DELETE "/v1/cluster/ring/plan" => ();
    /// Begins the planned changes, if the ring is still at this epoch.
    commit_plan(epoch: u64):
        POST "/v1/cluster/ring/commit", RingEpoch { epoch: Some(Whole(epoch)) } => Ring;
    /// Calls off the change of the ring under way.
    cancel_ring(): POST "/v1/cluster/ring/cancel" => Ring;
    /// Returns how far the change of the ring is.
    transfers(): GET "/v1/cluster/ring/transfers" => RingTransfers;

    /// Returns a page of the consistent buckets: the first ones, or those behind one.
    bucket_page(after: Option<&str>): GET bucket_page(after) => Buckets;
    /// Returns a bucket.
    bucket(bucket: &BucketName): GET format!("/v1/buckets/{bucket}") => BucketReply;
    /// Returns all bucket types.
    types(): GET "/v1/types" => Types;
    /// Returns where a bucket lives, and how far its move is.
    movement(bucket: &BucketName): GET format!("/v1/buckets/{bucket}/move") => BucketMove;
    /// Begins to move a bucket to another group.
    move_bucket(bucket: &BucketName, group: u32):
        POST format!("/v1/buckets/{bucket}/move"), MoveTo { group: whole(group) } => ();
    /// Gives up a bucket's move.
    cancel_move(bucket: &BucketName): DELETE format!("/v1/buckets/{bucket}/move") => ();
    /// Deletes keys under a prefix, for about a second.
    empty_prefix(bucket: &BucketName, prefix: &[u8], token: Option<String>):
        POST format!("/v1/buckets/{bucket}/empty_prefix"),
        EmptyPrefix { prefix: Blob::from(prefix), r#continue: token } => Emptied;

    /// Makes a checkpoint.
    make_checkpoint(name: &str):
        POST "/v1/admin/checkpoint", CheckpointTarget { target: name.into() } => Checkpoint;
    /// Returns the checkpoints that are there.
    checkpoints(): GET "/v1/admin/checkpoints" => Checkpoints;
    /// Removes a checkpoint.
    remove_checkpoint(name: &str): DELETE checkpoint(name) => ();
    /// Returns the log's levels by section.
    log_levels(): GET "/v1/admin/log-levels" => SectionLevels;
    /// Changes levels of the log; returns all as they are then.
    set_log_levels(levels: &SectionLevels): PUT "/v1/admin/log-levels", levels => SectionLevels;
}
