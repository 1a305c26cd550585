//! `credenza cluster ring`: owners of the partitions of available buckets, and changes of the ring.

use super::bucket::plain;
use super::ring_table::{MemberNames, shares, show_plan, show_transfers};
use crate::client::{Address, Client, HttpCall};
use crate::output;
use base::Kind;
use base::limits::PARTITIONS_MAX;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

const PATH: &str = "/v1/cluster/ring";
const PLAN: &str = "/v1/cluster/ring/plan";
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
    with: With,
}

/// Address of a node, and the format of the answer.
#[derive(clap::Args)]
pub struct With {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// A step of a change. `join`, `replace`, `rack`, `resize` and `leave` lay something down; nothing
/// moves before `commit`.
#[derive(clap::Subcommand)]
enum RingStep {
    /// Give every member that stays an even part, all at once; only while no member holds data of
    /// available buckets
    Init(With),
    /// A member is to keep its part
    Join {
        /// The member's name
        node: String,
        /// What fails together: copies are kept apart where it can be
        #[arg(long, default_value = "")]
        rack: String,
        #[command(flatten)]
        with: With,
    },
    /// A member that keeps nothing is to keep what another one keeps; nothing else moves; the one
    /// that goes may be down for good
    Replace {
        /// Who goes
        node: String,
        /// Who takes its place
        by: String,
        /// What fails together
        #[arg(long, default_value = "")]
        rack: String,
        #[command(flatten)]
        with: With,
    },
    /// A member stands in another rack
    Rack {
        /// The member's name
        node: String,
        /// Its rack; `""` for one of its own
        rack: String,
        #[command(flatten)]
        with: With,
    },
    /// The ring is to have twice as many partitions (each is split in place, nothing moves), or
    /// half as many (pairs are merged, after their copies have come together)
    Resize {
        /// Number of partitions: twice or half as many as there are, 8 to 1,024
        partitions: usize,
        #[command(flatten)]
        with: With,
    },
    /// Show what the planned changes would do
    Plan(With),
    /// Call off the change under way: what has gone over goes back
    Cancel(With),
    /// Plan that a member gives up its part of the ring; of one that is down for good the others
    /// fetch its part from each other (Riak's `force-remove`)
    #[command(visible_alias = "force-remove")]
    Leave {
        /// The member's name; of one that was removed, its id
        node: String,
        #[command(flatten)]
        with: With,
    },
    /// Says what to do about a member that is down: nobody has to be told that it is
    Down {
        /// The member's name
        node: String,
        #[command(flatten)]
        with: With,
    },
    /// Discard the planned changes
    Clear(With),
    /// Begin the planned changes
    Commit {
        /// Wait until everything has gone over and been cleared
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        with: With,
    },
    /// Show how far the ring's change under way is
    Transfers(With),
}

impl RingCommand {
    /// Runs a step, or shows the ring.
    pub async fn run(self) -> Outcome {
        match self.step {
            Some(step) => step.run().await,
            None => {
                let names = self.with.names_for_people().await?;
                show(&self.with.get(PATH).await?, names)
            }
        }
    }
}

/// Assigns the ring to all permanent members; repeated it changes nothing.
pub async fn init(address: &Address) -> Outcome<Value> {
    Client::new(address)?.call(HttpCall::new(Method::PUT, PATH)).await?.json()
}

/// Returns the names of members that own no partition of available buckets though they could.
pub async fn members_without_a_part(address: &Address, cluster: &Value) -> Outcome<Vec<String>> {
    let ring = Client::new(address)?.call(HttpCall::new(Method::GET, PATH)).await?.json()?;
    Ok(idle(&ring, cluster))
}

/// Returns a member's id, and the number of partitions of available buckets that it owns. `None`:
/// it owns none, or there is no such member.
pub async fn part_of(
    address: &Address,
    cluster: &Value,
    name: &str,
) -> Outcome<Option<(String, usize)>> {
    let mut members = cluster["members"].as_array().into_iter().flatten();
    let Some(member) = members.find(|member| member["name"] == name) else { return Ok(None) };
    let ring = Client::new(address)?.call(HttpCall::new(Method::GET, PATH)).await?.json()?;
    let owners = ring["owners"].as_array().into_iter().flatten();
    let count = owners.filter(|owner| **owner == member["node"]).count();
    Ok((count > 0).then(|| (plain(&member["node"]), count)))
}

fn idle(ring: &Value, cluster: &Value) -> Vec<String> {
    let owners: Vec<_> = ring["owners"].as_array().into_iter().flatten().collect();
    let groups = || cluster["groups"].as_array().into_iter().flatten();
    let is_witness = |node: &Value| {
        let mut parts =
            groups().flat_map(|group| group["desired"].as_array().into_iter().flatten());
        parts.any(|part| part["node"] == *node && part["part"] == "witness")
    };
    let members = cluster["members"].as_array().into_iter().flatten();
    let idle = members.filter(|member| {
        let node = &member["node"];
        member["membership"] == "member" && !owners.contains(&node) && !is_witness(node)
    });
    idle.map(|member| plain(&member["name"])).collect()
}

impl RingStep {
    async fn run(self) -> Outcome {
        let (wish, with) = match self {
            RingStep::Join { node, rack, with } => {
                (json!({ "change": "join", "node": node, "rack": rack }), with)
            }
            RingStep::Replace { node, by, rack, with } => {
                (json!({ "change": "replace", "node": node, "by": by, "rack": rack }), with)
            }
            RingStep::Rack { node, rack, with } => {
                (json!({ "change": "rack", "node": node, "rack": rack }), with)
            }
            RingStep::Init(with) => {
                let names = with.names_for_people().await?;
                return show(&init(&with.address).await?, names);
            }
            RingStep::Resize { partitions, with } => {
                let ring = with.get(PATH).await?;
                let now = ring["owners"].as_array().map_or(0, Vec::len);
                (json!({ "change": resize(now, partitions)? }), with)
            }
            RingStep::Plan(with) => {
                let names = with.names_for_people().await?;
                return plan_shown(&with.get(PLAN).await?, names);
            }
            RingStep::Cancel(with) => {
                let names = with.names_for_people().await?;
                let call = HttpCall::new(Method::POST, format!("{PATH}/cancel"));
                return show(&with.client()?.call(call).await?.json()?, names);
            }
            RingStep::Leave { node, with } => (json!({ "change": "leave", "node": node }), with),
            RingStep::Down { node, with } => return with.down(&node).await,
            RingStep::Clear(with) => {
                return with.client()?.call(HttpCall::new(Method::DELETE, PLAN)).await.map(|_| ());
            }
            RingStep::Commit { wait, with } => return with.commit(wait).await,
            RingStep::Transfers(with) => {
                let transfers = with.transfers().await?;
                if with.json {
                    return output::json(&transfers);
                }
                return show_transfers(&transfers, &with.names().await?);
            }
        };
        with.lay_down(wish).await
    }
}

impl With {
    fn client(&self) -> Outcome<Client> {
        Client::new(&self.address)
    }

    async fn get(&self, path: &str) -> Outcome<Value> {
        self.client()?.call(HttpCall::new(Method::GET, path.to_string())).await?.json()
    }

    /// Adds a change to the plan, and shows the plan.
    async fn lay_down(&self, wish: Value) -> Outcome {
        let names = self.names_for_people().await?;
        let plan =
            self.client()?.call(HttpCall::json(Method::POST, PLAN, wish.to_string())).await?;
        plan_shown(&plan.json()?, names)
    }

    /// Returns the members' names for output to people. `None`: the output is JSON. Call it before
    /// any change: a failure after it would make a successful change look failed.
    async fn names_for_people(&self) -> Outcome<Option<MemberNames>> {
        if self.json { Ok(None) } else { self.names().await.map(Some) }
    }

    async fn names(&self) -> Outcome<MemberNames> {
        Ok(MemberNames::of(&self.get("/v1/cluster").await?))
    }

    async fn transfers(&self) -> Outcome<Value> {
        self.get(&format!("{PATH}/transfers")).await
    }

    /// Explains how to handle a member that is down, always as an error: the other nodes detect it
    /// by themselves.
    async fn down(&self, node: &str) -> Outcome {
        if !self.names().await?.has(node) {
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

    /// Begins exactly the plan that it shows.
    async fn commit(&self, wait: bool) -> Outcome {
        let plan = self.get(PLAN).await?;
        if !self.json && plan["changes"].as_array().is_some_and(|changes| !changes.is_empty()) {
            show_plan(&plan, &self.names().await?)?;
        }
        let body = json!({ "epoch": plan["epoch"] }).to_string();
        let call = HttpCall::json(Method::POST, format!("{PATH}/commit"), body);
        let ring: Value = self.client()?.call(call).await?.json()?;
        if wait {
            self.wait().await?;
        }
        if self.json { output::json(&ring) } else { Ok(()) }
    }

    /// Waits until no transfer is in progress and no node has rows left to delete. Gives up if
    /// nothing has changed for as long as the address's timeout; the change goes on.
    async fn wait(&self) -> Outcome {
        let (mut before, mut moved) = (Value::Null, Instant::now());
        loop {
            let waits_for = match self.transfers().await {
                Ok(told) if is_done(&told) => return Ok(()),
                Ok(told) => {
                    if told != before {
                        (before, moved) = (told.clone(), Instant::now());
                    }
                    let nodes = told["nodes"].as_array().into_iter().flatten();
                    let waits = nodes.map(|node| plain(&node["waits_for"]));
                    waits.filter(|waits| waits != "-" && !waits.is_empty()).collect()
                }
                // A node that restarts or hands over answers a moment later.
                Err(failure) if failure.kind() == Some(Kind::Unavailable) => {
                    vec![failure.to_string()]
                }
                Err(failure) => return Err(failure),
            };
            if moved.elapsed() > self.address.timeout {
                let text = format!(
                    "the change does not get on: {} (it goes on when it can; `credenza cluster \
                     ring transfers` shows how far it is, `credenza cluster ring cancel` calls it \
                     off)",
                    waits_for.join("; ")
                );
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns the change from one number of partitions to another. Fails if there is none.
fn resize(now: usize, wanted: usize) -> Outcome<&'static str> {
    let steps = [("halve", now / 2), ("double", now * 2)];
    let possible: Vec<_> =
        steps.into_iter().filter(|(_, number)| PARTITIONS.contains(number)).collect();
    match possible.iter().find(|(_, number)| *number == wanted) {
        Some((change, _)) => Ok(*change),
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
fn show(ring: &Value, names: Option<MemberNames>) -> Outcome {
    let Some(names) = names else { return output::json(ring) };
    output::text(&format!("epoch {}\n\n", plain(&ring["epoch"])))?;
    output::table(&["member", "partitions"], shares(ring, &names))
}

/// Prints a plan with names of members. `None`: as JSON.
fn plan_shown(plan: &Value, names: Option<MemberNames>) -> Outcome {
    names.map_or_else(|| output::json(plan), |names| show_plan(plan, &names))
}

/// Returns true if no transfer is in progress and no node has rows left to delete.
fn is_done(transfers: &Value) -> bool {
    let mut nodes = transfers["nodes"].as_array().into_iter().flatten();
    transfers["remaining"] == 0 && nodes.all(|node| node["clearing"] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_resized_to_twice_or_half_as_many_partitions_and_no_other_number() {
        assert_eq!(resize(64, 128).ok(), Some("double"));
        assert_eq!(resize(64, 32).ok(), Some("halve"));
        for (now, wanted, says) in [
            (64, 64, "has 64 partitions: 32 or 128 is possible, not 64"),
            (64, 256, "32 or 128 is possible, not 256"),
            (8, 4, "has 8 partitions: 16 is possible, not 4"),
            (1_024, 2_048, "has 1024 partitions: 512 is possible, not 2048"),
        ] {
            let said = resize(now, wanted).expect_err("refused").to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn members_that_keep_nothing_are_named_unless_they_leave_or_are_witnesses() {
        let member =
            |node: &str, stay: &str| json!({ "node": node, "name": node, "membership": stay });
        let cluster = json!({
            "members": [member("n1", "member"), member("n2", "member"), member("n3", "leaving"),
                member("n4", "member")],
            "groups": [{ "desired": [{ "node": "n4", "part": "witness" }] }],
        });
        let ring = json!({ "owners": ["n1", "n1", "n3"] });
        assert_eq!(idle(&ring, &cluster), ["n2"]);
        assert!(idle(&json!({ "owners": ["n1", "n2"] }), &cluster).is_empty());
    }
}
