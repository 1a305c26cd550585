//! `credenza group`: groups, and their placement.

use super::bucket::plain;
use super::cluster_status::{GROUPS, group_rows, members_text};
use super::group_verify::GroupVerify;
use super::view::ViewCommand;
use crate::client::{Address, Client, HttpCall};
use crate::output;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};
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
    Status(GroupList),
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

/// Speaks of all groups.
#[derive(clap::Args)]
pub struct GroupList {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Makes a group.
#[derive(clap::Args)]
pub struct Create {
    /// How many voters it has; 3, or as many members as there are, unless members are named
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Its voters; without this, the members that are in the fewest groups
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    members: Vec<String>,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Speaks of one group.
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

/// Speaks of one group.
#[derive(clap::Args)]
pub struct Quorum {
    /// The group's number
    group: u32,
    /// So many: fewer answer sooner, and more must then be there to elect a master; more keep more
    /// copies, and must all be there to write. `majority`: what it is without this
    #[arg(value_name = "VOTERS", value_parser = quorum)]
    quorum: Wished,
    #[command(flatten)]
    address: Address,
}

/// Number of voters in the quorum. `None`: a majority.
#[derive(Clone, Copy)]
struct Wished(Option<u8>);

fn quorum(text: &str) -> Result<Wished, String> {
    match (text, text.parse()) {
        ("majority", _) => Ok(Wished(None)),
        (_, Ok(quorum)) => Ok(Wished(Some(quorum))),
        _ => Err("a number of voters, or `majority`".into()),
    }
}

/// Ends a group.
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
            Group::Status(status) => status.show().await,
            Group::Create(create) => create.send().await,
            Group::Members(members) => members.send().await,
            Group::Quorum(quorum) => quorum.send().await,
            Group::Drop(drop) => drop.send().await,
            Group::Verify(verify) => verify.run().await,
        }
    }
}

impl GroupList {
    async fn show(self) -> Outcome {
        let view = ViewCommand::of(&self.address).await?;
        if self.json {
            return output::json(&view.cluster["groups"]);
        }
        output::table(&GROUPS, group_rows(&view.cluster))
    }
}

impl Create {
    async fn send(self) -> Outcome {
        let body = json!({ "replicas": self.replicas, "members": self.members }).to_string();
        let call = HttpCall::json(Method::POST, "/v1/cluster/groups", body);
        let made = Client::new(&self.address)?.call(call).await?.json()?;
        if self.json {
            return output::json(&made);
        }
        let number = plain(&made["group"]);
        let mine = |group: &&Value| group["group"] == made["group"];
        // The group exists, whether or not it can be shown.
        let cluster = ViewCommand::of(&self.address).await.map_or(Value::Null, |view| view.cluster);
        let shown = cluster["groups"].as_array().into_iter().flatten().find(mine);
        let members = shown
            .map_or_else(String::new, |group| members_text(&group["desired"], &BTreeSet::new()));
        output::text(&format!(
            "group {number}: {members}\nuse it: credenza bucket create NAME --group {number}\n"
        ))
    }
}

impl Drop {
    async fn send(self) -> Outcome {
        let call = HttpCall::new(Method::DELETE, format!("/v1/cluster/groups/{}", self.group));
        Client::new(&self.address)?.call(call).await.map(|_| ())
    }
}

impl Quorum {
    async fn send(self) -> Outcome {
        let path = format!("/v1/cluster/groups/{}/quorum", self.group);
        let body = json!({ "quorum": self.quorum.0 }).to_string();
        Client::new(&self.address)?.call(HttpCall::json(Method::PUT, path, body)).await.map(|_| ())
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
            members.push(json!({ "name": name, "part": part }));
        }
        let path = format!("/v1/cluster/groups/{}", self.group);
        let call = HttpCall::json(Method::PUT, path, json!({ "members": members }).to_string());
        Client::new(&self.address)?.call(call).await.map(|_| ())
    }
}
