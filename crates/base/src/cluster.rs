//! Members of the cluster and placement of its groups: what the directory stores of them, and calls
//! about them.

use crate::limits::{NAME_BYTES_MAX, PEER_ADDRESS_BYTES_MAX};
use crate::{
    ClusterId, Error, FeatureLevel, GroupId, JoinTokenTerms, NodeId, Reason, Result, TokenDigest,
};

/// Role of a member in a group: voter, witness or learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Votes, keeps the data, may be master.
    Voter,
    /// Votes and logs, keeps no rows, is never master. A node is a witness in all its groups or in
    /// none. It keeps the directory's rows all the same.
    Witness,
    /// Receives what is decided; does not vote.
    Learner,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 3] = [Part::Voter, Part::Witness, Part::Learner];

    /// Returns the name of the role at every front-end.
    pub fn name(self) -> &'static str {
        match self {
            Part::Voter => "voter",
            Part::Witness => "witness",
            Part::Learner => "learner",
        }
    }

    /// Parses that name.
    pub fn parse(name: &str) -> Result<Part> {
        let found = Part::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| {
            Error::new(Reason::Malformed, "a part must be `voter`, `witness` or `learner`")
        })
    }

    /// Returns true if its answer counts towards a majority.
    pub fn can_vote(self) -> bool {
        self != Part::Learner
    }

    /// Returns true if it may become master.
    pub fn can_lead(self) -> bool {
        self == Part::Voter
    }
}

/// Membership status of a node: a member, leaving, or replaceable by a fresh node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Membership {
    /// Belongs to the cluster.
    #[default]
    Member,
    /// Is being removed from its groups, and is then forgotten.
    Leaving,
    /// Replaceable by a fresh node of the same name, for which its place waits.
    Replaceable,
}

impl Membership {
    /// Returns the name of the status at every front-end.
    pub fn name(self) -> &'static str {
        match self {
            Membership::Member => "member",
            Membership::Leaving => "leaving",
            Membership::Replaceable => "replaceable",
        }
    }
}

/// A member as stored in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Durable id of the node.
    pub node: NodeId,
    /// Name of the node; unique among members that are not leaving.
    pub name: String,
    /// Address for the other members: `host:port`.
    pub peer: String,
    /// Address for clients: `host:port`.
    pub client: String,
    /// Highest recorded incarnation of the node. A node of a lower incarnation is refused.
    pub incarnation: u64,
    /// Membership status.
    pub membership: Membership,
}

/// Intended members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The group.
    pub group: GroupId,
    /// The members with their roles, in the order of their ids.
    pub members: Vec<(NodeId, Part)>,
    /// Target number of voters: a node that joins gets a role while there are fewer. 0: every node
    /// that joins gets one.
    pub replicas: u32,
    /// The initial voters, in the order of their ids. Empty: the group began with the cluster's
    /// founder alone.
    pub founders: Vec<NodeId>,
    /// Number of voters that must save a value before it is decided. `None`: a majority.
    pub quorum: Option<u8>,
}

impl Placement {
    /// Packs the target number of voters and the quorum into one number: see [`pack_quorum`].
    pub fn packed_counts(&self) -> u32 {
        pack_quorum(self.replicas, self.quorum)
    }

    /// Returns the placement with the two numbers that [`Placement::packed_counts`] packed.
    pub fn with_packed_counts(self, counts: u32) -> Placement {
        let (replicas, quorum) = unpack_quorum(counts);
        Placement { replicas, quorum, ..self }
    }

    /// Returns the number of its members that are witnesses.
    pub fn witnesses(&self) -> usize {
        self.members.iter().filter(|(_, part)| *part == Part::Witness).count()
    }

    /// Returns the number of its members that vote.
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|(_, part)| part.can_vote()).count()
    }

    /// Returns true if the node is an intended member of the group.
    pub fn has_member(&self, node: NodeId) -> bool {
        self.members.iter().any(|(member, _)| *member == node)
    }

    /// Returns true if the node is an intended member of the group, or was among its initial
    /// voters.
    pub fn involves(&self, node: NodeId) -> bool {
        self.founders.contains(&node) || self.has_member(node)
    }
}

/// Description of the cluster: members and placement, as the directory stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's durable id.
    pub cluster: ClusterId,
    /// Id of the node that made the cluster; it may have left since.
    pub founder: NodeId,
    /// Time for which voters wait for a silent master, in milliseconds: the same for every member.
    pub lease_ms: u64,
    /// Number of changes applied so far: of two descriptions the one with more is the newer.
    pub changes: u64,
    /// Feature level in force.
    pub level: FeatureLevel,
    /// Every member, in the order of their ids.
    pub members: Vec<MemberDescription>,
    /// Every group, in the order of their numbers.
    pub groups: Vec<Placement>,
}

impl ClusterDescription {
    /// Returns the member with this id.
    pub fn member(&self, node: NodeId) -> Option<&MemberDescription> {
        self.members.iter().find(|member| member.node == node)
    }

    /// Returns the member with this name, rather one that stays: another with the name may be
    /// leaving.
    pub fn member_named(&self, name: &str) -> Option<&MemberDescription> {
        let named = self.members.iter().filter(|member| member.name == name);
        named.min_by_key(|member| member.membership == Membership::Leaving)
    }

    /// Returns the placement of this group.
    pub fn placement(&self, group: GroupId) -> Option<&Placement> {
        let index = self.groups.binary_search_by_key(&group, |placement| placement.group).ok()?;
        Some(&self.groups[index])
    }

    /// Returns the client addresses of all members that stay, except this one.
    pub fn peer_client_addresses(&self, own_node: NodeId) -> Vec<String> {
        let peers = self.members.iter().filter(|member| {
            member.node != own_node
                && member.membership == Membership::Member
                && !member.client.is_empty()
        });
        peers.map(|member| member.client.clone()).collect()
    }

    /// Returns true if the node is a witness. The role in the directory decides: every member has
    /// one there, and a node is a witness in all groups or in none.
    pub fn is_witness(&self, node: NodeId) -> bool {
        let directory = self.placement(GroupId(0));
        directory.is_some_and(|placement| placement.members.contains(&(node, Part::Witness)))
    }
}

/// Call about members and placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCall {
    /// Describes the cluster. `Body::Cluster`.
    Describe,
    /// Adds a node, with a role in every group that has too few voters. Idempotent for the same
    /// node. `Body::Joined`, or `Body::Cluster` of a cluster without a secret.
    AddMember {
        /// The new member.
        member: MemberDescription,
        /// Role; a voter becomes a learner where the group has voters enough.
        part: Part,
        /// Lease that the node is configured with, in milliseconds; it must equal the cluster's.
        lease_ms: u64,
        /// Highest feature level that the node's program knows; at least the cluster's.
        level: FeatureLevel,
    },
    /// Changes a member's name and addresses. `Body::Done`.
    UpdateMember {
        /// Id of the member.
        node: NodeId,
        /// New name.
        name: String,
        /// Address for the other members.
        peer: String,
        /// Address for clients.
        client: String,
    },
    /// Removes a member from every group, and then from the cluster. `Body::Done`.
    RemoveMember {
        /// Name of the member.
        name: String,
    },
    /// Gives a member's place to another member at once, or else to the next fresh node that joins
    /// under its name. `Body::Done`.
    ReplaceMember {
        /// Name of the member.
        name: String,
        /// Name of the member that takes over its roles. `None`: the next fresh node of this name.
        by: Option<String>,
    },
    /// Gives a member a role, or none, in one group or in every group. `Body::Done`.
    SetPart {
        /// Name of the member.
        name: String,
        /// The role. `None`: it leaves the group.
        part: Option<Part>,
        /// The group. `None`: the groups in which every node has a role, and those in which it has
        /// one.
        group: Option<GroupId>,
    },
    /// Sets the intended members of a group. `Body::Done`.
    PlaceGroup {
        /// The group.
        group: GroupId,
        /// Members by name.
        members: Vec<(String, Part)>,
    },
    /// Sets the number of voters of a group that must save a value before it is decided.
    /// `Body::Done`.
    SetQuorum {
        /// The group.
        group: GroupId,
        /// Number of voters. `None`: a majority.
        quorum: Option<u8>,
    },
    /// Creates a group. `Body::Group`.
    CreateGroup {
        /// Target number of voters. `None`: as many as are named, or else three, or the number of
        /// members if that is less.
        replicas: Option<u32>,
        /// Voters by name. Empty: the members that are in the fewest groups.
        members: Vec<String>,
    },
    /// Ends a group without buckets, everywhere and for good. `Body::Done`.
    DropGroup {
        /// The group.
        group: GroupId,
    },
    /// Wraps another of these calls for a node that presents a join token instead of an operator's
    /// credentials: to join, or to be replaced and join again. Answered like the wrapped call.
    WithToken {
        /// Digest of the token.
        digest: TokenDigest,
        /// The call.
        call: Box<ClusterCall>,
    },
    /// Adds a join token, which admits nodes from now on, as its terms say. `Body::Done`.
    AddToken {
        /// Digest of the token.
        digest: TokenDigest,
        /// Terms of the token.
        terms: JoinTokenTerms,
    },
    /// Revokes every join token made so far. `Body::Done`.
    RevokeTokens,
    /// Creates the cluster secret, with which members sign their greetings, in a cluster that an
    /// older version founded without one. `Body::Done` once greetings must be signed; `NoQuorum`
    /// while members lack it.
    MakeSecret,
    /// Raises the feature level, for good, once every member's program knows it and every data
    /// directory is marked with it. `Body::Done`.
    RaiseLevel {
        /// The level.
        level: FeatureLevel,
    },
}

impl ClusterCall {
    /// Returns true if a node joins by this call.
    pub fn is_join(&self) -> bool {
        match self {
            ClusterCall::AddMember { .. } => true,
            ClusterCall::WithToken { call, .. } => call.is_join(),
            _ => false,
        }
    }
}

/// Packs a count below 2^24 and, in the uppermost byte, a quorum (0: a majority). Formats older
/// than quorums use it: a reader of an older version refuses the large number.
pub fn pack_quorum(count: u32, quorum: Option<u8>) -> u32 {
    count | u32::from(quorum.unwrap_or(0)) << 24
}

/// Splits a number that [`pack_quorum`] made.
pub fn unpack_quorum(counts: u32) -> (u32, Option<u8>) {
    let quorum = Some((counts >> 24) as u8).filter(|quorum| *quorum > 0);
    (counts & 0x00FF_FFFF, quorum)
}

/// Checks a member's name: it stands in paths, logs and Arakoon's answers.
pub fn check_member_name(name: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let starts_alphanumeric = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts_alphanumeric && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let text = "a member's name must be 1 to 63 of a-z A-Z 0-9 - _ . and begin with a letter or \
                digit";
    Err(Error::new(Reason::Malformed, text))
}

/// Checks an address, `host:port`.
pub fn check_address(address: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_graphic();
    let parts = address.rsplit_once(':');
    let has_host_and_port = parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if has_host_and_port
        && address.len() <= PEER_ADDRESS_BYTES_MAX
        && address.bytes().all(is_allowed)
    {
        return Ok(());
    }
    let text = "an address must be HOST:PORT, reachable from the other nodes";
    Err(Error::new(Reason::Malformed, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_member_names_and_addresses_are_rejected() {
        for name in ["n1", "a.b-c_D", &"x".repeat(63)] {
            assert_eq!(check_member_name(name), Ok(()), "{name}");
        }
        for name in ["", "..", "-a", "a b", "a/b", "é", &"x".repeat(64)] {
            assert!(check_member_name(name).is_err(), "{name}");
        }
        for address in ["127.0.0.1:7712", "[::1]:1", "host.example:65535"] {
            assert_eq!(check_address(address), Ok(()), "{address}");
        }
        for address in ["", "host", ":1", "host:0", "host:65536", "a b:1", "host:"] {
            assert!(check_address(address).is_err(), "{address}");
        }
    }

    #[test]
    fn packed_quorum_and_count_round_trip() {
        for (count, quorum) in [(0, None), (5, Some(2)), (0x00FF_FFFF, Some(255))] {
            assert_eq!(unpack_quorum(pack_quorum(count, quorum)), (count, quorum));
        }
        assert_eq!((pack_quorum(5, None), pack_quorum(5, Some(2))), (5, 0x0200_0005));
    }

    #[test]
    fn part_words_round_trip() {
        for part in Part::ALL {
            assert_eq!(Part::parse(part.name()), Ok(part));
        }
        assert!(Part::parse("leader").is_err());
    }
}
