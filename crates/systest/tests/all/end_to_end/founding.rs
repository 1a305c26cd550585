//! An Arakoon configuration of three nodes: all three are started as the file says, in any order,
//! and the first founds no second cluster when it returns with an empty disk.

use super::three_nodes::wait_for;
use std::net::SocketAddr;
use std::thread;
use systest::client::{Arakoon, ArakoonCluster as Nodes, Http};
use systest::environment::{Scratch, free_address, path_str};
use systest::server::{Server, Setup, tool};

/// Writes the file; returns each node's address for clients, and its setup.
fn write_config(scratch: &Scratch) -> (Nodes, Vec<Setup>) {
    write_config_with(scratch, "", "")
}

/// Writes the file with further lines for all, and for the last node, which is last in the file.
fn write_config_with(scratch: &Scratch, global: &str, last: &str) -> (Nodes, Vec<Setup>) {
    let mut ini = format!("[global]\ncluster = a, b, c\ncluster_id = ricky\n{global}");
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let (client, peer) = (free_address(), free_address());
        let node_home = scratch.join(name);
        std::fs::create_dir(&node_home).expect("a home");
        ini.push_str(&format!(
            "[{name}]\nip = 127.0.0.1\nclient_port = {}\nmessaging_port = {}\nhome = {}\n",
            client.port(),
            peer.port(),
            path_str(&node_home)
        ));
        nodes.push((name.to_string(), client));
    }
    ini.push_str(last);
    let file = scratch.join("ricky.ini");
    std::fs::write(&file, ini).expect("a file");
    let setups = nodes.iter().map(|(name, client)| {
        let setup = Setup::new(&scratch.join(name).join("credenza"));
        let setup = setup.with_args(&["--arakoon-config", path_str(&file), "--name", name]);
        Setup { listen: client.to_string(), ..setup }
    });
    let setups = setups.collect();
    (Nodes { id: "ricky".into(), nodes }, setups)
}

/// Starts the last node first; each reports why it is not ready yet.
fn start_all(nodes: &Nodes, setups: &[Setup]) -> Vec<Server> {
    thread::scope(|threads| {
        let mut handles = Vec::new();
        for (setup, (_, client)) in setups.iter().zip(&nodes.nodes).rev() {
            handles.push(threads.spawn(move || Server::must_start(setup)));
            if handles.len() < 2 {
                wait_for("word of a node alone", || is_not_bootstrapped(*client));
            }
        }
        let mut servers: Vec<_> =
            handles.into_iter().map(|node| node.join().expect("it started")).collect();
        servers.reverse();
        servers
    })
}

/// Returns `Some` if the node there reports that it belongs to no cluster.
fn is_not_bootstrapped(client: SocketAddr) -> Option<()> {
    let answer = Http::connect(client).ok()?.request("GET", "/ready", b"").ok()?;
    let is_alone = answer.status == 503 && answer.json()["error"]["reason"] == "not_bootstrapped";
    is_alone.then_some(())
}

fn has_three_voters(client: SocketAddr) -> Option<()> {
    let status = Http::connect(client).ok()?.request("GET", "/status", b"").ok()?.json();
    let members = status["groups"].as_array()?.iter().map(|group| {
        let members = group["members"].as_array()?.iter();
        Some(members.filter(|member| member["part"] == "voter").count())
    });
    members.into_iter().all(|voters| voters == Some(3)).then_some(())
}

#[test]
fn arakoon_file_of_three_nodes_bootstraps_and_survives_node_loss() {
    let scratch = Scratch::new("three-ini");
    let (nodes, setups) = write_config(&scratch);
    let mut servers = start_all(&nodes, &setups);
    let mut client = wait_for("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    // All three vote before the first, which founded the cluster, may be stopped.
    wait_for("three voters", || has_three_voters(nodes.nodes[0].1));
    servers.remove(0).kill();
    let mut client = wait_for("another master", || Arakoon::master(&nodes).ok());
    assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
    servers.push(Server::must_start(&setups[0]));
    let mut first = Arakoon::connect(nodes.nodes[0].1, "ricky").expect("it listens");
    wait_for("word of the master", || first.who_master().ok().flatten().filter(|name| name != "a"));
}

#[test]
fn witness_in_arakoon_file_votes_and_file_lease_is_applied() {
    let scratch = Scratch::new("ini-witness");
    let (nodes, setups) =
        write_config_with(&scratch, "lease_period = 1\nquorum = 2\n", "witness = true\n");
    let mut servers = start_all(&nodes, &setups);
    let mut client = wait_for("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    let (_, first) = nodes.nodes[0];
    wait_for("a witness in every group", || {
        let status = Http::connect(first).ok()?.request("GET", "/status", b"").ok()?.json();
        let mut groups = status["groups"].as_array()?.iter();
        let is_witness = |member: &serde_json::Value| {
            (member["name"] == "c" && member["part"] == "witness")
                || (member["name"] != "c" && member["part"] == "voter")
        };
        let has_members = |group: &serde_json::Value| {
            group["members"]
                .as_array()
                .is_some_and(|members| members.len() == 3 && members.iter().all(is_witness))
        };
        groups.all(has_members).then_some(())
    });
    let response = Http::connect(first).expect("it listens").request("GET", "/v1/cluster", b"");
    assert_eq!(response.expect("an answer").json()["lease_ms"], 1_000);
    // With the witness's vote the other node completes writes.
    servers.remove(0).kill();
    let mut client = wait_for("another master", || Arakoon::master(&nodes).ok());
    assert_eq!(client.who_master().ok().flatten().as_deref(), Some("b"));
    assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
}

#[test]
fn first_node_of_file_with_wiped_disk_bootstraps_no_second_cluster() {
    let scratch = Scratch::new("ini-wiped");
    let (nodes, setups) = write_config(&scratch);
    let mut servers = start_all(&nodes, &setups);
    let mut client = wait_for("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    wait_for("three voters", || has_three_voters(nodes.nodes[0].1));
    servers.iter_mut().for_each(Server::kill);
    let data = &setups[0].data;
    std::fs::remove_dir_all(data).expect("its disk is lost");
    let (first, second) = (nodes.nodes[0].1, nodes.nodes[1].1);
    thread::scope(|threads| {
        // It founds a cluster only after a peer has reported that there is none.
        let wiped_start = threads.spawn(|| Server::start(&setups[0]));
        wait_for("word of a node alone", || is_not_bootstrapped(first));
        thread::sleep(std::time::Duration::from_secs(2));
        is_not_bootstrapped(first).expect("it founds nothing by itself");
        let others: Vec<_> = (1..3).map(|node| &setups[node]).collect();
        let others: Vec<_> =
            others.iter().map(|setup| threads.spawn(|| Server::must_start(setup))).collect();
        // The two others have a cluster whose members include a node of that name.
        let refusal = wiped_start.join().expect("no panic").expect_err("its name is taken");
        assert!(refusal.output.contains("cluster replace"), "{refusal}");
        let _others: Vec<_> = others.into_iter().map(|node| node.join().expect("up")).collect();
        let url = format!("http://{second}");
        let mut replace = tool(&["cluster", "replace", "a", "--url", &url]);
        wait_for("its place", || replace.status().ok()?.success().then_some(()));
        let _restarted = Server::must_start(&setups[0]);
        wait_for("three voters", || has_three_voters(first));
        let mut client = wait_for("a master", || Arakoon::master(&nodes).ok());
        assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
    });
}

/// The file's ports are open whatever `listen` is, and the nodes reach each other there.
#[test]
fn arakoon_file_ports_are_served_in_addition_to_listen_address() {
    let scratch = Scratch::new("ini-listen");
    let (nodes, mut setups) = write_config(&scratch);
    for setup in &mut setups {
        setup.listen = free_address().to_string();
    }
    let servers = start_all(&nodes, &setups);
    let mut client = wait_for("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    wait_for("three voters", || has_three_voters(nodes.nodes[0].1));
    for (server, (name, client_port)) in servers.iter().zip(&nodes.nodes) {
        assert_ne!(server.address, *client_port);
        let mut arakoon = Arakoon::connect(*client_port, "ricky").expect("it listens");
        wait_for("word of the master", || arakoon.who_master().ok().flatten());
        for address in [server.address, *client_port] {
            let response =
                Http::connect(address).expect("it listens").request("GET", "/v1/cluster", b"");
            let cluster = response.expect("an answer").json();
            let members = cluster["members"].as_array().expect("members");
            let member = members.iter().find(|member| member["name"] == name.as_str());
            let client_address = member.expect("it is a member")["client"].clone();
            assert_eq!(client_address, client_port.to_string().as_str(), "as the others know it");
        }
    }
}
