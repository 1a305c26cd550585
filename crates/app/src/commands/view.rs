//! The cluster as its nodes see it, put together from what each of them knows.

use super::bucket::plain;
use crate::client::{Address, Call, Client};
use crate::failure::{Failure, Outcome};
use base::Kind;
use hyper::Method;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The cluster as one node sees it, and what its groups' masters add to that.
pub struct View {
    /// `GET /v1/cluster`.
    pub cluster: Value,
    address: Address,
}

impl View {
    /// Asks the node, and the masters for what only they know.
    pub async fn of(address: &Address) -> Outcome<View> {
        let cluster = ask(address).await?;
        let mut view = View { cluster, address: address.clone() };
        let own = plain(&view.cluster["name"]);
        let mut asked = BTreeMap::new();
        let count = view.cluster["groups"].as_array().map_or(0, Vec::len);
        for place in 0..count {
            let group = view.cluster["groups"][place].clone();
            let mut names: Vec<_> =
                group["master"].as_str().map(String::from).into_iter().collect();
            if group["here"] == false {
                // Whoever has a part in it knows its master.
                let wanted = group["wanted"].as_array().into_iter().flatten();
                names.extend(wanted.map(|member| plain(&member["name"])));
            }
            let mut tried = BTreeSet::from([own.clone()]);
            while !names.is_empty() {
                let name = names.remove(0);
                if !tried.insert(name.clone()) {
                    continue;
                }
                let Some(theirs) = view.as_seen_by(&name, &mut asked, place).await else {
                    continue;
                };
                for field in ["master", "members", "way", "waits", "comparison"] {
                    view.cluster["groups"][place][field] = theirs[field].clone();
                }
                match theirs["master"].as_str() {
                    Some(master) if master != name => names = vec![master.into()],
                    Some(_) => break,
                    None => {}
                }
            }
        }
        Ok(view)
    }

    /// A group as another node sees it; none: it is not reached from here, or has no part in it.
    /// Each node is asked once.
    async fn as_seen_by(
        &self,
        name: &str,
        asked: &mut BTreeMap<String, Option<Value>>,
        place: usize,
    ) -> Option<Value> {
        if !asked.contains_key(name) {
            let seen = match self.address_of(name) {
                Ok(address) => ask(&address).await.ok(),
                Err(_) => None,
            };
            asked.insert(name.into(), seen);
        }
        let number = &self.cluster["groups"][place]["group"];
        let groups = asked.get(name)?.as_ref()?["groups"].as_array()?;
        groups.iter().find(|group| group["group"] == *number && group["here"] == true).cloned()
    }

    /// Where a member is asked: this node itself as we were told, others as the directory has it.
    pub fn address_of(&self, name: &str) -> Outcome<Address> {
        if self.cluster["name"] == name {
            return Ok(self.address.clone());
        }
        let members = self.cluster["members"].as_array().into_iter().flatten();
        let member = members.into_iter().find(|member| member["name"] == name);
        let client = member.and_then(|member| member["client"].as_str()).unwrap_or_default();
        if client.is_empty() {
            let text = format!("nobody knows where clients reach {name}: ask it with --url");
            return Err(Failure::new(Kind::Unavailable, text));
        }
        Ok(Address { url: format!("http://{client}"), ..self.address.clone() })
    }

    /// What is still to be done: steps, and what the next one waits for.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for group in self.cluster["groups"].as_array().into_iter().flatten() {
            let steps = ["waits", "way"].map(|field| group[field].as_array());
            for step in steps.into_iter().flatten().flatten() {
                left.push(format!("group {}: {}", plain(&group["group"]), plain(step)));
            }
        }
        let members = self.cluster["members"].as_array().into_iter().flatten();
        for member in members.filter(|member| member["stay"] == "leaving") {
            left.push(format!("forget {}", plain(&member["name"])));
        }
        left
    }
}

async fn ask(address: &Address) -> Outcome<Value> {
    Client::new(address)?.call(Call::new(Method::GET, "/v1/cluster")).await?.json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_is_what_waits_then_the_way_then_who_leaves() {
        let cluster = json!({
            "groups": [{ "group": 1, "way": ["remove n3"], "waits": ["wait until n4 is near"] }],
            "members": [{ "name": "n3", "stay": "leaving" }, { "name": "n4", "stay": "member" }],
        });
        let url = "http://127.0.0.1:1".into();
        let address = Address { url, timeout: std::time::Duration::from_secs(1) };
        let left = View { cluster, address }.left();
        let wanted = ["group 1: wait until n4 is near", "group 1: remove n3", "forget n3"];
        assert_eq!(left, wanted);
    }
}
