//! `credenza cluster replace`: another node takes a member's place, in its groups and on the ring.

use super::bucket::plain;
use super::cluster::Named;
use super::settle;
use super::view::ViewCommand;
use crate::client::{Client, HttpCall};
use crate::output;
use base::Kind;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(500);

/// Takes a member's place.
#[derive(clap::Args)]
pub struct Replace {
    #[command(flatten)]
    named: Named,
    /// The member that takes it; without this, the next fresh node that joins under the name does
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Replace {
    /// Runs the command, and prints the next steps.
    pub async fn run(self) -> Outcome {
        let view = ViewCommand::of(&self.named.address).await?;
        let members = view.cluster["members"].as_array().into_iter().flatten();
        let mut members = members.filter(|member| member["membership"] != "leaving");
        let old = members.find(|member| member["name"] == self.named.name.as_str());
        let old = old.map(|member| plain(&member["node"])).unwrap_or_default();
        let ring = self.get("/v1/cluster/ring").await?;
        let body = json!({ "by": self.by }).to_string();
        let call = HttpCall::json(Method::POST, self.named.path("/replace"), body);
        self.client()?.call(call).await?;
        output::text(&told(&self.named.name, self.by.as_deref(), part(&ring, &old)))?;
        if !self.named.wait {
            return Ok(());
        }
        self.wait(&old).await?;
        settle::settle(&self.named.address).await
    }

    fn client(&self) -> Outcome<Client> {
        Client::new(&self.named.address)
    }

    async fn get(&self, path: &str) -> Outcome<Value> {
        self.client()?.call(HttpCall::new(Method::GET, path.to_string())).await?.json()
    }

    /// Waits until another node has taken the place on the ring. Gives up if nothing has changed
    /// for as long as the address's timeout; the change goes on.
    async fn wait(&self, old: &str) -> Outcome {
        let (mut before, mut moved) = (None, Instant::now());
        loop {
            let waits_for = match self.look(old).await {
                Ok(None) => return Ok(()),
                Ok(now) => {
                    let words = now.as_ref().map(|(_, words)| words.clone()).unwrap_or_default();
                    if now != before {
                        (before, moved) = (now, Instant::now());
                    }
                    words
                }
                // A node that restarts or hands over answers a moment later.
                Err(failure) if failure.kind() == Some(Kind::Unavailable) => failure.to_string(),
                Err(failure) => return Err(failure),
            };
            if moved.elapsed() > self.named.address.timeout {
                let text = format!(
                    "nothing moves: {waits_for} (it goes on when it can; `credenza cluster status` \
                     and `credenza cluster ring transfers` show how far it is)"
                );
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the progress, and the reason for waiting. `None`: it is complete.
    async fn look(&self, old: &str) -> Outcome<Option<(Value, String)>> {
        let view = ViewCommand::of(&self.named.address).await?;
        let mut members = view.cluster["members"].as_array().into_iter().flatten();
        let free = |member: &Value| member["node"] == old && member["membership"] == "replaceable";
        if members.any(free) {
            let text = format!("no fresh node called {} has joined yet", self.named.name);
            return Ok(Some((Value::Null, text)));
        }
        let transfers = self.get("/v1/cluster/ring/transfers").await?;
        let names_old = part(&self.get("/v1/cluster/ring").await?, old).0 > 0;
        let mut nodes = transfers["nodes"].as_array().into_iter().flatten();
        if !names_old && transfers["remaining"] == 0 && nodes.all(|node| node["clearing"] == 0) {
            return Ok(None);
        }
        let nodes = transfers["nodes"].as_array().into_iter().flatten();
        let waits = nodes.map(|node| plain(&node["waits_for"]));
        let waits: Vec<_> = waits.filter(|waits| waits != "-" && !waits.is_empty()).collect();
        let text = format!("its part of the ring goes over: {}", waits.join("; "));
        Ok(Some((transfers, text)))
    }
}

/// Returns the number of partitions that a node is the first owner of, and the number of all.
fn part(ring: &Value, node: &str) -> (usize, usize) {
    let owners = || ring["owners"].as_array().into_iter().flatten();
    (owners().filter(|owner| *owner == node).count(), owners().count())
}

/// Describes what was done, and the next steps.
fn told(name: &str, by: Option<&str>, (part, all): (usize, usize)) -> String {
    let mut text = match by {
        Some(by) => format!("{by} takes the place of {name} in its groups"),
        None => format!(
            "the place of {name} is free: the next fresh node called {name} that joins takes it \
             in its groups"
        ),
    };
    if part > 0 {
        text.push_str(&format!(
            ", and on the ring, where {name} has {part} of {all} partitions (`credenza cluster \
             ring transfers` shows how far that is)"
        ));
    }
    if by.is_none() {
        text.push_str(&format!(
            "\nstart it: credenza serve --name {name} --data EMPTY_DIRECTORY --join MEMBER ...\n"
        ));
    } else {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_whose_place_is_taken_where_and_what_to_do_next() {
        let ring = json!({ "owners": ["0a", "0b", "0a", "0c"] });
        assert_eq!(part(&ring, "0a"), (2, 4));
        let text = told("n1", Some("n4"), part(&ring, "0a"));
        assert!(text.starts_with("n4 takes the place of n1") && text.contains("2 of 4"), "{text}");
        let text = told("n9", None, part(&ring, "0f"));
        assert!(!text.contains("ring") && text.contains("serve --name n9"), "{text}");
    }
}
