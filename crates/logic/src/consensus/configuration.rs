//! Configuration of a group: its members and their roles.

use super::quorum::Quorums;
use base::{ConfigurationId, NodeId, Part};
use std::fmt;

/// Most members that vote (voters and witnesses) in one configuration.
pub const VOTERS_MAX: usize = 7;
/// Most members of any kind in one configuration.
pub const MEMBERS_MAX: usize = 64;

/// Member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Id of the node.
    pub node: NodeId,
    /// Role of the member.
    pub part: Part,
}

/// Members of a group between two stop-signs, in the order of their node ids, each once; at least
/// one of them may lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    id: ConfigurationId,
    members: Vec<Member>,
    /// Number of voters that save an entry. `None`: a majority.
    quorum: Option<u8>,
}

/// Reason why a set of members is not a valid configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// No member may lead.
    NoLeader,
    /// Node id 0, which is invalid.
    NodeZero,
    /// A node is listed twice.
    Duplicate(NodeId),
    /// More than [`VOTERS_MAX`] members vote.
    TooManyVoters(usize),
    /// More than [`MEMBERS_MAX`] members.
    TooManyMembers(usize),
    /// The requested number of voters that save an entry does not fit this group.
    Quorum {
        /// Requested number.
        save: u8,
        /// Smallest and largest valid number. `None`: only a majority is valid.
        fit: Option<(u8, u8)>,
    },
}

impl Configuration {
    /// Builds a configuration of these members, given in any order.
    pub fn new(
        id: ConfigurationId,
        mut members: Vec<Member>,
    ) -> Result<Configuration, ConfigurationError> {
        members.sort_unstable();
        if members.len() > MEMBERS_MAX {
            return Err(ConfigurationError::TooManyMembers(members.len()));
        }
        if members.iter().any(|member| member.node == NodeId(0)) {
            return Err(ConfigurationError::NodeZero);
        }
        if let Some(pair) = members.windows(2).find(|pair| pair[0].node == pair[1].node) {
            return Err(ConfigurationError::Duplicate(pair[0].node));
        }
        let voters = members.iter().filter(|member| member.part.can_vote()).count();
        if voters > VOTERS_MAX {
            return Err(ConfigurationError::TooManyVoters(voters));
        }
        if !members.iter().any(|member| member.part.can_lead()) {
            return Err(ConfigurationError::NoLeader);
        }
        Ok(Configuration { id, members, quorum: None })
    }

    /// Sets the number of voters that save an entry before it is decided. `None`: a majority. A
    /// smaller number decides sooner, and requires more voters for an election. A larger one keeps
    /// more copies of acknowledged entries, and requires all of those voters for a decision.
    ///
    /// Errors: [`ConfigurationError::Quorum`] for fewer than two copies, for a number that would
    /// stop the group without one of its voters (which could not be replaced), and where witnesses
    /// alone would suffice: some saver must keep the rows.
    pub fn with_quorum(self, quorum: Option<u8>) -> Result<Configuration, ConfigurationError> {
        let voters = self.voters().count();
        let is_witness = |member: &&Member| member.part == Part::Witness;
        let witnesses = self.members.iter().filter(is_witness).count();
        let fits = |save: u8| {
            let survives_loss = Quorums::of(voters, Some(save)).required_connected() < voters;
            usize::from(save) > witnesses.max(1) && survives_loss
        };
        match quorum {
            Some(save) if !fits(save) => {
                let fitting = (2..=VOTERS_MAX as u8).filter(|save| fits(*save));
                let (fewest, most) = (fitting.clone().min(), fitting.max());
                Err(ConfigurationError::Quorum { save, fit: fewest.zip(most) })
            }
            quorum => Ok(Configuration { quorum, ..self }),
        }
    }

    /// Returns the number of voters that save an entry. `None`: a majority.
    pub fn quorum(&self) -> Option<u8> {
        self.quorum
    }

    /// Returns the number of voters that elect, and that save.
    pub fn quorums(&self) -> Quorums {
        Quorums::of(self.voters().count(), self.quorum)
    }

    /// Returns the configuration of a group with a single member.
    pub fn single_member(
        id: ConfigurationId,
        node: NodeId,
    ) -> Result<Configuration, ConfigurationError> {
        Configuration::new(id, vec![Member { node, part: Part::Voter }])
    }

    /// Returns its number.
    pub fn id(&self) -> ConfigurationId {
        self.id
    }

    /// Returns all members, in the order of their node ids.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the nodes that vote, in the order of their ids.
    pub fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|member| member.part.can_vote()).map(|member| member.node)
    }

    /// Returns true if the node votes.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.part(node).is_some_and(Part::can_vote)
    }

    /// Returns true if the node may become master.
    pub fn may_lead(&self, node: NodeId) -> bool {
        self.part(node).is_some_and(Part::can_lead)
    }

    /// Returns the role of a node. `None`: it is not a member.
    pub fn part(&self, node: NodeId) -> Option<Part> {
        let place = self.members.binary_search_by_key(&node, |member| member.node).ok()?;
        Some(self.members[place].part)
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::NoLeader => write!(f, "no member may become master: add a voter"),
            ConfigurationError::NodeZero => write!(f, "node 0 is no node"),
            ConfigurationError::Duplicate(node) => write!(f, "node {node} is listed twice"),
            ConfigurationError::TooManyVoters(found) => {
                write!(f, "{found} voters exceed the maximum of {VOTERS_MAX}")
            }
            ConfigurationError::TooManyMembers(found) => {
                write!(f, "{found} members exceed the maximum of {MEMBERS_MAX}")
            }
            ConfigurationError::Quorum { save, fit: Some((fewest, most)) } => {
                write!(
                    f,
                    "a write quorum of {save} is not possible: with these members it must be \
                     {fewest} to {most}"
                )
            }
            ConfigurationError::Quorum { save, fit: None } => {
                write!(
                    f,
                    "a write quorum of {save} is not possible: with these members it must be a \
                     majority"
                )
            }
        }
    }
}

impl std::error::Error for ConfigurationError {}
