//! `credenza cluster`: members of the cluster, and their state.

use super::cluster_status;
use super::recover::Recover;
use super::replace::Replace;
use super::ring::{self, RingCommand};
use super::secret::Secret;
use super::serve::Join;
use super::settle;
use super::token::Token;
use super::trust_log::TrustLog;
use super::view::ViewCommand;
use crate::client::{Address, Client, HttpCall};
use crate::output;
use base::Kind;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::path::PathBuf;
use store::DataDir;

pub const EXAMPLES: &str = "\
Examples:
  credenza cluster status
  credenza cluster join 127.0.0.1:7711 --name n2 --data n2 --listen 127.0.0.1:7721 \\
    --peer-listen 127.0.0.1:7722                   a node starts and joins
  credenza cluster token --file token              lets nodes join from beyond loopback for a day
  credenza cluster secret                          nodes of an old cluster sign their greetings
  credenza cluster remove n3 --wait                n3 leaves its groups, then the cluster
  credenza cluster replace n3                      the next fresh node called n3 takes its place
  credenza cluster replace n3 --by n4 --wait       n4, a member already, takes it at once
  credenza cluster move-master n2                  n2 becomes master of every group
  credenza cluster plan                            what is still to be done
  credenza cluster ring init                       every member keeps a part of available buckets
  credenza cluster ring join n5                    lays down that n5 keeps a part, shows the plan
  credenza cluster ring commit --wait              begins it: the data moves while it is used
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
    Asks(Asks),
}

/// Asks a node that runs.
#[derive(clap::Subcommand)]
pub enum Asks {
    /// Show members, their connections and their groups
    Status(Show),
    /// Show the steps from what is to what is wanted
    Plan(Show),
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
    /// Make a join token, which lets nodes in from beyond loopback; or end all tokens
    Token(Token),
    /// Have greetings between nodes signed, in a cluster founded by an older version
    Secret(Secret),
    /// Show who keeps the partitions of available buckets, and change it
    Ring(RingCommand),
    /// When a majority is lost for good: show what a stopped member has, make it the only one
    Recover(Recover),
    /// When a log was torn and who could tell what it held is gone: count it as whole
    TrustLog(TrustLog),
}

/// A first start.
#[derive(clap::Args)]
pub struct Init {
    /// The data directory to make
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Asks for the whole cluster.
#[derive(clap::Args)]
pub struct Show {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Speaks of a member.
#[derive(clap::Args)]
pub struct Named {
    /// The member's name
    pub name: String,
    #[command(flatten)]
    pub address: Address,
    /// Wait until it is done (at most --timeout without any progress)
    #[arg(long)]
    pub wait: bool,
}

/// Speaks of a member's part.
#[derive(clap::Args)]
pub struct MemberPart {
    #[command(flatten)]
    named: Named,
    /// In this group alone
    #[arg(long)]
    group: Option<u32>,
}

/// Gives a vote.
#[derive(clap::Args)]
pub struct Promote {
    #[command(flatten)]
    part: MemberPart,
    /// `voter`, or `witness` for a node that joined as one
    #[arg(long = "part", value_name = "PART", default_value = "voter")]
    to: String,
}

/// Takes a member away.
#[derive(clap::Args)]
pub struct Remove {
    #[command(flatten)]
    named: Named,
}

/// Moves mastership.
#[derive(clap::Args)]
pub struct MoveMaster {
    /// Who shall be master
    name: String,
    #[command(flatten)]
    address: Address,
    /// Of this group alone
    #[arg(long)]
    group: Option<u32>,
}

impl ClusterCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self {
            ClusterCommand::Init(init) => init.run(),
            // A node has its own runtime.
            ClusterCommand::Join(join) => join.run(),
            ClusterCommand::Asks(asks) => super::online(asks.run()),
        }
    }
}

impl Asks {
    /// Runs the command.
    async fn run(self) -> Outcome {
        match self {
            Asks::Status(show) => cluster_status::show(&show.address, show.json).await,
            Asks::Plan(show) => show.plan().await,
            Asks::Add(part) => part.add().await,
            Asks::Demote(part) => part.set("learner").await,
            Asks::Promote(promote) => promote.part.set(&promote.to).await,
            Asks::Remove(remove) => remove.run().await,
            Asks::Replace(replace) => replace.run().await,
            Asks::MoveMaster(step) => step.run().await,
            Asks::Token(token) => token.run().await,
            Asks::Secret(secret) => secret.run().await,
            Asks::Ring(ring) => ring.run().await,
            Asks::Recover(recover) => recover.run().await,
            Asks::TrustLog(trust) => trust.run().await,
        }
    }
}

impl Init {
    fn run(self) -> Outcome {
        let data = DataDir::open(&self.data).map_err(crate::offline::failure)?;
        let (cluster, node) = (format!("{:016x}", data.cluster), format!("{:016x}", data.node));
        if !data.fresh {
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

impl Named {
    /// Returns the path of a request about the member.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/cluster/members/{}{rest}", crate::client::encode(self.name.as_bytes()))
    }

    async fn send(self, call: HttpCall) -> Outcome {
        Client::new(&self.address)?.call(call).await?;
        if self.wait { settle::settle(&self.address).await } else { Ok(()) }
    }
}

impl MemberPart {
    /// Adds a learner. Fails if the member is a voter: it has a copy already, and keeps its vote.
    async fn add(self) -> Outcome {
        let view = ViewCommand::of(&self.named.address).await?;
        for group in view.cluster["groups"].as_array().into_iter().flatten() {
            let asked = self.group.is_none_or(|wanted| group["group"] == wanted);
            let mut wanted = group["desired"].as_array().into_iter().flatten();
            let votes = |member: &Value| {
                member["name"] == self.named.name.as_str() && member["part"] == "voter"
            };
            if asked && wanted.any(votes) {
                let name = &self.named.name;
                let text = format!("{name} votes already: `credenza cluster demote {name}`?");
                return Err(Failure::new(Kind::Conflict, text));
            }
        }
        self.set("learner").await
    }

    async fn set(self, part: &str) -> Outcome {
        let body = json!({ "part": part, "group": self.group }).to_string();
        let call = HttpCall::json(Method::PUT, self.named.path("/part"), body);
        self.named.send(call).await
    }
}

impl Remove {
    /// Removes the member and prints the next steps: the member leaves its groups step by step, and
    /// its part of the ring is given to others by another command.
    async fn run(self) -> Outcome {
        let Named { name, wait, address } = &self.named;
        let view = ViewCommand::of(address).await?;
        let part = ring::part_of(address, &view.cluster, name).await?;
        let mut text = match wait {
            true => format!("{name} has left\n"),
            false => format!(
                "{name} leaves its groups, and then the cluster: `credenza cluster plan` shows \
                 what is left to do\n"
            ),
        };
        if let Some((node, partitions)) = part {
            text.push_str(&format!(
                "note: it keeps {partitions} partitions of available buckets: `credenza cluster \
                 ring leave {node}`, then `credenza cluster ring commit --wait`, give them to the \
                 others; stop the node behind that\n"
            ));
        }
        let call = HttpCall::new(Method::DELETE, self.named.path(""));
        self.named.send(call).await?;
        output::text(&text)
    }
}

impl MoveMaster {
    async fn run(self) -> Outcome {
        let view = ViewCommand::of(&self.address).await?;
        let groups = view.cluster["groups"].as_array().into_iter().flatten();
        let mut found = false;
        for group in groups {
            let number = group["group"].as_u64().unwrap_or_default();
            if self.group.is_some_and(|wanted| u64::from(wanted) != number) {
                continue;
            }
            found = true;
            let master = group["master"].as_str();
            if master == Some(self.name.as_str()) {
                continue;
            }
            let path = format!("/v1/cluster/groups/{number}/transfer");
            let body = json!({ "to": self.name }).to_string();
            // Any node forwards the request to the master.
            Client::new(&self.address)?.call(HttpCall::json(Method::POST, path, body)).await?;
        }
        if found { Ok(()) } else { Err(Failure::invalid("no such group: `credenza group status`")) }
    }
}

impl Show {
    async fn plan(self) -> Outcome {
        let view = ViewCommand::of(&self.address).await?;
        let left = view.left();
        if self.json {
            return output::json(&json!(left));
        }
        match left.is_empty() {
            true => output::text("nothing is to be done: everything is as it is wanted\n")?,
            false => left.iter().try_for_each(|step| output::text(&format!("{step}\n")))?,
        }
        // This is no required step, but an operator who added a node for available buckets expects
        // it to get a part.
        let idle = ring::members_without_a_part(&self.address, &view.cluster).await?;
        match idle.is_empty() {
            true => Ok(()),
            false => output::text(&format!(
                "note: {} no part of available buckets: `credenza cluster ring join NAME` for \
                 each, then `credenza cluster ring commit`\n",
                match &idle[..] {
                    [one] => format!("{one} keeps"),
                    more => format!("{} keep", more.join(", ")),
                }
            )),
        }
    }
}
