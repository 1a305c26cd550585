//! View of the cluster by one node.

use super::bucket::plain;
use crate::client::{Address, Client, HttpCall};
use hyper::Method;
use program::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;

/// View of the cluster by one node, with the reports that the groups' masters sent it.
pub struct ViewCommand {
    /// Answer of `GET /v1/cluster`.
    pub cluster: Value,
}

impl ViewCommand {
    /// Asks this node only: the other nodes' operators' front-ends may be at other addresses.
    pub async fn of(address: &Address) -> Outcome<ViewCommand> {
        let call = HttpCall::new(Method::GET, "/v1/cluster");
        Ok(ViewCommand { cluster: Client::new(address)?.call(call).await?.json()? })
    }

    /// Returns the work left: steps, and what the next one waits for.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for group in self.cluster["groups"].as_array().into_iter().flatten() {
            let steps = ["waits_for", "plan"].map(|field| group[field].as_array());
            let before = left.len();
            for step in steps.into_iter().flatten().flatten() {
                left.push(format!("group {}: {}", plain(&group["group"]), plain(step)));
            }
            // While a group has no master for a moment, no node knows which steps are left.
            if left.len() == before && parts(&group["desired"]) != parts(&group["members"]) {
                left.push(format!("group {}: its master is not known", plain(&group["group"])));
            }
        }
        let members = self.cluster["members"].as_array().into_iter().flatten();
        for member in members.filter(|member| member["membership"] == "leaving") {
            left.push(format!("forget {}", plain(&member["name"])));
        }
        left
    }
}

/// Returns the members in a list, with their roles.
fn parts(members: &Value) -> BTreeMap<&str, &str> {
    let members = members.as_array().into_iter().flatten();
    members.filter_map(|one| Some((one["node"].as_str()?, one["part"].as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_is_what_waits_then_the_way_then_who_leaves() {
        let cluster = json!({
            "groups": [{
                "group": 1, "plan": ["remove n3"], "waits_for": ["wait until n4 is near"],
            }],
            "members": [
                { "name": "n3", "membership": "leaving" },
                { "name": "n4", "membership": "member" },
            ],
        });
        let left = ViewCommand { cluster }.left();
        let wanted = ["group 1: wait until n4 is near", "group 1: remove n3", "forget n3"];
        assert_eq!(left, wanted);
    }

    #[test]
    fn a_group_without_a_master_is_not_settled_before_its_members_are_as_desired() {
        let parts =
            |part: &str| json!([{ "node": "01", "part": "voter" }, { "node": "02", "part": part }]);
        let view = |part: &str| ViewCommand {
            cluster: json!({ "groups": [{
                "group": 1, "desired": parts("voter"), "members": parts(part),
                "plan": [], "waits_for": [],
            }] }),
        };
        assert_eq!(view("learner").left(), ["group 1: its master is not known"]);
        assert!(view("voter").left().is_empty());
    }
}
