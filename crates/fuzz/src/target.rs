//! Table of all fuzz targets, with the limits of each.

use crate::targets::{
    codecs, connections, contexts, data_dir, directory, feeds, indexes, log, members, peers,
    records, replica, riak_pbc, trees,
};

/// Memory of a decoder: what a large message and its elements take.
const DECODER_BYTES: usize = 64 << 20;
/// Memory of a request at a running node, whose own threads work meanwhile.
const NODE_BYTES: usize = 96 << 20;

/// A fuzz target.
pub struct Target {
    /// Name of the target, and of its folder of the corpus.
    pub name: &'static str,
    /// Runs one input. Panics if anything does not hold that must.
    pub run: fn(&[u8]),
    /// Longest input that is generated, in bytes.
    pub input_bytes_max: usize,
    /// Most memory that one input may take, in bytes.
    pub memory_bytes_max: usize,
    /// Number of generated inputs in the ordinary tests.
    pub cases: usize,
}

const fn decoder(name: &'static str, run: fn(&[u8])) -> Target {
    let (input_bytes_max, memory_bytes_max) = (4 << 10, DECODER_BYTES);
    Target { name, run, input_bytes_max, memory_bytes_max, cases: 20_000 }
}

const fn of_node(name: &'static str, run: fn(&[u8])) -> Target {
    let (input_bytes_max, memory_bytes_max) = (4 << 10, NODE_BYTES);
    Target { name, run, input_bytes_max, memory_bytes_max, cases: 400 }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    // What nodes say to each other.
    decoder("greeting", peers::greeting),
    decoder("frames", peers::frames),
    decoder("requests", codecs::requests),
    decoder("consensus", codecs::consensus),
    decoder("entries", codecs::entries),
    decoder("snapshots", codecs::snapshots),
    decoder("vnodes", codecs::vnodes),
    decoder("moves", codecs::moves),
    Target { cases: 2_000, ..decoder("replica", replica::run) },
    // What is kept.
    Target { cases: 1_000, ..decoder("log", log::run) },
    Target { cases: 60, ..decoder("trees", trees::run) },
    Target { cases: 300, ..decoder("data_dir", data_dir::run) },
    decoder("directory", directory::rows),
    decoder("index_rows", indexes::rows),
    decoder("feeds", feeds::run),
    // What clients and operators send.
    decoder("contexts", contexts::run),
    decoder("names", contexts::names),
    decoder("index_queries", indexes::queries),
    decoder("index_values", indexes::values),
    Target { cases: 10_000, ..decoder("records", records::run) },
    decoder("riak_pbc", riak_pbc::run),
    of_node("port", connections::port),
    of_node("resp", connections::resp),
    of_node("http", connections::http),
    of_node("riak", connections::riak),
    of_node("arakoon", connections::arakoon),
    // A stranger, and a member, at the port for nodes.
    of_node("peer_port", members::stranger),
    Target { cases: 200, ..of_node("member", members::member) },
];

impl Target {
    /// Returns the target of this name.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
