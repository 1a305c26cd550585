//! An old copy of a member's data directory is put back: the cluster admits it in no incarnation,
//! and the node refuses by itself from then on.

use base::limits::PEER_LIVES_MAX;
use std::path::Path;
use std::time::Duration;
use store::DataDir;
use systest::client::{Resp, RespReply};
use systest::rigs::{Cluster, Options, Scratch, must, text, wait};

fn quick(nodes: usize) -> Options {
    Options { lease: Duration::from_millis(600), ..Options::of(nodes) }
}

fn set(cluster: &Cluster, node: usize, key: &str) {
    let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
    let answer = redis.say(&format!("SET {key} v")).expect("it answers");
    assert_eq!(answer, RespReply::Simple("OK".into()), "node {node}");
}

/// Puts the copy in place of the node's directory.
fn put_back(cluster: &mut Cluster, node: usize, kept: &Path) {
    let data = cluster.how(node).data.clone();
    std::fs::remove_dir_all(&data).expect("it is ours");
    must(&["cp", "-a", text(kept), text(&data)]);
}

/// Waits until every member's current incarnation is on record at every node.
fn must_be_on_record(cluster: &Cluster) {
    wait("lives on record", || {
        for node in cluster.nodes() {
            let life = cluster.status(node).ok_or("no status")?["incarnation"].clone();
            for other in cluster.nodes() {
                let seen = cluster.status(other).ok_or("no status")?;
                let members = seen["members"].as_array().into_iter().flatten();
                let named = format!("n{node}");
                let known = members.filter(|member| member["name"] == named.as_str());
                if !known.into_iter().any(|member| member["incarnation"] == life) {
                    return Err(format!("life {life} of n{node} at n{other}: {seen}"));
                }
            }
        }
        Ok(())
    });
}

/// Checks that the node starts, and ends by itself because a peer refused it; then it refuses by
/// itself.
fn must_end(cluster: &mut Cluster, node: usize) {
    let said = match cluster.try_to_begin(node) {
        Err(refusal) => refusal.words,
        Ok(()) => {
            wait("its end", || match cluster.server(node).alive() {
                true => Err("it runs".into()),
                false => Ok(()),
            });
            let said = cluster.server(node).said();
            cluster.kill(node);
            said
        }
    };
    assert!(said.contains("is an old copy") && said.contains("cluster replace"), "{said}");
    let refusal = cluster.try_to_begin(node).expect_err("it knows");
    assert_eq!(refusal.code, Some(3), "{refusal}");
    assert!(refusal.words.contains("cluster replace"), "{refusal}");
}

#[test]
fn an_old_copy_is_refused_in_every_life_and_says_so_itself() {
    let scratch = Scratch::new("old-copy");
    let mut cluster = Cluster::start(&scratch, quick(3));
    set(&cluster, 1, "before");
    must_be_on_record(&cluster);
    assert_eq!(cluster.stop(3), Some(0));
    let (data, kept) = (cluster.how(3).data.clone(), scratch.join("kept"));
    must(&["cp", "-a", text(&data), text(&kept)]);
    cluster.begin(3);
    cluster.must_settle();
    cluster.must_serve();
    set(&cluster, 3, "after");
    must_be_on_record(&cluster);
    assert_eq!(cluster.stop(3), Some(0));

    // Its incarnation has the number of the one that ran before, and all nodes that saw that have
    // restarted.
    for node in [1, 2] {
        cluster.kill(node);
    }
    put_back(&mut cluster, 3, &kept);
    for node in [1, 2] {
        cluster.begin(node);
    }
    must_end(&mut cluster, 3);
    cluster.must_serve();
    set(&cluster, 1, "without");

    // It has started so often that no node has seen its number, and no node refused it meanwhile.
    put_back(&mut cluster, 3, &kept);
    for node in [1, 2] {
        cluster.kill(node);
    }
    for _ in 0..4 {
        cluster.begin(3);
        cluster.kill(3);
    }
    for node in [1, 2] {
        cluster.begin(node);
    }
    must_end(&mut cluster, 3);
    cluster.must_serve();
    set(&cluster, 1, "still-without");

    // The remedy that the error named.
    std::fs::remove_dir_all(&data).expect("it is ours");
    cluster.operate(&["cluster", "replace", "n3"]);
    cluster.begin(3);
    cluster.must_settle();
    cluster.must_be_level();
    let mut redis = Resp::connect(cluster.client(3)).expect("it listens");
    for key in ["before", "after", "without", "still-without"] {
        let found = redis.say(&format!("GET {key}")).expect("it answers");
        assert_eq!(found, RespReply::Bulk(Some(b"v".to_vec())), "{key}");
    }
}

/// Draws new incarnations in a data directory, as starts do that die before they send a message.
fn fall_unheard(data: &Path, times: usize) {
    let data = DataDir::open(data).expect("nobody has it");
    for _ in 0..times {
        let number = data.begin_life().expect("begins");
        data.begin_incarnation(number).expect("draws");
    }
}

/// Waits until a node reports a single incarnation; with `present`, the current one.
fn must_be_settled(cluster: &mut Cluster, node: usize, present: bool) {
    let life = cluster.status(node).expect("it answers")["incarnation"].as_u64();
    let line = match present {
        true => format!("life {:016x} ", life.expect("a number")),
        false => String::new(),
    };
    let file = cluster.how(node).data.join("LIVES");
    wait("one life that is told", || {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let alone = text.matches("life ").count() == 1 && text.contains(&line);
        if alone { Ok(()) } else { Err(text) }
    });
}

#[test]
fn the_newest_directory_is_let_in_however_often_it_fell_unseen() {
    let scratch = Scratch::new("newest");
    let mut cluster = Cluster::start(&scratch, quick(3));
    must_be_on_record(&cluster);
    // Incarnations that no peer heard of: fewer than the node can report, more, and none that it
    // knows, as from an earlier version.
    for fallen in [3, 2 * PEER_LIVES_MAX, 0] {
        cluster.nodes().for_each(|node| cluster.kill(node));
        // It starts alone first, and reaches no peer.
        cluster.begin(3);
        cluster.kill(3);
        let data = cluster.how(3).data.clone();
        fall_unheard(&data, fallen);
        if fallen == 0 {
            std::fs::remove_file(data.join("LIVES")).expect("it was there");
        }
        cluster.begin_all();
        cluster.must_settle();
        cluster.must_serve();
        must_be_on_record(&cluster);
        // This incarnation may have no token of its own; once it is on record, there is space for
        // the next.
        must_be_settled(&mut cluster, 3, false);
        for _ in 0..2 {
            cluster.kill(3);
            cluster.begin(3);
        }
        cluster.must_settle();
        must_be_settled(&mut cluster, 3, true);
    }
    // A directory that was moved elsewhere is the newest, too.
    assert_eq!(cluster.stop(2), Some(0));
    let (data, moved) = (cluster.how(2).data.clone(), scratch.join("moved"));
    must(&["mv", text(&data), text(&moved)]);
    cluster.how(2).data = moved;
    cluster.begin(2);
    cluster.must_settle();
    cluster.must_be_level();
}
