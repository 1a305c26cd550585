//! Cluster of real processes: each node has its own data directory, and, if an experiment wants it,
//! its own host behind the switch and its own file system.
//!
//! Nodes are numbered from 1, and their names are `n1`, `n2`, ... Node 1 founds the cluster, the
//! others join it. Clients run on a host of their own, behind the nodes.
//!
//! Promises: a node is only ever signalled by its own process id, and none outlives the cluster.
//! Never: takes the report of one node for the state of the cluster.
//! Read next: `member.rs`, then `status.rs` (status of the nodes).

mod bench_load;
mod copies;
mod log;
mod member;
mod repair;
mod status;
mod transfers;

pub use bench_load::Bench;
pub use copies::Copies;
pub use repair::RepairCounts;
pub use status::{NodeGroupStatus, wait_until};

use crate::environment::Scratch;
use crate::fault_injection::{Cable, FileSystem, Mount, Network};
use crate::server::{Server, Setup, StartRefusal};
use crate::workload::registers::{RegisterPlan, RegisterWorkload};
use member::MemberProcess;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ports of a node for clients, for other nodes and for operators.
const PORTS: [u16; 3] = [7711, 7712, 7713];
/// Most nodes of one cluster.
const NODES_MAX: usize = 16;

/// Kind of network between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// All on this machine's loopback, each with its own address.
    Loopback,
    /// Each on its own host behind the switch.
    Switch,
}

/// Options of an experiment's cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of nodes at the start.
    pub nodes: usize,
    /// Kind of network.
    pub network: NetworkKind,
    /// True if each node has a listener for operators alone. Then its listener for clients refuses
    /// them, also on loopback. Behind the switch it always has one.
    pub has_admin_listeners: bool,
    /// File system of each node, with its size in MiB. `None`: a plain folder.
    pub disk: Option<(FileSystem, usize)>,
    /// The length of a lease.
    pub lease: Duration,
    /// Further flags of every node, each with its value; `@NODE` stands for the node's name,
    /// `@ADDRESS` for its address without a port.
    pub args: Vec<String>,
    /// Command that runs each node; empty: none.
    pub wrapper: Vec<String>,
}

impl Options {
    /// Returns the options of this many nodes on loopback, in plain folders, with the lease of the
    /// experiments.
    pub fn new(nodes: usize) -> Options {
        let args = ["--memory-bytes-max", "16MiB", "--segment-bytes", "4MiB"];
        Options {
            nodes,
            network: NetworkKind::Loopback,
            has_admin_listeners: false,
            disk: None,
            lease: Duration::from_secs(2),
            args: args.map(String::from).to_vec(),
            wrapper: Vec::new(),
        }
    }

    /// Returns the same options with the network behind the switch.
    pub fn with_switch(self) -> Options {
        Options { network: NetworkKind::Switch, has_admin_listeners: true, ..self }
    }
}

/// A running cluster. A drop ends its processes.
pub struct Cluster {
    /// Declared before the network and the mounts, which can't be removed while processes use them.
    members: Vec<MemberProcess>,
    network: Option<Network>,
    folder: PathBuf,
    number: u32,
    options: Options,
}

impl Cluster {
    /// Starts the nodes and waits until all are voters and report one master.
    pub fn start(scratch: &Scratch, options: Options) -> Cluster {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = scratch.join(&format!("cluster{number}"));
        std::fs::create_dir_all(&folder).expect("the scratch folder can be written");
        let network = (options.network == NetworkKind::Switch)
            .then(|| Network::new(scratch.path(), options.nodes + 1, u64::from(number)));
        let nodes = options.nodes;
        let mut cluster = Cluster { members: Vec::new(), network, folder, number, options };
        for _ in 0..nodes {
            cluster.add();
        }
        cluster.must_converge();
        cluster
    }

    /// Starts one more node, which joins; returns its number. The switch has as many hosts as the
    /// cluster had nodes at first, so only a cluster on loopback grows.
    pub fn add(&mut self) -> usize {
        let node = self.members.len() + 1;
        assert!(node <= NODES_MAX, "the addresses are laid out for {NODES_MAX} nodes");
        let folder = self.folder.join(format!("n{node}"));
        std::fs::create_dir_all(&folder).expect("the scratch folder can be written");
        let disk = self.options.disk.map(|(system, mib)| Mount::new(&folder, system, mib));
        let node_dir = disk.as_ref().map_or(folder.as_path(), Mount::point).to_path_buf();
        let setup = self.setup(node, &node_dir);
        self.members.push(MemberProcess::new(format!("n{node}"), setup, disk));
        self.members[node - 1].start();
        node
    }

    /// Ends the process of the last node, which has left the cluster, and removes it from the list.
    pub fn remove_last(&mut self) {
        let last = self.members.len();
        if self.members[last - 1].server.is_some() {
            self.kill(last);
        }
        self.members.pop();
    }

    fn setup(&self, node: usize, node_dir: &Path) -> Setup {
        let address = self.address(node);
        let [listen, peers, admin] = PORTS.map(|port| SocketAddr::from((address, port)));
        let mut args: Vec<String> = vec!["--name".into(), format!("n{node}")];
        args.extend(["--peer-listen".into(), peers.to_string()]);
        args.extend(["--lease-ms".into(), self.options.lease.as_millis().to_string()]);
        if node > 1 {
            args.extend(["--join".into(), self.admin_address(1).to_string()]);
        }
        if self.options.has_admin_listeners {
            args.extend(["--admin-listen".into(), admin.to_string()]);
        }
        let mut wrapper = Vec::new();
        if let Some(network) = &self.network {
            args.extend(["--insecure".into(), "on".into()]);
            wrapper = network.wrapper(node);
        }
        wrapper.extend(self.options.wrapper.clone());
        // Files that each node has of its own.
        let name = format!("n{node}");
        let own =
            |arg: &String| arg.replace("@NODE", &name).replace("@ADDRESS", &address.to_string());
        args.extend(self.options.args.iter().map(own));
        let (data, listen) = (node_dir.join("data"), listen.to_string());
        Setup { data, listen, args, wrapper, ..Setup::default() }
    }

    /// Returns a node's address. Each cluster has loopback addresses of its own, so that no other
    /// process takes a port while a node is down.
    fn address(&self, node: usize) -> Ipv4Addr {
        if let Some(network) = &self.network {
            return network.address(node);
        }
        let pid = std::process::id();
        let host = (self.number as usize % NODES_MAX) * NODES_MAX + node - 1;
        Ipv4Addr::new(127, 64 + (pid >> 8) as u8 % 64, pid as u8, host as u8)
    }

    /// Returns the number of nodes, including those that are down.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the numbers of all nodes.
    pub fn nodes(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.members.len()
    }

    /// Returns the address of each node for clients, in order.
    pub fn client_addresses(&self) -> Vec<SocketAddr> {
        self.nodes().map(|node| self.client_address(node)).collect()
    }

    /// Returns the address of a node for clients.
    pub fn client_address(&self, node: usize) -> SocketAddr {
        (self.address(node), PORTS[0]).into()
    }

    /// Returns the length of a lease.
    pub fn lease(&self) -> Duration {
        self.options.lease
    }

    /// Runs a function on the clients' host.
    pub fn on_client_host<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        match &self.network {
            Some(network) => network.run_on_host(self.options.nodes + 1, task),
            None => task(),
        }
    }

    /// Runs a function on a node's host.
    fn run_on_node<T: Send>(&self, node: usize, task: impl FnOnce() -> T + Send) -> T {
        match &self.network {
            Some(network) => network.run_on_host(node, task),
            None => task(),
        }
    }

    /// Starts clients that write a history, spread over all nodes.
    pub fn record(&self, plan: RegisterPlan) -> RegisterWorkload {
        self.on_client_host(|| RegisterWorkload::start(&self.client_addresses(), plan))
    }

    fn member(&mut self, node: usize) -> &mut MemberProcess {
        &mut self.members[node - 1]
    }

    /// Returns the process of a running node.
    pub fn server(&mut self, node: usize) -> &mut Server {
        self.member(node).server.as_mut().expect("this node runs")
    }

    /// Returns a node's own file system.
    pub fn disk(&mut self, node: usize) -> &mut Mount {
        self.member(node).disk.as_mut().expect("nodes have file systems of their own here")
    }

    /// Returns a node's setup, which its next start uses.
    pub fn setup_mut(&mut self, node: usize) -> &mut Setup {
        &mut self.member(node).setup
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, node: usize) {
        self.member(node).kill();
    }

    /// Starts a node that is down, on the present contents of its directory.
    pub fn start_node(&mut self, node: usize) {
        self.member(node).start();
    }

    /// Starts all nodes that are down at once: they may need each other.
    pub fn start_all(&mut self) {
        std::thread::scope(|threads| {
            for member in self.members.iter_mut().filter(|member| member.server.is_none()) {
                threads.spawn(|| member.start());
            }
        });
    }

    /// Restarts the nodes that ended by themselves; returns their number.
    pub fn restart_ended(&mut self) -> usize {
        let has_ended =
            |member: &mut MemberProcess| !member.server.as_mut().is_none_or(Server::is_alive);
        let ended_nodes = self.nodes().filter(|node| has_ended(&mut self.members[node - 1]));
        let ended_nodes: Vec<_> = ended_nodes.collect();
        ended_nodes.iter().for_each(|node| self.kill(*node));
        self.start_all();
        ended_nodes.len()
    }

    /// Starts a node. Fails with its output if it does not become ready.
    pub fn try_start(&mut self, node: usize) -> Result<(), StartRefusal> {
        self.member(node).try_start()
    }

    /// Tries to start these nodes at once; returns the refusals of those that did not start.
    pub fn try_start_all(&mut self, nodes: &[usize]) -> Vec<(usize, StartRefusal)> {
        let chosen = (1..).zip(&mut self.members).filter(|(node, _)| nodes.contains(node));
        std::thread::scope(|threads| {
            let attempts =
                chosen.map(|(node, member)| (node, threads.spawn(|| member.try_start())));
            let attempts: Vec<_> = attempts.collect();
            let refusal = |(node, attempt): (usize, std::thread::ScopedJoinHandle<'_, _>)| {
                let result: Result<(), StartRefusal> =
                    attempt.join().expect("a start does not panic");
                Some((node, result.err()?))
            };
            attempts.into_iter().filter_map(refusal).collect()
        })
    }

    /// Deletes a node's data, as a new disk would, and lets the node join again under its name.
    pub fn replace(&mut self, node: usize) {
        assert_ne!(node, 1, "the others join by asking node 1");
        let data = self.setup_mut(node).data.clone();
        std::fs::remove_dir_all(&data).expect("it is ours");
        self.run_tool(&["cluster", "replace", &format!("n{node}")]);
        self.start_node(node);
    }

    /// Runs a command of the tool at node 1; retries while there is no master.
    pub fn run_tool(&self, args: &[&str]) {
        if let Err(stderr) = self.try_run_tool(args) {
            panic!("{}: {stderr}", args.join(" "));
        }
    }

    /// Runs a command of the tool at node 1; retries while there is no master. Fails with the
    /// tool's output if the cluster's state does not permit the command.
    pub fn try_run_tool(&self, args: &[&str]) -> Result<(), String> {
        let mut refusal = None;
        wait_until("what operators asked for", || {
            let output = self.tool(1, args);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => Ok(()),
                Some(5) => Err(format!("{stderr}\n{}", self.last_output())),
                Some(4) => {
                    refusal = Some(stderr);
                    Ok(())
                }
                _ => panic!("{}: {stderr}", args.join(" ")),
            }
        });
        refusal.map_or(Ok(()), Err)
    }

    /// Stops a node and waits; returns its exit code. `None`: a signal ended it.
    pub fn stop(&mut self, node: usize) -> Option<i32> {
        self.member(node).stop()
    }

    /// Pauses a node with SIGSTOP.
    pub fn pause(&mut self, node: usize) {
        self.member(node).pause();
    }

    /// Resumes a node with SIGCONT.
    pub fn resume(&mut self, node: usize) {
        self.member(node).resume();
    }

    /// Runs the command line tool on a node's host, with that node's address for operators.
    pub fn tool(&self, node: usize, args: &[&str]) -> std::process::Output {
        let url = format!("http://{}", self.admin_address(node));
        let mut command = match &self.network {
            Some(network) => {
                let wrapper = network.wrapper(node);
                let mut command = std::process::Command::new(&wrapper[0]);
                command.args(&wrapper[1..]).arg(crate::server::binary());
                command
            }
            None => std::process::Command::new(crate::server::binary()),
        };
        command.args(args).args(["--url", &url]).stdin(std::process::Stdio::null());
        command.output().expect("the tool runs")
    }

    /// Returns the address of a node for operators and for nodes that join.
    fn admin_address(&self, node: usize) -> SocketAddr {
        match self.options.has_admin_listeners {
            true => (self.address(node), PORTS[2]).into(),
            false => self.client_address(node),
        }
    }

    /// Returns the network; clients are on its last host.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("this cluster is behind the switch")
    }

    /// Returns the bytes that a node and the others have sent each other, with frame headers.
    pub fn exchanged_bytes(&self, node: usize) -> u64 {
        let others = self.nodes().filter(|other| *other != node);
        let directions = others.flat_map(|other| [(node, other), (other, node)]);
        directions.map(|(from, to)| self.network().counts(from, to).bytes).sum()
    }

    /// Cuts the connection between two nodes in both directions.
    pub fn cut(&self, one: usize, other: usize) {
        self.network().link_both_ways(one, other, Cable::CUT);
    }

    /// Cuts a node off from the other nodes; clients still reach it.
    pub fn isolate(&self, node: usize) {
        self.nodes().filter(|other| *other != node).for_each(|other| self.cut(node, other));
    }

    /// Restores all links.
    pub fn heal(&self) {
        self.network().heal();
    }
}
