//! `credenza cluster ring`: who keeps the partitions of available buckets.

use super::bucket::plain;
use crate::client::{Address, Call, Client};
use crate::failure::Outcome;
use crate::output;
use hyper::Method;
use serde_json::Value;
use std::collections::BTreeMap;

const PATH: &str = "/v1/cluster/ring";

/// `credenza cluster ring`.
#[derive(clap::Args)]
pub struct Ring {
    /// Give every member that stays an even part, all at once; only while no member holds data of
    /// available buckets
    #[arg(long)]
    give_out: bool,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Ring {
    /// Gives it out, if that was said, and shows it.
    pub async fn run(self) -> Outcome {
        let mut client = Client::new(&self.address)?;
        let ring = match self.give_out {
            true => give_out(&self.address).await?,
            false => client.call(Call::new(Method::GET, PATH)).await?.json()?,
        };
        if self.json {
            return output::json(&ring);
        }
        let cluster = client.call(Call::new(Method::GET, "/v1/cluster")).await?.json()?;
        let rows = shares(&ring, &cluster);
        output::text(&format!("epoch {}\n\n", plain(&ring["epoch"])))?;
        output::table(&["member", "partitions"], rows)
    }
}

/// Gives the ring out to all members that stay; asked again it changes nothing.
pub async fn give_out(address: &Address) -> Outcome<Value> {
    Client::new(address)?.call(Call::new(Method::PUT, PATH)).await?.json()
}

/// How many partitions each owner has, by name, and those that have none.
fn shares(ring: &Value, cluster: &Value) -> Vec<Vec<String>> {
    let members = cluster["members"].as_array().into_iter().flatten();
    let names = members.map(|member| (plain(&member["node"]), plain(&member["name"])));
    let names: BTreeMap<_, _> = names.collect();
    let mut counts: BTreeMap<String, usize> =
        names.values().map(|name| (name.clone(), 0)).collect();
    for owner in ring["owners"].as_array().into_iter().flatten().map(plain) {
        let name = names.get(&owner).cloned().unwrap_or(owner);
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().map(|(name, count)| vec![name, count.to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn owners_are_counted_by_name_and_whoever_has_none_is_named() {
        let ring = json!({ "epoch": 2, "owners": ["0a", "0b", "0a", "0c"] });
        let member = |node: &str, name: &str| json!({ "node": node, "name": name });
        let cluster =
            json!({ "members": [member("0a", "n1"), member("0b", "n2"), member("0d", "n3")] });
        let rows = shares(&ring, &cluster);
        let expected = [["0c", "1"], ["n1", "2"], ["n2", "1"], ["n3", "0"]];
        assert_eq!(rows, expected.map(|row| row.map(String::from).to_vec()));
    }
}
