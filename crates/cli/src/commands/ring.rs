//! `credenza cluster ring`: owners of the partitions of available buckets, and changes of the ring.

use super::NodeArguments;
use super::ring_table::{MemberNames, shares, show_plan, show_transfers};
use super::wait::until_done;
use crate::output::{self, printable_text};
use api::{ClusterStatus, HexId, Ring, RingChange, RingPlan, RingTransfers};
use base::limits::PARTITIONS_MAX;
use base::{Kind, Membership, Part};
use client::Client;
use program::{Failure, Outcome};
use std::ops::RangeInclusive;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(500);
/// Numbers of partitions that a ring can have.
const PARTITIONS: RangeInclusive<usize> = 8..=PARTITIONS_MAX;

/// `credenza cluster ring`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RingCommand {
    #[command(subcommand)]
    step: Option<RingStep>,
    #[command(flatten)]
    arguments: NodeArguments,
}

/// Step of a change. `join`, `replace`, `rack`, `resize` and `leave` plan a change; no data moves
/// before `commit`.
#[derive(clap::Subcommand)]
enum RingStep {
    /// Give every member that stays an even part, all at once; only while no member holds data of
    /// available buckets
    Init(NodeArguments),
    /// A member is to keep its part
    Join {
        /// The member's name
        node: String,
        /// Failure domain: copies are kept in different racks where possible
        #[arg(long, default_value = "")]
        rack: String,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// A member that keeps nothing is to keep what another one keeps; nothing else moves; the one
    /// that goes may be down for good
    Replace {
        /// Member that leaves
        node: String,
        /// Member that takes its place
        by: String,
        /// Failure domain
        #[arg(long, default_value = "")]
        rack: String,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// A member stands in another rack
    Rack {
        /// The member's name
        node: String,
        /// Its rack; `""` for one of its own
        rack: String,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// The ring is to have twice as many partitions (each is split in place, nothing moves), or
    /// half as many (pairs are merged, after their copies have come together)
    Resize {
        /// Number of partitions: twice or half as many as there are, 8 to 1,024
        partitions: usize,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// Show what the planned changes would do
    Plan(NodeArguments),
    /// Call off the change under way: what has gone over goes back
    Cancel(NodeArguments),
    /// Plan that a member gives up its part of the ring; of one that is down for good the others
    /// fetch its part from each other (Riak's `force-remove`)
    #[command(visible_alias = "force-remove")]
    Leave {
        /// The member's name; of one that was removed, its id
        node: String,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// Says what to do about a member that is down: nobody has to be told that it is
    Down {
        /// The member's name
        node: String,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// Discard the planned changes
    Clear(NodeArguments),
    /// Begin the planned changes
    Commit {
        /// Wait until everything has gone over and been cleared
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        arguments: NodeArguments,
    },
    /// Show how far the ring's change under way is
    Transfers(NodeArguments),
}

impl RingCommand {
    /// Runs a step, or shows the ring.
    pub async fn run(self) -> Outcome {
        match self.step {
            Some(step) => step.run().await,
            None => {
                let mut client = self.arguments.address.client()?;
                let names = self.arguments.names_unless_json(&mut client).await?;
                print_ring(&client.ring().await?, names)
            }
        }
    }
}

/// Returns the names of members that own no partition of available buckets though they could.
pub async fn members_without_partitions(
    client: &mut Client,
    cluster: &ClusterStatus,
) -> Outcome<Vec<String>> {
    Ok(idle(&client.ring().await?, cluster))
}

/// Returns a member's id, and the number of partitions of available buckets that it owns. `None`:
/// it owns none, or there is no such member.
pub async fn owned_partitions(
    client: &mut Client,
    cluster: &ClusterStatus,
    name: &str,
) -> Outcome<Option<(HexId, usize)>> {
    let Some(member) = cluster.members.iter().find(|member| member.name == name) else {
        return Ok(None);
    };
    let owners = client.ring().await?.owners;
    let count = owners.iter().filter(|owner| **owner == member.node).count();
    Ok((count > 0).then_some((member.node, count)))
}

fn idle(ring: &Ring, cluster: &ClusterStatus) -> Vec<String> {
    let is_witness = |node: HexId| {
        let mut parts = cluster.groups.iter().flat_map(|group| &group.desired);
        parts.any(|part| part.node == node && part.part == Part::Witness)
    };
    let members = cluster.members.iter().filter(|member| {
        let is_staying = member.membership == Membership::Member;
        is_staying && !ring.owners.contains(&member.node) && !is_witness(member.node)
    });
    members.map(|member| printable_text(&member.name)).collect()
}

impl RingStep {
    async fn run(self) -> Outcome {
        let (change, arguments) = match self {
            RingStep::Join { node, rack, arguments } => {
                (RingChange::Join { node, rack: Some(rack) }, arguments)
            }
            RingStep::Replace { node, by, rack, arguments } => {
                (RingChange::Replace { node, by, rack: Some(rack) }, arguments)
            }
            RingStep::Rack { node, rack, arguments } => {
                (RingChange::Rack { node, rack }, arguments)
            }
            RingStep::Leave { node, arguments } => (RingChange::Leave { node }, arguments),
            RingStep::Resize { partitions, arguments } => {
                let now = arguments.address.client()?.ring().await?.owners.len();
                (resize(now, partitions)?, arguments)
            }
            RingStep::Init(arguments) => {
                let mut client = arguments.address.client()?;
                let names = arguments.names_unless_json(&mut client).await?;
                return print_ring(&client.claim_ring().await?, names);
            }
            RingStep::Plan(arguments) => {
                let mut client = arguments.address.client()?;
                let names = arguments.names_unless_json(&mut client).await?;
                return print_plan(&client.ring_plan().await?, names);
            }
            RingStep::Cancel(arguments) => {
                let mut client = arguments.address.client()?;
                let names = arguments.names_unless_json(&mut client).await?;
                return print_ring(&client.cancel_ring().await?, names);
            }
            RingStep::Down { node, arguments } => return arguments.explain_down(&node).await,
            RingStep::Clear(arguments) => return arguments.address.client()?.clear_plan().await,
            RingStep::Commit { wait, arguments } => return arguments.commit(wait).await,
            RingStep::Transfers(arguments) => {
                let mut client = arguments.address.client()?;
                let transfers = client.transfers().await?;
                if arguments.json {
                    return output::json(&transfers);
                }
                return show_transfers(&transfers, &names(&mut client).await?);
            }
        };
        let mut client = arguments.address.client()?;
        let names = arguments.names_unless_json(&mut client).await?;
        print_plan(&client.plan_change(&change).await?, names)
    }
}

async fn names(client: &mut Client) -> Outcome<MemberNames> {
    Ok(MemberNames::of(&client.cluster().await?))
}

impl NodeArguments {
    /// Returns the members' names for output as text. `None`: the output is JSON. Call it before
    /// any change: if it fails afterwards, a successful change looks failed.
    async fn names_unless_json(&self, client: &mut Client) -> Outcome<Option<MemberNames>> {
        if self.json { Ok(None) } else { names(client).await.map(Some) }
    }

    /// Explains how to handle a member that is down, always as an error: the other nodes detect it
    /// by themselves.
    async fn explain_down(&self, node: &str) -> Outcome {
        if !names(&mut self.address.client()?).await?.has(node) {
            let text = format!("no member `{node}`: `credenza cluster status` lists them");
            return Err(Failure::new(Kind::Invalid, text));
        }
        let text = format!(
            "nobody has to be told that `{node}` is down: the others see it, stand in for it, and \
             change the ring without it. If it comes back, do nothing. If it does not: `credenza \
             cluster ring leave {node}` gives its part to the others, `credenza cluster ring \
             replace {node} NEW` to a new member; then `credenza cluster remove {node}`"
        );
        Err(Failure::new(Kind::Invalid, text))
    }

    /// Shows the plan, and commits exactly that plan: the request carries its epoch.
    async fn commit(&self, wait: bool) -> Outcome {
        let mut client = self.address.client()?;
        let plan = client.ring_plan().await?;
        if !self.json && !plan.changes.is_empty() {
            show_plan(&plan, &names(&mut client).await?)?;
        }
        let ring = client.commit_plan(plan.epoch).await?;
        if wait {
            self.wait(&mut client).await?;
        }
        if self.json { output::json(&ring) } else { Ok(()) }
    }

    /// Waits until no transfer is in progress and no node has rows left to delete.
    async fn wait(&self, client: &mut Client) -> Outcome {
        let poll = async || {
            let transfers = client.transfers().await?;
            let waits_for = waiting_reasons(&transfers);
            Ok((!is_done(&transfers)).then_some((transfers, waits_for)))
        };
        until_done((self.address.timeout, PAUSE), poll, |waits_for| {
            format!(
                "the change does not get on: {waits_for} (it goes on when it can; `credenza \
                 cluster ring transfers` shows how far it is, `credenza cluster ring cancel` calls \
                 it off)"
            )
        })
        .await
    }
}

/// Returns the change from one number of partitions to another. Fails if there is none.
fn resize(now: usize, wanted: usize) -> Outcome<RingChange> {
    let steps = [(RingChange::Halve {}, now / 2), (RingChange::Double {}, now * 2)];
    let possible: Vec<_> =
        steps.into_iter().filter(|(_, number)| PARTITIONS.contains(number)).collect();
    match possible.iter().find(|(_, number)| *number == wanted) {
        Some((change, _)) => Ok(change.clone()),
        None => {
            let numbers: Vec<_> = possible.iter().map(|(_, number)| number.to_string()).collect();
            let text = format!(
                "the ring has {now} partitions: {} is possible, not {wanted}",
                numbers.join(" or ")
            );
            Err(Failure::invalid(text))
        }
    }
}

/// Prints the ring with names of members. `None`: as JSON.
fn print_ring(ring: &Ring, names: Option<MemberNames>) -> Outcome {
    let Some(names) = names else { return output::json(ring) };
    output::text(&format!("epoch {}\n\n", ring.epoch))?;
    output::table(&["member", "partitions"], shares(ring, &names))
}

/// Prints a plan with names of members. `None`: as JSON.
fn print_plan(plan: &RingPlan, names: Option<MemberNames>) -> Outcome {
    names.map_or_else(|| output::json(plan), |names| show_plan(plan, &names))
}

/// Returns true if no transfer is in progress and no node has rows left to delete.
pub fn is_done(transfers: &RingTransfers) -> bool {
    transfers.remaining == 0 && transfers.nodes.iter().all(|node| node.clearing == 0)
}

/// Returns the conditions that the nodes wait for.
pub fn waiting_reasons(transfers: &RingTransfers) -> String {
    let reasons = transfers.nodes.iter().map(|node| printable_text(&node.waits_for));
    let reasons: Vec<_> = reasons.filter(|reasons| reasons != "-" && !reasons.is_empty()).collect();
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ring_resize_accepts_only_double_or_half_within_limits() {
        assert_eq!(resize(64, 128).ok(), Some(RingChange::Double {}));
        assert_eq!(resize(64, 32).ok(), Some(RingChange::Halve {}));
        for (now, wanted, expected) in [
            (64, 64, "has 64 partitions: 32 or 128 is possible, not 64"),
            (64, 256, "32 or 128 is possible, not 256"),
            (8, 4, "has 8 partitions: 16 is possible, not 4"),
            (1_024, 2_048, "has 1024 partitions: 512 is possible, not 2048"),
        ] {
            let said = resize(now, wanted).expect_err("refused").to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn idle_members_exclude_leaving_members_and_witnesses() {
        let id = |number: u64| HexId(number).to_string();
        let member = |number: u64, membership: &str| {
            let name = format!("n{number}");
            json!({ "node": id(number), "name": name, "membership": membership })
        };
        let cluster = json!({
            "members": [member(1, "member"), member(2, "member"), member(3, "leaving"),
                member(4, "member")],
            "groups": [{ "desired": [{ "node": id(4), "name": "n4", "part": "witness" }] }],
        });
        let cluster = serde_json::from_value(cluster).expect("a cluster");
        let ring =
            |owners: &[u64]| Ring { epoch: 1, owners: owners.iter().copied().map(HexId).collect() };
        assert_eq!(idle(&ring(&[1, 1, 3]), &cluster), ["n2"]);
        assert!(idle(&ring(&[1, 2]), &cluster).is_empty());
    }
}
