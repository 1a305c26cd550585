//! `credenza group`: groups, and their placement.

use super::NodeArguments;
use super::cluster_status::{GROUPS, group_rows, members_text};
use super::group_verify::GroupVerify;
use crate::output;
use api::{DesiredMember, Integer, NewGroup};
use client::Address;
use program::{Failure, Outcome};
use std::collections::BTreeSet;

pub const EXAMPLES: &str = "\
Examples:
  credenza group status
  credenza group create                            on three members that are in the fewest groups
  credenza group create --replicas 5
  credenza group create --members n1,n4,n5
  credenza group members 1 n1 n2 n4                these vote in group 1, nobody else
  credenza group members 1 n1 n2 n4 n5=learner     n5 gets a copy and no vote
  credenza group members 1 n1 n2 w=witness         w joined as a witness: a vote and no copy
  credenza group quorum 1 2                        of five voters two save a value, and four elect
  credenza group drop 2                            when no bucket lives in it any more
  credenza group verify 1                          do all replicas hold the same rows?

Group 0 is the directory, group 1 holds the buckets for which no other group is named.
`credenza cluster plan` shows the steps.";

/// `credenza group`.
#[derive(clap::Subcommand)]
pub enum Group {
    /// Show each group: its master, its desired and its actual members
    Status(NodeArguments),
    /// Make another group, so that more than one node can be master of something
    Create(Create),
    /// Set the members that a group is to have
    Members(GroupMembers),
    /// Say how many voters save a value before it is acknowledged
    Quorum(Quorum),
    /// End a group in which no bucket lives; its number is never given again
    Drop(Drop),
    /// Compare the replicas of a group, or of all: exit code 7 if they differ
    Verify(GroupVerify),
}

/// Arguments of the creation of a group.
#[derive(clap::Args)]
pub struct Create {
    /// Number of voters; 3, or as many as there are members, unless members are named
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Its voters; without this, the members that are in the fewest groups
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    members: Vec<String>,
    #[command(flatten)]
    node: NodeArguments,
}

/// Arguments: one group and its desired members.
#[derive(clap::Args)]
pub struct GroupMembers {
    /// The group's number
    group: u32,
    /// Members: `NAME` votes, `NAME=learner` does not, `NAME=witness` votes and holds no data
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<String>,
    #[command(flatten)]
    address: Address,
}

/// Arguments: one group and its quorum.
#[derive(clap::Args)]
pub struct Quorum {
    /// The group's number
    group: u32,
    /// Number of voters that save a value: fewer answer sooner, but more must be up to elect a
    /// master; more keep more copies, and must all be up to write. `majority`: the default
    #[arg(value_name = "VOTERS", value_parser = quorum)]
    quorum: QuorumChoice,
    #[command(flatten)]
    address: Address,
}

/// Number of voters in the quorum. `None`: a majority.
#[derive(Clone, Copy)]
struct QuorumChoice(Option<u8>);

fn quorum(text: &str) -> Result<QuorumChoice, String> {
    match (text, text.parse()) {
        ("majority", _) => Ok(QuorumChoice(None)),
        (_, Ok(quorum)) => Ok(QuorumChoice(Some(quorum))),
        _ => Err("a number of voters, or `majority`".into()),
    }
}

/// Arguments of the removal of a group.
#[derive(clap::Args)]
pub struct Drop {
    /// The group's number
    group: u32,
    #[command(flatten)]
    address: Address,
}

impl Group {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        match self {
            Group::Status(node) => status(&node).await,
            Group::Create(arguments) => arguments.send().await,
            Group::Members(arguments) => arguments.send().await,
            Group::Quorum(Quorum { group, quorum, address }) => {
                address.client()?.set_quorum(group, quorum.0).await
            }
            Group::Drop(Drop { group, address }) => address.client()?.drop_group(group).await,
            Group::Verify(arguments) => arguments.run().await,
        }
    }
}

async fn status(node: &NodeArguments) -> Outcome {
    let cluster = node.address.client()?.cluster().await?;
    if node.json {
        return output::json(&cluster.groups);
    }
    output::table(&GROUPS, group_rows(&cluster))
}

impl Create {
    async fn send(self) -> Outcome {
        let mut client = self.node.address.client()?;
        let replicas = self.replicas.map(|replicas| Integer(replicas.into()));
        let group = NewGroup { replicas, members: Some(self.members) };
        let placement = client.create_group(&group).await?;
        if self.node.json {
            return output::json(&placement);
        }
        let number = placement.group;
        // The group exists, even if this request for its members fails.
        let groups = client.cluster().await.map_or_else(|_| Vec::new(), |cluster| cluster.groups);
        let status = groups.iter().find(|group| group.group == number);
        let members =
            status.map_or_else(String::new, |group| members_text(&group.desired, &BTreeSet::new()));
        output::text(&format!(
            "group {number}: {members}\nuse it: credenza bucket create NAME --group {number}\n"
        ))
    }
}

impl GroupMembers {
    async fn send(self) -> Outcome {
        let mut members = Vec::new();
        for member in &self.members {
            let (name, part) = member.split_once('=').unwrap_or((member, "voter"));
            if base::Part::parse(part).is_err() {
                let text = format!("`{member}`: NAME, NAME=learner or NAME=witness is wanted");
                return Err(Failure::invalid(text));
            }
            members.push(DesiredMember { name: name.into(), part: part.into() });
        }
        self.address.client()?.place_group(self.group, members).await
    }
}
