//! `credenza cluster`: members of the cluster, and their state.

use super::NodeArguments;
use super::cluster_status;
use super::convergence;
use super::recover::Recover;
use super::replace::Replace;
use super::ring::{self, RingCommand};
use super::secret::Secret;
use super::serve::Join;
use super::token::Token;
use super::trust_log::TrustLog;
use super::upgrade::Upgrade;
use crate::output;
use api::GroupMember;
use base::{Kind, Part};
use client::Address;
use program::{Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;
use store::DataDir;

pub const EXAMPLES: &str = "\
Examples:
  credenza cluster status
  credenza cluster join 127.0.0.1:7711 --name n2 --data n2 --listen 127.0.0.1:7721 \\
    --peer-listen 127.0.0.1:7722                   a node starts and joins
  credenza cluster token --file token              lets a node join from beyond loopback for a day
  credenza cluster secret                          nodes of an old cluster sign their greetings
  credenza cluster remove n3 --wait                n3 leaves its groups, then the cluster
  credenza cluster replace n3                      the next fresh node called n3 takes its place
  credenza cluster replace n3 --by n4 --wait       n4, a member already, takes it at once
  credenza cluster move-master n2                  n2 becomes master of every group
  credenza cluster plan                            what is still to be done
  credenza cluster ring init                       every member keeps a part of available buckets
  credenza cluster ring join n5                    lays down that n5 keeps a part, shows the plan
  credenza cluster ring commit --wait              begins it: the data moves while it is used
  credenza cluster upgrade                         who runs a program that holds new features back?
  credenza cluster upgrade --auto                  turns them on once nobody does, for good
  credenza cluster recover --data /srv/n1          a majority is lost: what does n1 have?

Each of these changes what is wanted; the masters of the groups then go there step by step.";

/// `credenza cluster`.
#[derive(clap::Subcommand)]
pub enum ClusterCommand {
    /// Make a data directory, and with it a new cluster (`serve` does so by itself)
    Init(Init),
    /// Start a node that becomes a member (`serve --join` does the same)
    Join(Join),
    #[command(flatten)]
    Online(Box<OnlineCommand>),
}

/// Commands that call a running node.
#[derive(clap::Subcommand)]
pub enum OnlineCommand {
    /// Show members, their connections and their groups
    Status(NodeArguments),
    /// Show the steps from what is to what is wanted
    Plan(NodeArguments),
    /// Give a member a copy of a group, or of all, without a vote
    Add(MemberPart),
    /// Give a member a vote in a group, or in all
    Promote(Promote),
    /// Take a member's vote, not its copy
    Demote(MemberPart),
    /// Take a member out of the cluster
    Remove(Remove),
    /// Let another node take a member's place, in its groups and on the ring
    Replace(Replace),
    /// Make a member master
    MoveMaster(MoveMaster),
    /// Make a join token, which lets a node in from beyond loopback; or end all tokens
    Token(Token),
    /// Have greetings between nodes signed, in a cluster founded by an older version
    Secret(Secret),
    /// Show who keeps the partitions of available buckets, and change it
    Ring(Box<RingCommand>),
    /// Recover from the permanent loss of a majority: show what a stopped member has, make it the
    /// only one
    Recover(Recover),
    /// Show who holds a higher feature level back; raise it when nobody does
    Upgrade(Upgrade),
    /// Count a torn log as whole, when the members that could tell what it held are gone
    TrustLog(TrustLog),
}

/// Arguments of the creation of a data directory.
#[derive(clap::Args)]
pub struct Init {
    /// The data directory to make
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Arguments: one member.
#[derive(clap::Args)]
pub struct MemberTarget {
    /// The member's name
    pub name: String,
    #[command(flatten)]
    pub address: Address,
    /// Wait until it is done (at most --timeout without any progress)
    #[arg(long)]
    pub wait: bool,
}

/// Arguments: a member's part in groups.
#[derive(clap::Args)]
pub struct MemberPart {
    #[command(flatten)]
    member: MemberTarget,
    /// In this group alone
    #[arg(long)]
    group: Option<u32>,
}

/// Arguments of the promotion of a member.
#[derive(clap::Args)]
pub struct Promote {
    #[command(flatten)]
    part: MemberPart,
    /// `voter`, or `witness` for a node that joined as one
    #[arg(long = "part", value_name = "PART", default_value = "voter")]
    to: String,
}

/// Arguments of the removal of a member.
#[derive(clap::Args)]
pub struct Remove {
    #[command(flatten)]
    member: MemberTarget,
}

/// Arguments of the transfer of mastership.
#[derive(clap::Args)]
pub struct MoveMaster {
    /// Member that is to be master
    name: String,
    #[command(flatten)]
    address: Address,
    /// Only of this group
    #[arg(long)]
    group: Option<u32>,
}

impl ClusterCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self {
            ClusterCommand::Init(init) => init.run(),
            // A node creates its own runtime.
            ClusterCommand::Join(join) => join.run(),
            ClusterCommand::Online(command) => super::run_online(command.run()),
        }
    }
}

impl OnlineCommand {
    /// Runs the command.
    async fn run(self) -> Outcome {
        match self {
            OnlineCommand::Status(node) => cluster_status::show(&node).await,
            OnlineCommand::Plan(node) => plan(&node).await,
            OnlineCommand::Add(arguments) => arguments.add().await,
            OnlineCommand::Demote(arguments) => arguments.set("learner").await,
            OnlineCommand::Promote(arguments) => arguments.part.set(&arguments.to).await,
            OnlineCommand::Remove(arguments) => arguments.run().await,
            OnlineCommand::Replace(arguments) => arguments.run().await,
            OnlineCommand::MoveMaster(arguments) => arguments.run().await,
            OnlineCommand::Token(arguments) => arguments.run().await,
            OnlineCommand::Secret(arguments) => arguments.run().await,
            OnlineCommand::Ring(arguments) => arguments.run().await,
            OnlineCommand::Recover(arguments) => arguments.run().await,
            OnlineCommand::Upgrade(arguments) => arguments.run().await,
            OnlineCommand::TrustLog(arguments) => arguments.run().await,
        }
    }
}

impl Init {
    fn run(self) -> Outcome {
        let data = DataDir::open(&self.data).map_err(crate::offline::failure)?;
        let (cluster, node) = (format!("{:016x}", data.cluster), format!("{:016x}", data.node));
        if !data.is_fresh {
            let path = self.data.display();
            let text = format!("{path} belongs to a cluster already: {cluster} (node {node})");
            return Err(Failure::new(Kind::Conflict, text));
        }
        if self.json {
            return output::json(&json!({ "cluster": cluster, "node": node }));
        }
        output::text(&format!("cluster {cluster}\nnode {node}\n"))
    }
}

impl MemberTarget {
    async fn wait_if_requested(&self) -> Outcome {
        if self.wait { convergence::wait_until_converged(&self.address).await } else { Ok(()) }
    }
}

impl MemberPart {
    /// Adds a learner. Fails if the member is a voter: it has a copy already, and keeps its vote.
    async fn add(self) -> Outcome {
        for group in self.member.address.client()?.cluster().await?.groups {
            let is_selected = self.group.is_none_or(|number| group.group == number);
            let is_voter = |member: &GroupMember| {
                member.name == self.member.name && member.part == Part::Voter
            };
            if is_selected && group.desired.iter().any(is_voter) {
                let name = &self.member.name;
                let text = format!("{name} votes already: `credenza cluster demote {name}`?");
                return Err(Failure::new(Kind::Conflict, text));
            }
        }
        self.set("learner").await
    }

    async fn set(self, part: &str) -> Outcome {
        let mut client = self.member.address.client()?;
        client.set_part(&self.member.name, part, self.group).await?;
        self.member.wait_if_requested().await
    }
}

impl Remove {
    /// Removes the member and prints the next steps: the member leaves its groups step by step, and
    /// its part of the ring is given to others by another command.
    async fn run(self) -> Outcome {
        let MemberTarget { name, wait, address } = &self.member;
        let mut client = address.client()?;
        let cluster = client.cluster().await?;
        let ring_part = ring::owned_partitions(&mut client, &cluster, name).await?;
        let mut text = match wait {
            true => format!("{name} has left\n"),
            false => format!(
                "{name} leaves its groups, and then the cluster: `credenza cluster plan` shows \
                 what is left to do\n"
            ),
        };
        if let Some((node, partitions)) = ring_part {
            text.push_str(&format!(
                "note: it keeps {partitions} partitions of available buckets: `credenza cluster \
                 ring leave {node}`, then `credenza cluster ring commit --wait`, give them to the \
                 others; stop the node behind that\n"
            ));
        }
        client.remove_member(name).await?;
        self.member.wait_if_requested().await?;
        output::text(&text)
    }
}

impl MoveMaster {
    async fn run(self) -> Outcome {
        let mut client = self.address.client()?;
        let mut found = false;
        for group in client.cluster().await?.groups {
            if self.group.is_some_and(|number| number != group.group) {
                continue;
            }
            found = true;
            if group.master.as_ref() != Some(&self.name) {
                // Any node forwards the request to the master.
                client.transfer(group.group, &self.name).await?;
            }
        }
        if found { Ok(()) } else { Err(Failure::invalid("no such group: `credenza group status`")) }
    }
}

async fn plan(node: &NodeArguments) -> Outcome {
    let mut client = node.address.client()?;
    let cluster = client.cluster().await?;
    let remaining = convergence::remaining_work(&cluster);
    if node.json {
        return output::json(&remaining);
    }
    match remaining.is_empty() {
        true => output::text("nothing is to be done: everything is as it is wanted\n")?,
        false => remaining.iter().try_for_each(|step| output::text(&format!("{step}\n")))?,
    }
    // Members without partitions are legal, so this is a note and not a step of the plan: a node
    // that was added for available buckets stores nothing until it joins the ring.
    let idle = ring::members_without_partitions(&mut client, &cluster).await?;
    match idle.is_empty() {
        true => Ok(()),
        false => output::text(&format!(
            "note: {} no part of available buckets: `credenza cluster ring join NAME` for \
             each, then `credenza cluster ring commit`\n",
            match &idle[..] {
                [one] => format!("{one} keeps"),
                names => format!("{} keep", names.join(", ")),
            }
        )),
    }
}
