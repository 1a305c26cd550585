//! A real node behind real doors on loopback, for the doors' tests.

use crate::{DoorSettings, Doors};
use base::{Reply, Request};
use node::{Node, NodeSettings};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;

/// A node with its doors, stopped and removed when dropped.
pub struct House {
    runtime: Runtime,
    folder: PathBuf,
    node: Option<Node>,
    doors: Option<Doors>,
    /// Where it listens.
    pub address: SocketAddr,
    /// The same, and all others.
    pub addresses: Vec<SocketAddr>,
}

impl House {
    /// A fresh one.
    pub fn build() -> House {
        House::of(DoorSettings::default())
    }

    /// A fresh one with these settings of its doors.
    pub fn of(settings: DoorSettings) -> House {
        House::named("node1", settings)
    }

    /// The same, of a node with this name.
    pub fn named(node: &str, settings: DoorSettings) -> House {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("credenza-doors-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let data = NodeSettings {
            data_dir: folder.clone(),
            name: node.into(),
            segment_bytes: 8 << 20,
            disk_reserve_bytes: 0,
            ..NodeSettings::default()
        };
        let listen = "127.0.0.1:0".parse().expect("an address");
        let settings = DoorSettings { listen, ..settings };
        let (node, doors) = runtime.block_on(async {
            let node = Node::start(data).await.expect("a node");
            let doors = Doors::open(node.clone(), settings).await.expect("doors");
            (node, doors)
        });
        let addresses = doors.addresses().to_vec();
        let address = addresses[0];
        House { runtime, folder, node: Some(node), doors: Some(doors), address, addresses }
    }

    /// Asks the node itself.
    pub fn ask(&self, request: Request) -> base::Result<Reply> {
        let node = self.node.as_ref().expect("it runs until it is dropped");
        self.runtime.block_on(node.handle(request))
    }

    /// A figure of the node's.
    pub fn sample(&self, name: &str) -> f64 {
        let node = self.node.as_ref().expect("it runs until it is dropped");
        let samples = node.samples();
        samples.iter().find(|sample| sample.name == name).expect("it is known").value
    }

    /// Ends the connection that has been idle for longest, as if that were long.
    pub fn end_idlest(&self) {
        let doors = self.doors.as_ref().expect("they are open");
        doors.shared().idle.end_idlest(u64::MAX, 60_000);
    }

    /// How much room is free for requests beside others.
    pub fn beside_free(&self) -> usize {
        let doors = self.doors.as_ref().expect("they are open");
        doors.beside_free()
    }

    /// Closes the doors.
    pub fn close_doors(&mut self) {
        if let Some(doors) = self.doors.take() {
            self.runtime.block_on(doors.close());
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.close_doors();
        if let Some(node) = self.node.take() {
            let _ = self.runtime.block_on(node.stop());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
