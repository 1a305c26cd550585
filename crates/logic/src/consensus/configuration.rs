//! Configuration of a group: its members and their roles.

use super::quorum::Quorums;
use base::{ConfigurationId, NodeId, Part};
use std::fmt;

/// Most members that vote (voters and witnesses) in one configuration.
pub const VOTERS_MAX: usize = 7;
/// Most members of any kind in one configuration.
pub const MEMBERS_MAX: usize = 64;

/// One member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Which node.
    pub node: NodeId,
    /// What it does.
    pub part: Part,
}

/// The members of a group between two stop-signs. Members stand in the order of their node ids,
/// each once, and at least one of them may lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    id: ConfigurationId,
    members: Vec<Member>,
    /// How many voters save a value; none: a majority.
    quorum: Option<u8>,
}

/// Why a set of members is no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// No member may lead.
    NoLeader,
    /// Node 0 is no node.
    NodeZero,
    /// A node stands in it twice.
    Twice(NodeId),
    /// More than [`VOTERS_MAX`] members vote.
    TooManyVoters(usize),
    /// More than [`MEMBERS_MAX`] members.
    TooManyMembers(usize),
    /// So many of these voters can't be what saves a value.
    Quorum {
        /// How many were to.
        save: u8,
        /// The fewest and the most that can be; none: a majority alone.
        fit: Option<(u8, u8)>,
    },
}

impl Configuration {
    /// A configuration of these members, in any order.
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
            return Err(ConfigurationError::Twice(pair[0].node));
        }
        let voters = members.iter().filter(|member| member.part.votes()).count();
        if voters > VOTERS_MAX {
            return Err(ConfigurationError::TooManyVoters(voters));
        }
        if !members.iter().any(|member| member.part.leads()) {
            return Err(ConfigurationError::NoLeader);
        }
        Ok(Configuration { id, members, quorum: None })
    }

    /// The same, where so many voters save a value before it is decided; none: a majority. Fewer
    /// decide sooner, and then more must be there to elect a master; more keep more copies of what
    /// was acknowledged, and must all be there to decide.
    ///
    /// Errors: [`ConfigurationError::Quorum`] for less than two copies, for so many that the group
    /// would not go on without one of its voters (nobody could replace it), and where witnesses
    /// alone would be enough: somebody must keep the rows.
    pub fn with_quorum(self, quorum: Option<u8>) -> Result<Configuration, ConfigurationError> {
        let voters = self.voters().count();
        let witness = |member: &&Member| member.part == Part::Witness;
        let witnesses = self.members.iter().filter(witness).count();
        let fits = |save: u8| {
            let goes_on = Quorums::of(voters, Some(save)).most() < voters;
            usize::from(save) > witnesses.max(1) && goes_on
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

    /// How many voters save a value; none: a majority.
    pub fn quorum(&self) -> Option<u8> {
        self.quorum
    }

    /// How many voters' answers are enough.
    pub fn quorums(&self) -> Quorums {
        Quorums::of(self.voters().count(), self.quorum)
    }

    /// The configuration of a group that lives on one node.
    pub fn alone(id: ConfigurationId, node: NodeId) -> Result<Configuration, ConfigurationError> {
        Configuration::new(id, vec![Member { node, part: Part::Voter }])
    }

    /// Its number.
    pub fn id(&self) -> ConfigurationId {
        self.id
    }

    /// All members, in the order of their node ids.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The nodes whose answers count, in the order of their ids.
    pub fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|member| member.part.votes()).map(|member| member.node)
    }

    /// Whether a node's answer counts.
    pub fn votes(&self, node: NodeId) -> bool {
        self.part(node).is_some_and(Part::votes)
    }

    /// Whether a node may become master.
    pub fn leads(&self, node: NodeId) -> bool {
        self.part(node).is_some_and(Part::leads)
    }

    /// What a node does in this configuration; `None` for a stranger.
    pub fn part(&self, node: NodeId) -> Option<Part> {
        let place = self.members.binary_search_by_key(&node, |member| member.node).ok()?;
        Some(self.members[place].part)
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::NoLeader => write!(f, "no member may lead: add a voter"),
            ConfigurationError::NodeZero => write!(f, "node 0 is no node"),
            ConfigurationError::Twice(node) => write!(f, "node {node} stands in it twice"),
            ConfigurationError::TooManyVoters(found) => {
                write!(f, "{found} members vote, at most {VOTERS_MAX} may")
            }
            ConfigurationError::TooManyMembers(found) => {
                write!(f, "{found} members, at most {MEMBERS_MAX} may belong")
            }
            ConfigurationError::Quorum { save, fit: Some((fewest, most)) } => {
                write!(f, "a quorum of {save}: with these members it may be {fewest} to {most}")
            }
            ConfigurationError::Quorum { save, fit: None } => {
                write!(f, "a quorum of {save}: with these members only a majority may be one")
            }
        }
    }
}

impl std::error::Error for ConfigurationError {}
