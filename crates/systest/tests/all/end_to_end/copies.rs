//! An old copy of a member's data directory is put back: the cluster admits it in no incarnation,
//! and from then on the node refuses to start.

use base::limits::PEER_LIVES_MAX;
use std::path::Path;
use std::time::Duration;
use store::DataDir;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, path_str, run_ok};

fn short_lease_options(nodes: usize) -> Options {
    Options { lease: Duration::from_millis(600), ..Options::new(nodes) }
}

fn set(cluster: &Cluster, node: usize, key: &str) {
    let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
    let answer = redis.call_line(&format!("SET {key} v")).expect("it answers");
    assert_eq!(answer, RespReply::Simple("OK".into()), "node {node}");
}

/// Puts the copy in place of the node's directory.
fn restore_copy(cluster: &mut Cluster, node: usize, copy: &Path) {
    let data = cluster.setup_mut(node).data.clone();
    std::fs::remove_dir_all(&data).expect("it is ours");
    run_ok(&["cp", "-a", path_str(copy), path_str(&data)]);
}

/// Waits until every member's current incarnation is on record at every node.
fn must_be_on_record(cluster: &Cluster) {
    wait_until("lives on record", || {
        for node in cluster.nodes() {
            let incarnation = cluster.status(node).ok_or("no status")?["incarnation"].clone();
            for other in cluster.nodes() {
                let status = cluster.status(other).ok_or("no status")?;
                let members = status["members"].as_array().into_iter().flatten();
                let named = format!("n{node}");
                let recorded = members.filter(|member| member["name"] == named.as_str());
                if !recorded.into_iter().any(|member| member["incarnation"] == incarnation) {
                    return Err(format!("life {incarnation} of n{node} at n{other}: {status}"));
                }
            }
        }
        Ok(())
    });
}

/// Checks that the node starts and exits because a peer refused it, and that it refuses the next
/// start before it contacts a peer.
fn must_end_as_old_copy(cluster: &mut Cluster, node: usize) {
    let output = match cluster.try_start(node) {
        Err(refusal) => refusal.output,
        Ok(()) => {
            wait_until("its end", || match cluster.server(node).is_alive() {
                true => Err("it runs".into()),
                false => Ok(()),
            });
            let output = cluster.server(node).stderr_text();
            cluster.kill(node);
            output
        }
    };
    assert!(output.contains("is an old copy") && output.contains("cluster replace"), "{output}");
    let refusal = cluster.try_start(node).expect_err("it knows");
    assert_eq!(refusal.code, Some(3), "{refusal}");
    assert!(refusal.output.contains("cluster replace"), "{refusal}");
}

#[test]
fn old_data_copy_is_refused_in_every_incarnation_and_then_by_itself() {
    let scratch = Scratch::new("old-copy");
    let mut cluster = Cluster::start(&scratch, short_lease_options(3));
    set(&cluster, 1, "before");
    must_be_on_record(&cluster);
    assert_eq!(cluster.stop(3), Some(0));
    let (data, copy) = (cluster.setup_mut(3).data.clone(), scratch.join("kept"));
    run_ok(&["cp", "-a", path_str(&data), path_str(&copy)]);
    cluster.start_node(3);
    cluster.must_converge();
    cluster.must_serve();
    set(&cluster, 3, "after");
    must_be_on_record(&cluster);
    assert_eq!(cluster.stop(3), Some(0));

    // Its incarnation has the number of an earlier one, and all nodes that recorded that one have
    // restarted.
    for node in [1, 2] {
        cluster.kill(node);
    }
    restore_copy(&mut cluster, 3, &copy);
    for node in [1, 2] {
        cluster.start_node(node);
    }
    must_end_as_old_copy(&mut cluster, 3);
    cluster.must_serve();
    set(&cluster, 1, "without");

    // It has started so often that its number is on record nowhere, and no node has refused it.
    restore_copy(&mut cluster, 3, &copy);
    for node in [1, 2] {
        cluster.kill(node);
    }
    for _ in 0..4 {
        cluster.start_node(3);
        cluster.kill(3);
    }
    for node in [1, 2] {
        cluster.start_node(node);
    }
    must_end_as_old_copy(&mut cluster, 3);
    cluster.must_serve();
    set(&cluster, 1, "still-without");

    // The remedy that the error named.
    std::fs::remove_dir_all(&data).expect("it is ours");
    cluster.run_tool(&["cluster", "replace", "n3"]);
    cluster.start_node(3);
    cluster.must_converge();
    cluster.must_have_equal_rows();
    let mut redis = Resp::connect(cluster.client_address(3)).expect("it listens");
    for key in ["before", "after", "without", "still-without"] {
        let found = redis.call_line(&format!("GET {key}")).expect("it answers");
        assert_eq!(found, RespReply::Bulk(Some(b"v".to_vec())), "{key}");
    }
}

/// Draws new incarnations in a data directory, as starts do that die before they send a message.
fn draw_unseen_incarnations(data: &Path, times: usize) {
    let data = DataDir::open(data).expect("nobody has it");
    for _ in 0..times {
        let number = data.increment_incarnation().expect("begins");
        data.begin_incarnation(number).expect("draws");
    }
}

/// Waits until a node reports a single incarnation; with `is_current`, the current one.
fn must_report_single_incarnation(cluster: &mut Cluster, node: usize, is_current: bool) {
    let incarnation = cluster.status(node).expect("it answers")["incarnation"].as_u64();
    let line = match is_current {
        true => format!("life {:016x} ", incarnation.expect("a number")),
        false => String::new(),
    };
    let file = cluster.setup_mut(node).data.join("LIVES");
    wait_until("one life that is told", || {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let is_only_one = text.matches("life ").count() == 1 && text.contains(&line);
        if is_only_one { Ok(()) } else { Err(text) }
    });
}

#[test]
fn newest_data_directory_is_admitted_after_unseen_incarnations() {
    let scratch = Scratch::new("newest");
    let mut cluster = Cluster::start(&scratch, short_lease_options(3));
    must_be_on_record(&cluster);
    // Incarnations that no peer recorded: fewer than the node can report, more, and no list of
    // them, as after an earlier version.
    for unseen in [3, 2 * PEER_LIVES_MAX, 0] {
        cluster.nodes().for_each(|node| cluster.kill(node));
        // It starts alone first, and reaches no peer.
        cluster.start_node(3);
        cluster.kill(3);
        let data = cluster.setup_mut(3).data.clone();
        draw_unseen_incarnations(&data, unseen);
        if unseen == 0 {
            std::fs::remove_file(data.join("LIVES")).expect("it was there");
        }
        cluster.start_all();
        cluster.must_converge();
        cluster.must_serve();
        must_be_on_record(&cluster);
        // This incarnation may have no token of its own; once it is on record, there is space for
        // the next.
        must_report_single_incarnation(&mut cluster, 3, false);
        for _ in 0..2 {
            cluster.kill(3);
            cluster.start_node(3);
        }
        cluster.must_converge();
        must_report_single_incarnation(&mut cluster, 3, true);
    }
    // A directory that was moved elsewhere is the newest, too.
    assert_eq!(cluster.stop(2), Some(0));
    let (data, moved) = (cluster.setup_mut(2).data.clone(), scratch.join("moved"));
    run_ok(&["mv", path_str(&data), path_str(&moved)]);
    cluster.setup_mut(2).data = moved;
    cluster.start_node(2);
    cluster.must_converge();
    cluster.must_have_equal_rows();
}
