//! The setting `lease_reads`: answers of a cut-off master to reads, with and without it.

use super::SECOND;
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::rigs::{Cluster, Options, Scratch, experiment, wait};

/// Far longer than a read takes: under its lease a master contacts no other node meanwhile.
const LEASE: Duration = Duration::from_secs(6);

#[test]
fn a_master_without_lease_reads_answers_none_while_it_hears_nobody() {
    let _permit = experiment();
    for (switch, answered) in [("on", true), ("off", false)] {
        let scratch = Scratch::new(&format!("cluster-lease-reads-{switch}"));
        let words = ["--lease-reads", switch].map(String::from).to_vec();
        let mut cluster =
            Cluster::start(&scratch, Options { words, lease: LEASE, ..Options::of(3) });
        cluster.must_settle();
        let master = cluster.master();
        let address = cluster.client(master);
        let mut client = Resp::with_patience(address, SECOND).expect("it listens");
        let written = client.say("SET k v").expect("an answer");
        assert_eq!(written, RespReply::Simple("OK".into()), "lease_reads={switch}");
        let others: Vec<_> = cluster.nodes().filter(|node| *node != master).collect();
        others.iter().for_each(|node| cluster.pause(*node));
        // Wait until all of the nodes' threads have the new setting.
        std::thread::sleep(SECOND / 2);
        let value = RespReply::Bulk(Some(b"v".to_vec()));
        let read = client.say("GET k").is_ok_and(|read| read == value);
        assert_eq!(read, answered, "lease_reads={switch}");
        others.iter().for_each(|node| cluster.wake(*node));
        wait("a read", || {
            match Resp::with_patience(address, SECOND).and_then(|mut to| to.say("GET k")) {
                Ok(read) if read == value => Ok(()),
                other => Err(format!("lease_reads={switch}: {other:?}")),
            }
        });
    }
}
