//! Examples of calls and answers that were added with feature levels.

use super::examples::{ExampleData, cluster_bodies, group_bodies, member, secret_bodies};
use crate::{
    Body, Call, ClusterCall, ClusterDescription, DirectoryCall, FeatureLevel, JoinTokenTerms,
    Membership, Part, TokenDigest,
};

/// Calls that were added with feature levels.
pub fn calls(data: &ExampleData) -> Vec<Call> {
    let member = member(data, Membership::Member);
    let (level, lease_ms) = (FeatureLevel(2), data.numbers[0]);
    [
        ClusterCall::AddMember { member, part: Part::Witness, lease_ms, level },
        ClusterCall::RaiseLevel { level },
    ]
    .map(|call| Call::Directory(DirectoryCall::Cluster(call)))
    .into()
}

/// Calls that create join tokens for a number of nodes.
pub fn token_calls(data: &ExampleData) -> Vec<Call> {
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    let endless = JoinTokenTerms { lifetime_ms: None, uses: Some(64) };
    [JoinTokenTerms::single_use(data.numbers[0]), endless]
        .map(|terms| ClusterCall::AddToken { digest, terms })
        .map(|call| Call::Directory(DirectoryCall::Cluster(call)))
        .into()
}

/// Descriptions of clusters of a level above the first, and answers to nodes that join them.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let raised = |description: Box<ClusterDescription>| {
        Box::new(ClusterDescription { level: FeatureLevel(2), ..*description })
    };
    let raised = |body| match body {
        Body::Cluster(description) => Some(Body::Cluster(raised(description))),
        Body::Joined(description, secret) => Some(Body::Joined(raised(description), secret)),
        _ => None,
    };
    let bodies = [cluster_bodies(data), group_bodies(data), secret_bodies(data)];
    bodies.into_iter().flatten().filter_map(raised).collect()
}
