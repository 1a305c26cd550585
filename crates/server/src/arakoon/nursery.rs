//! Arakoon's nursery: intervals, the routing tree, and the addresses of a cluster's nodes. Pure.
//!
//! Credenza's directory places buckets, so no nursery distributes keys over clusters. There is one
//! routing, a leaf that names the client's own cluster, and one interval, open at both ends. A
//! command that would set either to its present value succeeds; any other change is refused.

use super::values::{Malformed, ValueReader, Wire};
use bytes::Bytes;

/// Name and address at which clients reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The node's name.
    pub name: String,
    /// The node's host name or IP address.
    pub host: String,
    /// The node's port.
    pub port: u16,
}

impl ClientAddress {
    /// Parses `host:port`. Returns `None` if `address` is not of this form.
    pub fn parse(name: &str, address: &str) -> Option<ClientAddress> {
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok()?;
        Some(ClientAddress { name: name.into(), host: host.into(), port })
    }
}

/// Deepest routing tree that is looked at.
pub const ROUTING_DEPTH_MAX: usize = 64;

/// Returns true if the interval (public begin and end, private begin and end) is open at all ends.
pub fn parse_is_open_interval(reader: &mut ValueReader) -> Result<bool, Malformed> {
    let mut open = true;
    for _ in 0..4 {
        open &= reader.option()?.is_none();
    }
    Ok(open)
}

/// Returns the bytes of an interval that is open at all ends.
pub fn open_interval() -> Vec<u8> {
    vec![0; 4]
}

/// Returns the bytes of a routing that sends every key to this cluster.
pub fn leaf_routing(cluster: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.flag(true);
    bytes.text(cluster);
    bytes
}

/// Returns true if the routing tree sends every key to this cluster.
pub fn routes_only_to(routing: Bytes, cluster: &[u8]) -> Result<bool, Malformed> {
    let mut reader = ValueReader::new(routing);
    let is_same = subtree_routes_only_to(&mut reader, cluster, 0)?;
    reader.end()?;
    Ok(is_same)
}

fn subtree_routes_only_to(
    reader: &mut ValueReader,
    cluster: &[u8],
    depth: usize,
) -> Result<bool, Malformed> {
    if depth > ROUTING_DEPTH_MAX {
        return Err(Malformed);
    }
    if reader.flag()? {
        return Ok(reader.text()? == cluster);
    }
    reader.text()?;
    let left = subtree_routes_only_to(reader, cluster, depth + 1)?;
    let right = subtree_routes_only_to(reader, cluster, depth + 1)?;
    Ok(left && right)
}

/// Returns the nursery's configuration: the routing, and the one cluster with its nodes' addresses.
pub fn configuration(cluster: &[u8], nodes: &[ClientAddress]) -> Vec<u8> {
    let mut bytes = leaf_routing(cluster);
    bytes.count(1);
    bytes.text(cluster);
    bytes.count(nodes.len());
    for node in nodes {
        bytes.text(node.name.as_bytes());
        bytes.count(1);
        bytes.text(node.host.as_bytes());
        bytes.int(i32::from(node.port));
    }
    bytes
}
