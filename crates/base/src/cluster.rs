//! Members of the cluster, and where its groups are placed: what the directory keeps of them, and
//! what can be asked about them.

use crate::limits::{NAME_BYTES_MAX, PEER_ADDRESS_BYTES_MAX};
use crate::{ClusterId, Error, GroupId, NodeId, Reason, Result, TokenDigest};

/// What a member does in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Votes, keeps the data, may be master.
    Voter,
    /// Votes and logs, keeps no data, is never master. A node is one in all its groups, or in none;
    /// the directory's rows are here all the same.
    Witness,
    /// Receives what is decided; does not vote.
    Learner,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 3] = [Part::Voter, Part::Witness, Part::Learner];

    /// Its word at every front-end.
    pub fn word(self) -> &'static str {
        match self {
            Part::Voter => "voter",
            Part::Witness => "witness",
            Part::Learner => "learner",
        }
    }

    /// The part of this word.
    pub fn parse(word: &str) -> Result<Part> {
        let found = Part::ALL.into_iter().find(|part| part.word() == word);
        found.ok_or_else(|| {
            Error::new(Reason::Malformed, "a part is `voter`, `witness` or `learner`")
        })
    }

    /// Whether its answer counts towards a majority.
    pub fn votes(self) -> bool {
        self != Part::Learner
    }

    /// Whether it may become master.
    pub fn leads(self) -> bool {
        self == Part::Voter
    }
}

/// Membership status of a node: a member, leaving, or replaceable by a fresh node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It belongs to the cluster.
    #[default]
    Member,
    /// It is taken out of its groups, and then forgotten.
    Leaving,
    /// Its place waits for a fresh node of the same name.
    Replaceable,
}

impl Membership {
    /// Its word at every front-end.
    pub fn word(self) -> &'static str {
        match self {
            Membership::Member => "member",
            Membership::Leaving => "leaving",
            Membership::Replaceable => "replaceable",
        }
    }
}

/// A member as the directory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its durable id.
    pub node: NodeId,
    /// Its name; among those that stay each once.
    pub name: String,
    /// Where the other members reach it: `host:port`.
    pub peer: String,
    /// Where clients reach it: `host:port`.
    pub client: String,
    /// The highest of its lives that is on record: nothing below is let in.
    pub incarnation: u64,
    /// Its membership status.
    pub membership: Membership,
}

/// Who is wanted in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The group.
    pub group: GroupId,
    /// Its members, in the order of their ids.
    pub members: Vec<(NodeId, Part)>,
    /// So many voters it is to have: a node that joins gets a part while there are fewer. 0: every
    /// node that joins gets one.
    pub replicas: u32,
    /// The voters it began with, in the order of their ids; none: it began with the cluster's
    /// founder alone.
    pub founders: Vec<NodeId>,
    /// So many voters are to save a value before it is decided; none: a majority.
    pub quorum: Option<u8>,
}

impl Placement {
    /// How many voters it is to have, and how many save a value, as one number.
    pub fn counts(&self) -> u32 {
        pack_quorum(self.replicas, self.quorum)
    }

    /// The same, with what such a number says.
    pub fn with_counts(self, counts: u32) -> Placement {
        let (replicas, quorum) = unpack_quorum(counts);
        Placement { replicas, quorum, ..self }
    }

    /// How many of its members are witnesses.
    pub fn witnesses(&self) -> usize {
        self.members.iter().filter(|(_, part)| *part == Part::Witness).count()
    }

    /// How many of its members vote.
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|(_, part)| part.votes()).count()
    }

    /// Whether this node is wanted in it.
    pub fn names_member(&self, node: NodeId) -> bool {
        self.members.iter().any(|(member, _)| *member == node)
    }

    /// Whether this node is wanted in it, or was among those it began with.
    pub fn concerns(&self, node: NodeId) -> bool {
        self.founders.contains(&node) || self.names_member(node)
    }
}

/// What the directory knows of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's durable id.
    pub cluster: ClusterId,
    /// The node that made the cluster; it may have left since.
    pub founder: NodeId,
    /// The lease of masters, in milliseconds: the same for every member.
    pub lease_ms: u64,
    /// How many changes led here: of two descriptions the one with more is the newer.
    pub changes: u64,
    /// Every member, in the order of their ids.
    pub members: Vec<MemberDescription>,
    /// Every group, in the order of their numbers.
    pub groups: Vec<Placement>,
}

impl ClusterDescription {
    /// The member of this id.
    pub fn member(&self, node: NodeId) -> Option<&MemberDescription> {
        self.members.iter().find(|member| member.node == node)
    }

    /// Who is wanted in this group.
    pub fn placement(&self, group: GroupId) -> Option<&Placement> {
        let place = self.groups.binary_search_by_key(&group, |placement| placement.group).ok()?;
        Some(&self.groups[place])
    }

    /// Where clients reach the members that stay, this one left out.
    pub fn clients_of_others(&self, own: NodeId) -> Vec<String> {
        let others = self.members.iter().filter(|member| {
            member.node != own
                && member.membership == Membership::Member
                && !member.client.is_empty()
        });
        others.map(|member| member.client.clone()).collect()
    }

    /// Whether a node is a witness: it joined as one, and is one in every group. The directory says
    /// so, in which every member has a part.
    pub fn is_witness(&self, node: NodeId) -> bool {
        let directory = self.placement(GroupId(0));
        directory.is_some_and(|placement| placement.members.contains(&(node, Part::Witness)))
    }
}

/// What can be asked about members and placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCall {
    /// What the directory knows. `Body::Cluster`.
    Describe,
    /// A node joins, with a part in every group that has no voters enough; asked again by the same
    /// node, it changes nothing. `Body::Joined`, or `Body::Cluster` of a cluster without a secret.
    AddMember {
        /// The new member.
        member: MemberDescription,
        /// Its part; a voter becomes a learner where the group has voters enough.
        part: Part,
        /// The lease that the node is set to, which must be the cluster's.
        lease_ms: u64,
    },
    /// A member's name or addresses are others now. `Body::Done`.
    UpdateMember {
        /// Which member.
        node: NodeId,
        /// Its name.
        name: String,
        /// Where the other members reach it.
        peer: String,
        /// Where clients reach it.
        client: String,
    },
    /// A member leaves every group, and then the cluster. `Body::Done`.
    RemoveMember {
        /// Its name.
        name: String,
    },
    /// A member's place is taken: by another member at once, or else by the next fresh node that
    /// joins under its name. `Body::Done`.
    ReplaceMember {
        /// Its name.
        name: String,
        /// Who takes its parts.
        by: Option<String>,
    },
    /// Gives a member a part, or none, in one group or in every group. `Body::Done`.
    SetPart {
        /// Its name.
        name: String,
        /// The part; none: it leaves the group.
        part: Option<Part>,
        /// The group; none: those every node has a part in, and those where it has one.
        group: Option<GroupId>,
    },
    /// Says who is wanted in a group. `Body::Done`.
    PlaceGroup {
        /// The group.
        group: GroupId,
        /// Members by name.
        members: Vec<(String, Part)>,
    },
    /// Says how many voters of a group save a value before it is decided. `Body::Done`.
    SetQuorum {
        /// The group.
        group: GroupId,
        /// So many; none: a majority.
        quorum: Option<u8>,
    },
    /// Makes a group. `Body::Group`.
    CreateGroup {
        /// How many voters it is to have; none: as many as are named, or else three, or as many
        /// members as there are, if that is less.
        replicas: Option<u32>,
        /// Its voters by name; none named: the members that are in the fewest groups.
        members: Vec<String>,
    },
    /// A group without buckets ends, everywhere and for good. `Body::Done`.
    DropGroup {
        /// The group.
        group: GroupId,
    },
    /// Another of these calls, by someone who is no operator and shows a join token: a node that
    /// joins, or one that gives its place up to join anew. Answered as that call is.
    Shown {
        /// Of the token.
        digest: TokenDigest,
        /// What is asked.
        call: Box<ClusterCall>,
    },
    /// A join token lets nodes in from now on. `Body::Done`.
    AddToken {
        /// Of the token.
        digest: TokenDigest,
        /// For so long, milliseconds; none: until all tokens are revoked.
        lifetime_ms: Option<u64>,
    },
    /// No join token that was made so far lets anybody in any more. `Body::Done`.
    RevokeTokens,
    /// Gives a cluster of a version before a secret that its members sign their greetings with.
    /// `Body::Done` once greetings must be signed; `NoQuorum` while members lack it.
    MakeSecret,
}

impl ClusterCall {
    /// Whether a node joins by it.
    pub fn joins(&self) -> bool {
        match self {
            ClusterCall::AddMember { .. } => true,
            ClusterCall::Shown { call, .. } => call.joins(),
            _ => false,
        }
    }
}

/// A count below 2^24, and in its uppermost byte a quorum (0: a majority): for forms that were made
/// before there were quorums, and whose readers then refuse what they don't know.
pub fn pack_quorum(count: u32, quorum: Option<u8>) -> u32 {
    count | u32::from(quorum.unwrap_or(0)) << 24
}

/// What [`pack_quorum`] made one number of.
pub fn unpack_quorum(counts: u32) -> (u32, Option<u8>) {
    let quorum = Some((counts >> 24) as u8).filter(|quorum| *quorum > 0);
    (counts & 0x00FF_FFFF, quorum)
}

/// Checks a member's name: it stands in paths, logs and Arakoon's answers.
pub fn check_member_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) {
        return Ok(());
    }
    let text = "a member's name is 1 to 63 of a-z A-Z 0-9 - _ . and begins with a letter or digit";
    Err(Error::new(Reason::Malformed, text))
}

/// Checks an address, `host:port`.
pub fn check_address(address: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_graphic();
    let parts = address.rsplit_once(':');
    let fits = parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if fits && address.len() <= PEER_ADDRESS_BYTES_MAX && address.bytes().all(plain) {
        return Ok(());
    }
    let text = "an address is HOST:PORT, as the other nodes reach it";
    Err(Error::new(Reason::Malformed, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_checked() {
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
    fn a_quorum_stands_above_a_count() {
        for (count, quorum) in [(0, None), (5, Some(2)), (0x00FF_FFFF, Some(255))] {
            assert_eq!(unpack_quorum(pack_quorum(count, quorum)), (count, quorum));
        }
        assert_eq!((pack_quorum(5, None), pack_quorum(5, Some(2))), (5, 0x0200_0005));
    }

    #[test]
    fn every_part_has_a_word_of_its_own() {
        for part in Part::ALL {
            assert_eq!(Part::parse(part.word()), Ok(part));
        }
        assert!(Part::parse("leader").is_err());
    }
}
