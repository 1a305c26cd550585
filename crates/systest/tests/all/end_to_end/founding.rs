//! An Arakoon configuration of three nodes: all three are started as the file says, in any order,
//! and the first founds no second cluster when it returns with an empty disk.

use super::arakoon::free_address;
use super::three_nodes::until;
use std::net::SocketAddr;
use std::thread;
use systest::client::{Arakoon, ArakoonCluster as Nodes, Http};
use systest::rigs::{Scratch, text};
use systest::server::{Server, Setup, tool};

/// Writes the file; returns each node's address for clients, and its setup.
fn ricky(scratch: &Scratch) -> (Nodes, Vec<Setup>) {
    ricky_with(scratch, "", "")
}

/// Writes the file with further lines for all, and for the last node, which is last in the file.
fn ricky_with(scratch: &Scratch, global: &str, last: &str) -> (Nodes, Vec<Setup>) {
    let mut ini = format!("[global]\ncluster = a, b, c\ncluster_id = ricky\n{global}");
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let (client, peer) = (free_address(), free_address());
        let home = scratch.join(name);
        std::fs::create_dir(&home).expect("a home");
        ini.push_str(&format!(
            "[{name}]\nip = 127.0.0.1\nclient_port = {}\nmessaging_port = {}\nhome = {}\n",
            client.port(),
            peer.port(),
            text(&home)
        ));
        nodes.push((name.to_string(), client));
    }
    ini.push_str(last);
    let file = scratch.join("ricky.ini");
    std::fs::write(&file, ini).expect("a file");
    let setups = nodes.iter().map(|(name, client)| {
        let setup = Setup::on(&scratch.join(name).join("credenza"));
        let setup = setup.with(&["--arakoon-config", text(&file), "--name", name]);
        Setup { listen: client.to_string(), ..setup }
    });
    let setups = setups.collect();
    (Nodes { id: "ricky".into(), nodes }, setups)
}

/// Starts the last node first; each reports why it is not ready yet.
fn start(nodes: &Nodes, setups: &[Setup]) -> Vec<Server> {
    thread::scope(|threads| {
        let mut starting = Vec::new();
        for (setup, (_, client)) in setups.iter().zip(&nodes.nodes).rev() {
            starting.push(threads.spawn(move || Server::must(setup)));
            if starting.len() < 2 {
                until("word of a node alone", || waits_alone(*client));
            }
        }
        let mut started: Vec<_> =
            starting.into_iter().map(|node| node.join().expect("it started")).collect();
        started.reverse();
        started
    })
}

/// Returns `Some` if the node there reports that it belongs to no cluster.
fn waits_alone(client: SocketAddr) -> Option<()> {
    let answer = Http::connect(client).ok()?.ask("GET", "/ready", b"").ok()?;
    let alone = answer.status == 503 && answer.json()["error"]["reason"] == "not_bootstrapped";
    alone.then_some(())
}

fn three_voters(client: SocketAddr) -> Option<()> {
    let status = Http::connect(client).ok()?.ask("GET", "/status", b"").ok()?.json();
    let members = status["groups"].as_array()?.iter().map(|group| {
        let members = group["members"].as_array()?.iter();
        Some(members.filter(|member| member["part"] == "voter").count())
    });
    members.into_iter().all(|voters| voters == Some(3)).then_some(())
}

#[test]
fn an_arakoon_configuration_of_three_nodes_is_served_as_it_is() {
    let scratch = Scratch::new("three-ini");
    let (nodes, setups) = ricky(&scratch);
    let mut servers = start(&nodes, &setups);
    let mut client = until("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    // All three vote before the first, which founded the cluster, may be stopped.
    until("three voters", || three_voters(nodes.nodes[0].1));
    servers.remove(0).kill();
    let mut client = until("another master", || Arakoon::master(&nodes).ok());
    assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
    servers.push(Server::must(&setups[0]));
    let mut first = Arakoon::connect(nodes.nodes[0].1, "ricky").expect("it listens");
    until("word of the master", || first.who_master().ok().flatten().filter(|name| name != "a"));
}

#[test]
fn a_file_s_witness_joins_as_one_and_its_lease_is_the_cluster_s() {
    let scratch = Scratch::new("ini-witness");
    let (nodes, setups) =
        ricky_with(&scratch, "lease_period = 1\nquorum = 2\n", "witness = true\n");
    let mut servers = start(&nodes, &setups);
    let mut client = until("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    let (_, first) = nodes.nodes[0];
    until("a witness in every group", || {
        let status = Http::connect(first).ok()?.ask("GET", "/status", b"").ok()?.json();
        let mut groups = status["groups"].as_array()?.iter();
        let is_witness = |member: &serde_json::Value| {
            (member["name"] == "c" && member["part"] == "witness")
                || (member["name"] != "c" && member["part"] == "voter")
        };
        let all = |group: &serde_json::Value| {
            group["members"]
                .as_array()
                .is_some_and(|all| all.len() == 3 && all.iter().all(is_witness))
        };
        groups.all(all).then_some(())
    });
    let asked = Http::connect(first).expect("it listens").ask("GET", "/v1/cluster", b"");
    assert_eq!(asked.expect("an answer").json()["lease_ms"], 1_000);
    // With the witness's vote the other one goes on.
    servers.remove(0).kill();
    let mut client = until("another master", || Arakoon::master(&nodes).ok());
    assert_eq!(client.who_master().ok().flatten().as_deref(), Some("b"));
    assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
}

#[test]
fn the_first_node_of_a_file_founds_no_second_cluster_on_an_empty_disk() {
    let scratch = Scratch::new("ini-wiped");
    let (nodes, setups) = ricky(&scratch);
    let mut servers = start(&nodes, &setups);
    let mut client = until("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    until("three voters", || three_voters(nodes.nodes[0].1));
    servers.iter_mut().for_each(Server::kill);
    let home = &setups[0].data;
    std::fs::remove_dir_all(home).expect("its disk is lost");
    let (first, second) = (nodes.nodes[0].1, nodes.nodes[1].1);
    thread::scope(|threads| {
        // While no peer tells it that there is no cluster, it founds none.
        let lost = threads.spawn(|| Server::start(&setups[0]));
        until("word of a node alone", || waits_alone(first));
        thread::sleep(std::time::Duration::from_secs(2));
        waits_alone(first).expect("it founds nothing by itself");
        let others: Vec<_> = (1..3).map(|node| &setups[node]).collect();
        let others: Vec<_> =
            others.iter().map(|setup| threads.spawn(|| Server::must(setup))).collect();
        // The two others have a cluster with a node of that name, whose place is not free.
        let refused = lost.join().expect("no panic").expect_err("its name is taken");
        assert!(refused.words.contains("cluster replace"), "{refused}");
        let _others: Vec<_> = others.into_iter().map(|node| node.join().expect("up")).collect();
        let url = format!("http://{second}");
        let mut replace = tool(&["cluster", "replace", "a", "--url", &url]);
        until("its place", || replace.status().ok()?.success().then_some(()));
        let _again = Server::must(&setups[0]);
        until("three voters", || three_voters(first));
        let mut client = until("a master", || Arakoon::master(&nodes).ok());
        assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
    });
}

/// The file's ports are open whatever `listen` is, and the nodes reach each other there.
#[test]
fn a_file_s_nodes_find_each_other_at_its_ports_although_listen_is_said_elsewhere() {
    let scratch = Scratch::new("ini-listen");
    let (nodes, mut setups) = ricky(&scratch);
    for setup in &mut setups {
        setup.listen = free_address().to_string();
    }
    let servers = start(&nodes, &setups);
    let mut client = until("a master", || Arakoon::master(&nodes).ok());
    client.set(b"k", b"v").expect("written");
    until("three voters", || three_voters(nodes.nodes[0].1));
    for (server, (name, client_port)) in servers.iter().zip(&nodes.nodes) {
        assert_ne!(server.address, *client_port);
        let mut own = Arakoon::connect(*client_port, "ricky").expect("it listens");
        until("word of the master", || own.who_master().ok().flatten());
        for address in [server.address, *client_port] {
            let asked = Http::connect(address).expect("it listens").ask("GET", "/v1/cluster", b"");
            let seen = asked.expect("an answer").json();
            let members = seen["members"].as_array().expect("members");
            let member = members.iter().find(|member| member["name"] == name.as_str());
            let told = member.expect("it is a member")["client"].clone();
            assert_eq!(told, client_port.to_string().as_str(), "as the others know it");
        }
    }
}
