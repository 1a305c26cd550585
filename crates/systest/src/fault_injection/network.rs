//! Hosts of a test: network namespaces whose cables end in a switch of the test's own, which
//! delays, loses, duplicates and cuts as configured.
//!
//! Each host has one cable. Its other end lies in a namespace for the switch, where a macvtap takes
//! every frame off it; that one is opened as a file, so neither `unsafe` nor a kernel with `netem`
//! is needed. Neighbour entries are permanent: a cut must not also break ARP, whose memory of
//! failures would add seconds to every recovery.

use super::switch::{Cable, LinkCounts, Switch};
use crate::environment::{Root, find_tool, missing, path_str, run, run_ok};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// A network: hosts numbered from 1, and the switch between them, removed on drop.
pub struct Network {
    name: String,
    hosts: usize,
    switch: Option<Switch>,
}

impl Network {
    /// Returns the reason why none can be made here. `None`: it can.
    pub fn missing() -> Option<String> {
        if let Some(reason) = missing(Root::Needed, &["ip", "nsenter"]) {
            return Some(reason);
        }
        let name = format!("{}-try", unique_name());
        let mut created = run(&["ip", "netns", "add", &name]).status.success();
        let links = ["d0 type veth peer name d1", "link d0 name m0 type macvtap mode passthru"];
        for link in links {
            let command = format!("ip -n {name} link add {link}");
            created = created && run(&command.split(' ').collect::<Vec<_>>()).status.success();
        }
        let _ = run(&["ip", "netns", "del", &name]);
        (!created).then(|| "needs network namespaces and macvtap, which the kernel refuses".into())
    }

    /// Connects this many hosts by a switch whose random generator has this seed. No cable has a
    /// fault.
    pub fn new(scratch: &Path, hosts: usize, seed: u64) -> Network {
        sweep();
        let mut network = Network { name: unique_name(), hosts, switch: None };
        run_ok(&["ip", "netns", "add", &network.namespace_name(0)]);
        let ports = (1..=hosts).map(|host| network.add_host(scratch, host)).collect();
        for host in 1..=hosts {
            network.add_neighbours(host);
        }
        network.switch = Some(Switch::start(ports, seed));
        network
    }

    /// Returns the name of a host's namespace; 0: the switch's.
    pub fn namespace_name(&self, host: usize) -> String {
        format!("{}-n{host}", self.name)
    }

    /// Returns a host's address.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, 0, host as u8)
    }

    /// Returns the arguments of a command that runs another command on a host.
    pub fn wrapper(&self, host: usize) -> Vec<String> {
        let nsenter = find_tool("nsenter").expect("it was there before");
        // Not `ip netns exec`: it copies all mounts, and a file system that others still have
        // mounted can't be removed, as after a power cut.
        let space = format!("--net=/run/netns/{}", self.namespace_name(host));
        [path_str(&nsenter), &space, "--"].map(String::from).to_vec()
    }

    /// Runs a function on a host, on a thread of its own; sockets made there, and threads started
    /// there, stay there.
    pub fn run_on_host<T: Send>(&self, host: usize, task: impl FnOnce() -> T + Send) -> T {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        use std::os::fd::AsFd;
        let namespace =
            File::open(format!("/run/netns/{}", self.namespace_name(host))).expect("it was made");
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                task()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sets the behaviour of the frames from one host to another, from now on.
    pub fn set_link(&self, from: usize, to: usize, link: Cable) {
        assert!(from != to && (1..=self.hosts).contains(&from) && (1..=self.hosts).contains(&to));
        self.switch().set(from - 1, to - 1, link);
    }

    /// Sets the behaviour of the frames between two hosts in both directions.
    pub fn link_both_ways(&self, one: usize, other: usize, link: Cable) {
        self.set_link(one, other, link);
        self.set_link(other, one, link);
    }

    /// Removes the faults of all cables.
    pub fn heal(&self) {
        for (from, to) in
            (1..=self.hosts).flat_map(|from| (1..=self.hosts).map(move |to| (from, to)))
        {
            if from != to {
                self.set_link(from, to, Cable::default());
            }
        }
    }

    /// Returns the number of frames that passed from one host to another, and that were lost.
    pub fn counts(&self, from: usize, to: usize) -> LinkCounts {
        self.switch().counts(from - 1, to - 1)
    }

    fn switch(&self) -> &Switch {
        self.switch.as_ref().expect("it runs until the laboratory is dropped")
    }

    /// Creates a host with its cable; returns the switch's end as a file.
    fn add_host(&self, scratch: &Path, host: usize) -> File {
        let (namespace, switch_namespace) = (self.namespace_name(host), self.namespace_name(0));
        let (port, tap) = (format!("p{host}"), format!("t{host}"));
        run_ok(&["ip", "netns", "add", &namespace]);
        // IPv6 is disabled, so that its frames are not among those that a test counts. A failure
        // means that there is none.
        for host in [host, 0] {
            self.run_on_host(host, || {
                let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            });
        }
        let ends = ["type", "veth", "peer", "name", &port, "netns", &switch_namespace];
        run_ok(&[&["ip", "link", "add", "eth0", "netns", &namespace][..], &ends].concat());
        let mac = mac(host);
        run_ok(&["ip", "-n", &namespace, "link", "set", "eth0", "address", &mac]);
        let cidr = format!("{}/24", self.address(host));
        run_ok(&["ip", "-n", &namespace, "addr", "add", &cidr, "dev", "eth0"]);
        // One frame is one packet: otherwise a loss would take 64 KiB at once.
        run_ok(&["ip", "-n", &namespace, "link", "set", "eth0", "gso_max_segs", "1"]);
        let link_type = ["type", "macvtap", "mode", "passthru"];
        run_ok(&["ip", "-n", &namespace, "link", "set", "lo", "up"]);
        run_ok(&["ip", "-n", &namespace, "link", "set", "eth0", "up"]);
        run_ok(&["ip", "-n", &switch_namespace, "link", "set", &port, "up"]);
        let add = ["ip", "-n", &switch_namespace, "link", "add", "link", &port, "name", &tap];
        // A thousand clients that all send at once must not lose half of their frames.
        let queue = ["txqueuelen", "10000"];
        run_ok(&[&add[..], &queue, &link_type].concat());
        run_ok(&["ip", "-n", &switch_namespace, "link", "set", &tap, "up"]);
        let device_number = format!("cat /sys/class/net/{tap}/tap*/dev");
        let device_number =
            run_ok(&["ip", "netns", "exec", &switch_namespace, "sh", "-c", &device_number]);
        let (major, minor) = device_number.split_once(':').expect("MAJOR:MINOR");
        let number = |text: &str| text.parse::<u32>().expect("a number of the kernel");
        let device = rustix::fs::makedev(number(major), number(minor));
        let path = scratch.join(&tap);
        let link_type = FileType::CharacterDevice;
        rustix::fs::mknodat(CWD, &path, link_type, Mode::RUSR | Mode::WUSR, device)
            .expect("root may make devices");
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, Mode::empty()).expect("the tap can be opened").into()
    }

    fn add_neighbours(&self, host: usize) {
        let namespace = self.namespace_name(host);
        for other in (1..=self.hosts).filter(|other| *other != host) {
            let (address, mac) = (self.address(other).to_string(), mac(other));
            let entry = ["lladdr", &mac, "dev", "eth0", "nud", "permanent"];
            run_ok(&[&["ip", "-n", &namespace, "neigh", "replace", &address][..], &entry].concat());
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.switch = None;
        for host in 0..=self.hosts {
            let _ = run(&["ip", "netns", "del", &self.namespace_name(host)]);
        }
    }
}

/// Returns a name that no other network of this or another process has.
fn unique_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("systest-{}-{number}", std::process::id())
}

/// Returns a host's MAC address; the switch identifies the host by its last byte.
fn mac(host: usize) -> String {
    format!("02:00:00:00:00:{host:02x}")
}

/// Removes the networks of runs whose process has ended.
fn sweep() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("systest-").and_then(|rest| rest.split('-').next());
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = run(&["ip", "netns", "del", &name]);
        }
    }
}
