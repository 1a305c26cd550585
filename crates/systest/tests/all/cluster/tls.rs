//! Encrypted connections between nodes: rotation under load, and migration of a running cluster.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Instant;
use systest::certificates::TestAuthority;
use systest::client::Resp;
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, StopOnDrop, experiment};
use systest::report::Figures;
use systest::server::signal;

/// Makes an authority with certificates of three nodes.
fn authority(scratch: &Scratch) -> TestAuthority {
    let authority = TestAuthority::create(&scratch.join("ca"));
    (1..=3).for_each(|node| authority.node(&format!("n{node}")));
    authority
}

fn options(authority: &TestAuthority, peer_tls: &str) -> Options {
    let mut options = Options::new(3);
    options.args.extend(authority.node_args());
    options.args.extend(["--peer-tls".into(), peer_tls.into()]);
    options
}

/// Writes at one node until it is told to stop; returns the errors that it got.
fn write(address: &std::net::SocketAddr, stop: &AtomicBool, written: &AtomicU64) -> Vec<String> {
    let mut client = Resp::connect(*address).expect("the node listens");
    let mut errors = Vec::new();
    let mut number = 0;
    while !stop.load(SeqCst) {
        number += 1;
        match client.call_line(&format!("SET rotation:{address}:{number} {number}")) {
            Ok(reply) => match reply.error() {
                Some(error) => errors.push(error.to_string()),
                None => drop(written.fetch_add(1, SeqCst)),
            },
            Err(error) => errors.push(error.to_string()),
        }
    }
    errors
}

#[test]
fn rotation_of_certificates_under_load_fails_no_write_and_changes_no_master() {
    let _permit = experiment();
    let scratch = Scratch::new("tls-rotation");
    let authority = authority(&scratch);
    let mut cluster = Cluster::start(&scratch, options(&authority, "required"));
    let mut figures = Figures::start("TLS rotation");
    let (master, addresses) = (cluster.master(), cluster.client_addresses());
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop, written) = (&stop, &written);
    let errors: Vec<String> = std::thread::scope(|threads| {
        let _stopped = StopOnDrop(stop);
        let writers: Vec<_> = addresses
            .iter()
            .map(|address| threads.spawn(move || write(address, stop, written)))
            .collect();
        for node in cluster.nodes() {
            let before =
                (written.load(SeqCst), cluster.count_log_lines("the connection is replaced"));
            authority.renew(&format!("n{node}.node.crt"));
            signal(cluster.server(node).pid(), rustix::process::Signal::HUP);
            wait_until("the node's two connections are replaced", || {
                let lines = cluster.count_log_lines("the connection is replaced");
                match lines >= before.1 + 2 && written.load(SeqCst) > before.0 + 100 {
                    true => Ok(()),
                    false => Err(format!("{lines} connections are replaced")),
                }
            });
        }
        stop.store(true, SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().expect("it does not panic")).collect()
    });
    figures.ok = written.load(SeqCst);
    figures.fail = errors.len() as u64;
    figures.print();
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(cluster.master(), master, "no election");
    cluster.must_have_equal_rows();
}

#[test]
fn running_cluster_migrates_from_plain_to_encrypted_connections() {
    let _permit = experiment();
    let scratch = Scratch::new("tls-migration");
    let authority = authority(&scratch);
    let mut cluster = Cluster::start(&scratch, options(&authority, "off"));
    for mode in ["accept", "required"] {
        for node in cluster.nodes() {
            assert_eq!(cluster.stop(node), Some(0));
            let setup = cluster.setup_mut(node).clone().with_args(&["--peer-tls", mode]);
            *cluster.setup_mut(node) = setup;
            cluster.start_node(node);
            cluster.must_converge();
            cluster.must_serve();
        }
        let started = Instant::now();
        wait_until("no node warns of plain connections", || {
            let plain = cluster.nodes().filter(|node| {
                let status = cluster.status(*node).map(|status| status.to_string());
                status.is_none_or(|text| text.contains("are not encrypted"))
            });
            match plain.count() {
                0 => Ok(()),
                count => Err(format!("{count} nodes warn after {:?}", started.elapsed())),
            }
        });
    }
    // A node without TLS stays out.
    assert_eq!(cluster.stop(3), Some(0));
    let setup = cluster.setup_mut(3).clone().with_args(&["--peer-tls", "off"]);
    *cluster.setup_mut(3) = setup;
    let _ = cluster.try_start(3);
    wait_until("word of the refused handshake", || {
        let status = cluster.status(1).map(|status| status.to_string()).unwrap_or_default();
        if status.contains("TLS handshake failed") { Ok(()) } else { Err(status) }
    });
}
