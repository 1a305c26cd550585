//! Arakoon's nursery: intervals, the routing tree, and the addresses of a cluster's nodes. Pure.
//!
//! Keys are not spread over clusters by a nursery here; a bucket is placed by the directory. So
//! there is one routing, a leaf that names the cluster the client speaks to, and one interval, open
//! at both ends. What would set either to what it is already is taken; all else is refused.

use super::words::{Malformed, ValueReader, Wire};
use bytes::Bytes;

/// Where clients reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// Its name.
    pub name: String,
    /// Its host, a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl ClientAddress {
    /// A node of this name at `host:port`; none if that is no such place.
    pub fn at(name: &str, address: &str) -> Option<ClientAddress> {
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok()?;
        Some(ClientAddress { name: name.into(), host: host.into(), port })
    }
}

/// Deepest routing tree that is looked at.
pub const ROUTING_DEPTH_MAX: usize = 64;

/// Whether an interval (public begin and end, private begin and end) is open everywhere.
pub fn read_interval(reader: &mut ValueReader) -> Result<bool, Malformed> {
    let mut open = true;
    for _ in 0..4 {
        open &= reader.maybe()?.is_none();
    }
    Ok(open)
}

/// The open interval.
pub fn open_interval() -> Vec<u8> {
    vec![0; 4]
}

/// The routing that sends every key to this cluster.
pub fn leaf(cluster: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.flag(true);
    bytes.text(cluster);
    bytes
}

/// Whether a routing tree sends every key to this cluster.
pub fn routes_to(routing: Bytes, cluster: &[u8]) -> Result<bool, Malformed> {
    let mut reader = ValueReader::new(routing);
    let same = subtree(&mut reader, cluster, 0)?;
    reader.end()?;
    Ok(same)
}

fn subtree(reader: &mut ValueReader, cluster: &[u8], depth: usize) -> Result<bool, Malformed> {
    if depth > ROUTING_DEPTH_MAX {
        return Err(Malformed);
    }
    if reader.flag()? {
        return Ok(reader.text()? == cluster);
    }
    reader.text()?;
    let left = subtree(reader, cluster, depth + 1)?;
    let right = subtree(reader, cluster, depth + 1)?;
    Ok(left && right)
}

/// The nursery's configuration: the routing, and the one cluster with its nodes' addresses.
pub fn configuration(cluster: &[u8], nodes: &[ClientAddress]) -> Vec<u8> {
    let mut bytes = leaf(cluster);
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
