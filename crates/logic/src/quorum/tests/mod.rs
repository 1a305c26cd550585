//! Stories, laws and examples of quorums.

use super::Versions;
use base::NodeId;
use std::collections::BTreeSet;

mod laws;
mod needs;
mod stories;

/// Value of replicas in these tests: a set of words, which only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Words(BTreeSet<String>);

impl Versions for Words {
    fn merge(&mut self, other: &Words) {
        self.0.extend(other.0.iter().cloned());
    }
}

fn nodes(list: &str) -> Result<Vec<NodeId>, std::num::ParseIntError> {
    let numbers = list.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| Ok(NodeId(number.parse()?))).collect()
}
