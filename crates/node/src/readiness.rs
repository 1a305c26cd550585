//! Readiness: whether this node reaches the masters of its groups; if not, a sentence with the
//! reason, the missing nodes, and the remedy.
//!
//! `/ready`, the status, the log and refused requests say the same sentence. Nothing in it is
//! agreed on: it is what this node sees now.

use crate::groups::{Groups, keeps_up};
use crate::peer_links::PeerLinks;
use crate::settings::NodeSettings;
use base::duration::text_of_ms;
use base::{Error, GroupId, LogIndex, NodeId, Reason, Result};
use metadata::Directory;
use replication::group::Group;
use runtime::world;
use std::sync::Arc;
use transport::PeerStatus;

/// Groups named in one sentence at most.
const GROUPS_NAMED_MAX: usize = 8;
/// Time within which members that went count as away equally long, in milliseconds.
const TOGETHER_MS: u64 = 2_000;

/// A node without a connection from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Its name.
    pub name: String,
    /// For how long; none: this node does not dial it.
    pub away_ms: Option<u64>,
}

/// A group whose master this node does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreached {
    /// Id of the group.
    pub group: GroupId,
    /// The obstacle.
    pub cause: Cause,
}

/// Obstacle between this node and a group's master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Too few voters are reached for one of them to lead.
    Quorum { needed: usize, voters: usize, missing: Vec<Missing> },
    /// The only member that may lead (`forced_master`) is not reached.
    Forced(Missing),
    /// Logs were torn, and the group waits for a member that can tell what they held. Holds the
    /// sentence.
    Torn(String),
    /// Enough voters are reached, and none of them leads yet.
    Election { voters: Vec<String>, lasts_ms: u64 },
    /// Another node leads, and is not reached.
    Master(Missing),
}

impl Cause {
    /// Beginning of the sentence, up to the groups, and its rest; a torn log has a sentence of its
    /// own.
    fn words(&self) -> (String, String) {
        let see = "(see `credenza cluster status`)";
        match self {
            Cause::Quorum { needed, voters, missing } => {
                let head = match *needed == voters / 2 + 1 {
                    true => "no majority for".into(),
                    false => format!("no quorum ({needed} of {voters} voters) for"),
                };
                let it = if missing.len() == 1 { "it" } else { "them" };
                (head, format!("{}; start {it} {see}", away(missing)))
            }
            Cause::Forced(only) => {
                let name = &only.name;
                let text = away(std::slice::from_ref(only));
                let rest =
                    format!("only {name} may lead (`forced_master`): {text}; start it {see}");
                ("no master of".into(), rest)
            }
            Cause::Torn(sentence) => (sentence.clone(), String::new()),
            Cause::Election { voters, lasts_ms } => {
                let (names, lasts) = (voters.join(", "), text_of_ms(*lasts_ms));
                let rest = format!(
                    "its voters {names} are reached and have elected none for {lasts}; if that \
                     lasts, look into their logs {see}"
                );
                ("no master of".into(), rest)
            }
            Cause::Master(missing) => {
                let text = away(std::slice::from_ref(missing));
                let rest = format!("{text}; start it, or restore the connection {see}");
                ("no connection to the master of".into(), rest)
            }
        }
    }
}

/// `n2, n3 not reached for 12 s`.
fn away(missing: &[Missing]) -> String {
    let names =
        |all: &[Missing]| all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let times: Option<Vec<u64>> = missing.iter().map(|one| one.away_ms).collect();
    let times = times.unwrap_or_default();
    match (times.iter().max(), times.iter().min()) {
        (Some(longest), Some(shortest)) if longest - shortest < TOGETHER_MS => {
            format!("{} not reached for {}", names(missing), text_of_ms(*longest))
        }
        _ => {
            let one = |one: &Missing| match one.away_ms {
                Some(ms) => format!("{} not reached for {}", one.name, text_of_ms(ms)),
                None => format!("{} not reached", one.name),
            };
            missing.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A sentence for each cause, with the groups that it concerns.
pub(crate) fn sentences(unreached: &[Unreached]) -> Vec<String> {
    let mut causes: Vec<((String, String), Vec<GroupId>)> = Vec::new();
    for Unreached { group, cause } in unreached {
        let words = cause.words();
        match causes.iter_mut().find(|(known, _)| *known == words) {
            Some((_, groups)) => groups.push(*group),
            None => causes.push((words, vec![*group])),
        }
    }
    let sentence = |((head, rest), groups): ((String, String), Vec<GroupId>)| match rest.is_empty()
    {
        true => head,
        false => format!("{head} {}: {rest}", named(&groups)),
    };
    causes.into_iter().map(sentence).collect()
}

/// `group 0`, `groups 0, 1`.
pub(crate) fn named(groups: &[GroupId]) -> String {
    let shown: Vec<_> = groups.iter().take(GROUPS_NAMED_MAX).map(GroupId::to_string).collect();
    let (word, shown) = (if groups.len() == 1 { "group" } else { "groups" }, shown.join(", "));
    match groups.len().saturating_sub(GROUPS_NAMED_MAX) {
        0 => format!("{word} {shown}"),
        more => format!("{word} {shown} and {more} more"),
    }
}

/// Looks whether the masters are reached.
pub(crate) struct Readiness {
    pub settings: Arc<NodeSettings>,
    pub groups: Arc<Groups>,
    pub directory: Arc<Directory>,
    pub links: Arc<PeerLinks>,
    /// Time of the node's start, milliseconds.
    pub started_ms: u64,
}

impl Readiness {
    /// Checks that this node reaches the master of every group in which it has a replica. The
    /// directory is one of them for every node, so an isolated node is never ready. Requests for
    /// other groups look for a member when they come.
    pub(crate) fn reaches_masters(&self) -> Result<()> {
        let sentences = sentences(&self.unreached());
        match sentences.is_empty() {
            true => Ok(()),
            false => Err(Error::new(Reason::NoQuorum, sentences.join("; "))),
        }
    }

    /// Returns the groups whose masters this node does not reach, with the causes.
    pub(crate) fn unreached(&self) -> Vec<Unreached> {
        let groups = self.groups.all();
        let counted = groups.iter().filter(|group| keeps_up(group));
        let unreached =
            |group: &Arc<Group>| Some(Unreached { group: group.id, cause: self.obstacle(group)? });
        counted.filter_map(unreached).collect()
    }

    /// True if this node is master of the group, or has a connection to the master.
    pub(crate) fn reaches_master(&self, group: &Group) -> bool {
        let master = group.leadership.standing().borrow().master;
        master.is_some_and(|master| self.is_here_or_linked(master))
    }

    /// Returns the error of a request that found no master, with the names of the missing nodes.
    pub(crate) fn with_missing(&self, group: GroupId, error: Error) -> Error {
        let group = self.groups.get(group).filter(|_| error.reason == Reason::NoQuorum);
        let unreached = group
            .and_then(|group| Some(Unreached { group: group.id, cause: self.obstacle(&group)? }));
        let Some(unreached) = unreached else { return error };
        let text = sentences(&[unreached]).join("; ");
        Error::new(Reason::NoQuorum, format!("{text}; nothing was done, try again"))
    }

    fn obstacle(&self, group: &Group) -> Option<Cause> {
        if self.reaches_master(group) {
            return None;
        }
        let standing = *group.leadership.standing().borrow();
        let peers = self.links.status();
        Some(match standing.master {
            Some(master) => Cause::Master(self.missing(&peers, master)),
            None => self.leaderless(group, &peers, standing.since_ms.max(self.started_ms)),
        })
    }

    /// The reason why a group has no master, as far as this node can tell.
    fn leaderless(&self, group: &Group, peers: &[PeerStatus], since_ms: u64) -> Cause {
        let (voters, needed) = {
            let configuration = group.configuration();
            (configuration.voters().collect::<Vec<_>>(), configuration.quorums().most())
        };
        let (reached, absent): (Vec<&NodeId>, Vec<&NodeId>) =
            voters.iter().partition(|node| self.is_here_or_linked(**node));
        if reached.len() < needed {
            let missing = absent.into_iter().map(|node| self.missing(peers, *node)).collect();
            return Cause::Quorum { needed, voters: voters.len(), missing };
        }
        let awaits = group.awaits_logs(&group.state(), |node| self.links.name_of(node));
        if let Some(sentence) = awaits {
            return Cause::Torn(sentence);
        }
        let forced = self.settings.forced_among(&self.directory.catalog.cluster());
        if absent.contains(&&forced) {
            return Cause::Forced(self.missing(peers, forced));
        }
        Cause::Election {
            voters: reached.into_iter().map(|node| self.links.name_of(*node)).collect(),
            lasts_ms: world::milliseconds().saturating_sub(since_ms),
        }
    }

    fn is_here_or_linked(&self, node: NodeId) -> bool {
        node == self.links.node || self.links.is_linked(node)
    }

    fn missing(&self, peers: &[PeerStatus], node: NodeId) -> Missing {
        let peer = peers.iter().find(|peer| peer.node == node);
        Missing { name: self.links.name_of(node), away_ms: peer.and_then(|peer| peer.away_ms) }
    }

    /// Checks that requests of available buckets can be served: the ring is known, or this node has
    /// applied all of a directory that has none (an old cluster's).
    pub(crate) fn knows_ring(&self) -> Result<()> {
        let directory = &self.directory.group;
        let (applied, decided) = (directory.applied.index(), directory.state().replica.decided());
        let ring = self.directory.catalog.available.ring();
        if ring.is_some() || applied > LogIndex(0) && applied >= decided {
            return Ok(());
        }
        let text = "the ring of available buckets is not known here yet: it comes with the \
                    directory, in a moment";
        Err(Error::new(Reason::NoQuorum, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(name: &str, away_ms: u64) -> Missing {
        Missing { name: name.into(), away_ms: Some(away_ms) }
    }

    fn unreached(group: u32, cause: Cause) -> Unreached {
        Unreached { group: GroupId(group), cause }
    }

    #[test]
    fn the_sentence_names_the_groups_who_is_missing_for_how_long_and_the_remedy() {
        let two = |group| {
            let missing = vec![missing("n2", 12_900), missing("n3", 12_100)];
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
    fn members_that_went_at_different_times_have_their_own() {
        let apart = [missing("n2", 200_000), missing("n3", 5_000)];
        assert_eq!(away(&apart), "n2 not reached for 3 min, n3 not reached for 5 s");
        let unknown = [missing("n2", 1_000), Missing { name: "n3".into(), away_ms: None }];
        assert_eq!(away(&unknown), "n2 not reached for 1 s, n3 not reached");
    }

    #[test]
    fn each_cause_has_its_own_remedy() {
        let quorum = Cause::Quorum { needed: 4, voters: 5, missing: vec![missing("n5", 3_000)] };
        let voters = vec!["n1".into(), "n2".into()];
        let election = Cause::Election { voters, lasts_ms: 4_000 };
        let causes = [
            (quorum, "no quorum (4 of 5 voters) for group 1: n5 not reached for 3 s; start it"),
            (election, "no master of group 1: its voters n1, n2 are reached"),
            (Cause::Master(missing("n2", 9_000)), "no connection to the master of group 1: n2 not"),
            (Cause::Forced(missing("n3", 9_000)), "no master of group 1: only n3 may lead"),
            (Cause::Torn("a log was torn".into()), "a log was torn"),
        ];
        for (cause, begins) in causes {
            let said = sentences(&[unreached(1, cause)]);
            assert!(said[0].starts_with(begins), "{said:?}");
        }
    }
}
