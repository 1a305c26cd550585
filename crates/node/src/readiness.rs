//! Readiness: whether this node reaches the masters of its groups; if not, a sentence with the
//! reason, the missing nodes, and the remedy.
//!
//! `/ready`, the status, the log and refused requests say the same sentence. Nothing in it is
//! agreed on: it is what this node sees now.

use crate::alarm_register::Finding;
use crate::settings::NodeSettings;
use base::duration::format_ms;
use base::{AlarmCode, Error, GroupId, LogIndex, NodeId, Reason, Result};
use metadata::Directory;
use replica_host::{Groups, PeerLinks, follows};
use replication::group::Group;
use runtime::world;
use std::sync::Arc;
use transport::PeerStatus;

/// Maximum number of groups named in one sentence.
const GROUPS_NAMED_MAX: usize = 8;
/// Maximum difference of times for which nodes count as lost together, in milliseconds.
const SIMULTANEOUS_MS: u64 = 2_000;

/// Node without a connection from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreachableNode {
    /// Its name.
    pub name: String,
    /// Time without a connection, in milliseconds. `None`: this node does not dial it.
    pub unreachable_ms: Option<u64>,
}

/// A group whose master this node does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreached {
    /// Id of the group.
    pub group: GroupId,
    /// Reason why the master is not reached.
    pub cause: Cause,
}

/// Obstacle between this node and a group's master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Too few voters are reached for one of them to lead.
    Quorum { needed: usize, voters: usize, missing: Vec<UnreachableNode> },
    /// The only member that may lead (`forced_master`) is not reached.
    Forced(UnreachableNode),
    /// Logs were torn, and the group waits for a member that has the missing entries. Holds the
    /// sentence.
    Torn(String),
    /// Enough voters are reached, and none of them leads yet.
    Election { voters: Vec<String>, elapsed_ms: u64 },
    /// Another node leads, and is not reached.
    Master(UnreachableNode),
}

/// Parts of a sentence about groups without a reachable master.
#[derive(Debug, PartialEq, Eq)]
struct SentenceParts {
    /// Beginning, before the groups.
    head: String,
    /// Cause and remedy, behind the groups. `None`: the beginning is the whole sentence.
    cause: Option<(String, String)>,
}

impl Cause {
    /// Returns the parts of the sentence. That of a torn log is complete.
    fn sentence_parts(&self) -> SentenceParts {
        let see = "(see `credenza cluster status`)";
        let parts = |head: String, cause: String, remedy: String| SentenceParts {
            head,
            cause: Some((cause, remedy)),
        };
        match self {
            Cause::Quorum { needed, voters, missing } => {
                let head = match *needed == voters / 2 + 1 {
                    true => "no majority for".into(),
                    false => format!("no quorum ({needed} of {voters} voters) for"),
                };
                let pronoun = if missing.len() == 1 { "it" } else { "them" };
                parts(head, describe_unreachable(missing), format!("start {pronoun} {see}"))
            }
            Cause::Forced(node) => {
                let name = &node.name;
                let text = describe_unreachable(std::slice::from_ref(node));
                let cause = format!("only {name} may lead (`forced_master`): {text}");
                parts("no master of".into(), cause, format!("start it {see}"))
            }
            Cause::Torn(sentence) => SentenceParts { head: sentence.clone(), cause: None },
            Cause::Election { voters, elapsed_ms } => {
                let (names, lasts) = (voters.join(", "), format_ms(*elapsed_ms));
                let cause =
                    format!("its voters {names} are connected but have elected none for {lasts}");
                let remedy = format!("if that continues, read their logs {see}");
                parts("no master of".into(), cause, remedy)
            }
            Cause::Master(missing) => {
                let text = describe_unreachable(std::slice::from_ref(missing));
                let remedy = format!("start it, or restore the connection {see}");
                parts("no connection to the master of".into(), text, remedy)
            }
        }
    }
}

/// `n2, n3 not reached for 12 s`.
fn describe_unreachable(missing: &[UnreachableNode]) -> String {
    let names = |all: &[UnreachableNode]| {
        all.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let times: Option<Vec<u64>> = missing.iter().map(|node| node.unreachable_ms).collect();
    let times = times.unwrap_or_default();
    match (times.iter().max(), times.iter().min()) {
        (Some(longest), Some(shortest)) if longest - shortest < SIMULTANEOUS_MS => {
            format!("{} not reached for {}", names(missing), format_ms(*longest))
        }
        _ => {
            let node = |node: &UnreachableNode| match node.unreachable_ms {
                Some(ms) => format!("{} not reached for {}", node.name, format_ms(ms)),
                None => format!("{} not reached", node.name),
            };
            missing.iter().map(node).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns the different causes, each with its groups.
fn causes(unreached: &[Unreached]) -> Vec<(SentenceParts, Vec<GroupId>)> {
    let mut causes: Vec<(SentenceParts, Vec<GroupId>)> = Vec::new();
    for Unreached { group, cause } in unreached {
        let parts = cause.sentence_parts();
        match causes.iter_mut().find(|(known, _)| *known == parts) {
            Some((_, groups)) => groups.push(*group),
            None => causes.push((parts, vec![*group])),
        }
    }
    causes
}

/// Returns a sentence for each cause, with its groups and the remedy.
pub(crate) fn sentences(unreached: &[Unreached]) -> Vec<String> {
    let sentence = |(parts, groups): (SentenceParts, Vec<GroupId>)| match parts.cause {
        None => parts.head,
        Some((cause, remedy)) => {
            format!("{} {}: {cause}; {remedy}", parts.head, group_names(&groups))
        }
    };
    causes(unreached).into_iter().map(sentence).collect()
}

/// Returns the findings of the alarm `no_quorum`, one for each cause. Torn logs have an alarm of
/// their own.
pub(crate) fn findings(unreached: &[Unreached]) -> impl Iterator<Item = Finding> {
    causes(unreached).into_iter().filter_map(|(parts, groups)| {
        let (groups, (cause, _)) = (group_names(&groups), parts.cause?);
        let detail = format!("{} {groups}: {cause}", parts.head);
        Some(Finding::new(AlarmCode::NoQuorum, &groups, detail))
    })
}

/// `group 0`, `groups 0, 1`.
pub(crate) fn group_names(groups: &[GroupId]) -> String {
    let shown: Vec<_> = groups.iter().take(GROUPS_NAMED_MAX).map(GroupId::to_string).collect();
    let (word, shown) = (if groups.len() == 1 { "group" } else { "groups" }, shown.join(", "));
    match groups.len().saturating_sub(GROUPS_NAMED_MAX) {
        0 => format!("{word} {shown}"),
        more => format!("{word} {shown} and {more} more"),
    }
}

/// Check of the connections to the groups' masters.
pub(crate) struct Readiness {
    pub settings: Arc<NodeSettings>,
    pub groups: Arc<Groups>,
    pub directory: Arc<Directory>,
    pub links: Arc<PeerLinks>,
    /// Time of the node's start, milliseconds.
    pub started_ms: u64,
}

impl Readiness {
    /// Checks that this node reaches the master of every group of which it has a replica. Every
    /// node has one of the directory, so an isolated node is never ready. Requests for other groups
    /// look up a member when they arrive.
    pub(crate) fn check_masters_reached(&self) -> Result<()> {
        let sentences = sentences(&self.unreached());
        match sentences.is_empty() {
            true => Ok(()),
            false => Err(Error::new(Reason::NoQuorum, sentences.join("; "))),
        }
    }

    /// Returns the groups whose masters this node does not reach, with the causes.
    pub(crate) fn unreached(&self) -> Vec<Unreached> {
        let groups = self.groups.all();
        let followed = groups.iter().filter(|group| follows(group));
        let unreached =
            |group: &Arc<Group>| Some(Unreached { group: group.id, cause: self.cause_of(group)? });
        followed.filter_map(unreached).collect()
    }

    /// Returns true if this node is master of the group, or has a connection to the master.
    pub(crate) fn is_master_reached(&self, group: &Group) -> bool {
        let master = group.leadership.subscribe().borrow().master;
        master.is_some_and(|master| self.is_here_or_linked(master))
    }

    /// Returns the error of a request that found no master, with the names of the unreachable
    /// nodes.
    pub(crate) fn explain_no_master(&self, group: GroupId, error: Error) -> Error {
        let group = self.groups.get(group).filter(|_| error.reason == Reason::NoQuorum);
        let unreached = group
            .and_then(|group| Some(Unreached { group: group.id, cause: self.cause_of(&group)? }));
        let Some(unreached) = unreached else { return error };
        let text = sentences(&[unreached]).join("; ");
        Error::new(Reason::NoQuorum, format!("{text}; nothing was done, try again"))
    }

    fn cause_of(&self, group: &Group) -> Option<Cause> {
        if self.is_master_reached(group) {
            return None;
        }
        let leadership = *group.leadership.subscribe().borrow();
        let peers = self.links.status();
        Some(match leadership.master {
            Some(master) => Cause::Master(self.unreachable_node(&peers, master)),
            None => self.no_master_cause(group, &peers, leadership.since_ms.max(self.started_ms)),
        })
    }

    /// Returns the reason why a group has no master, as far as this node can tell.
    fn no_master_cause(&self, group: &Group, peers: &[PeerStatus], since_ms: u64) -> Cause {
        let (voters, needed) = {
            let configuration = group.configuration();
            (
                configuration.voters().collect::<Vec<_>>(),
                configuration.quorums().required_connected(),
            )
        };
        let (reached, unreached): (Vec<&NodeId>, Vec<&NodeId>) =
            voters.iter().partition(|node| self.is_here_or_linked(**node));
        if reached.len() < needed {
            let missing =
                unreached.into_iter().map(|node| self.unreachable_node(peers, *node)).collect();
            return Cause::Quorum { needed, voters: voters.len(), missing };
        }
        let torn_logs =
            group.describe_awaited_logs(&group.state(), |node| self.links.name_of(node));
        if let Some(sentence) = torn_logs {
            return Cause::Torn(sentence);
        }
        let forced = self.settings.forced_master_id(&self.directory.catalog.cluster());
        if unreached.contains(&&forced) {
            return Cause::Forced(self.unreachable_node(peers, forced));
        }
        Cause::Election {
            voters: reached.into_iter().map(|node| self.links.name_of(*node)).collect(),
            elapsed_ms: world::milliseconds().saturating_sub(since_ms),
        }
    }

    fn is_here_or_linked(&self, node: NodeId) -> bool {
        node == self.links.node || self.links.is_linked(node)
    }

    fn unreachable_node(&self, peers: &[PeerStatus], node: NodeId) -> UnreachableNode {
        let peer = peers.iter().find(|peer| peer.node == node);
        UnreachableNode {
            name: self.links.name_of(node),
            unreachable_ms: peer.and_then(|peer| peer.disconnected_ms),
        }
    }

    /// Checks that requests of available buckets can be served: the ring is known, or this node has
    /// applied all of a directory that has none (an old cluster's).
    pub(crate) fn check_ring_known(&self) -> Result<()> {
        let directory = &self.directory.group;
        let (applied, decided) = (directory.applied.index(), directory.state().replica.decided());
        let ring = self.directory.catalog.available.ring();
        if ring.is_some() || applied > LogIndex(0) && applied >= decided {
            return Ok(());
        }
        let text = "this node does not know the ring of available buckets yet: it receives it with \
                    the directory in a moment";
        Err(Error::new(Reason::NoQuorum, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable(name: &str, unreachable_ms: u64) -> UnreachableNode {
        UnreachableNode { name: name.into(), unreachable_ms: Some(unreachable_ms) }
    }

    fn unreached(group: u32, cause: Cause) -> Unreached {
        Unreached { group: GroupId(group), cause }
    }

    #[test]
    fn quorum_loss_message_names_groups_nodes_duration_and_remedy() {
        let two = |group| {
            let missing = vec![unreachable("n2", 12_900), unreachable("n3", 12_100)];
            unreached(group, Cause::Quorum { needed: 2, voters: 3, missing })
        };
        assert_eq!(
            sentences(&[two(0)]),
            ["no majority for group 0: n2, n3 not reached for 12 s; start them (see `credenza \
              cluster status`)"]
        );
        let all = sentences(&[two(0), two(1)]);
        assert!(all.len() == 1 && all[0].starts_with("no majority for groups 0, 1: "), "{all:?}");
        let many: Vec<_> = (0..10).map(two).collect();
        assert!(sentences(&many)[0].contains("groups 0, 1, 2, 3, 4, 5, 6, 7 and 2 more: "));
    }

    #[test]
    fn members_missing_for_different_times_are_listed_separately() {
        let apart = [unreachable("n2", 200_000), unreachable("n3", 5_000)];
        assert_eq!(
            describe_unreachable(&apart),
            "n2 not reached for 3 min, n3 not reached for 5 s"
        );
        let unknown =
            [unreachable("n2", 1_000), UnreachableNode { name: "n3".into(), unreachable_ms: None }];
        assert_eq!(describe_unreachable(&unknown), "n2 not reached for 1 s, n3 not reached");
    }

    #[test]
    fn readiness_message_depends_on_the_cause() {
        let quorum =
            Cause::Quorum { needed: 4, voters: 5, missing: vec![unreachable("n5", 3_000)] };
        let voters = vec!["n1".into(), "n2".into()];
        let election = Cause::Election { voters, elapsed_ms: 4_000 };
        let causes = [
            (quorum, "no quorum (4 of 5 voters) for group 1: n5 not reached for 3 s; start it"),
            (election, "no master of group 1: its voters n1, n2 are connected"),
            (
                Cause::Master(unreachable("n2", 9_000)),
                "no connection to the master of group 1: n2 not",
            ),
            (Cause::Forced(unreachable("n3", 9_000)), "no master of group 1: only n3 may lead"),
            (Cause::Torn("a log was torn".into()), "a log was torn"),
        ];
        for (cause, begins) in causes {
            let said = sentences(&[unreached(1, cause)]);
            assert!(said[0].starts_with(begins), "{said:?}");
        }
    }
}
