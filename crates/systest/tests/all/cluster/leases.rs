//! The setting `lease_reads`: answers of a cut-off master to reads, with and without it.

use super::SECOND;
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};

/// Far longer than a read takes: under its lease a master contacts no other node meanwhile.
const LEASE: Duration = Duration::from_secs(6);

#[test]
fn master_without_followers_answers_reads_only_with_lease_reads_on() {
    let _permit = experiment();
    for (setting, answered) in [("on", true), ("off", false)] {
        let scratch = Scratch::new(&format!("cluster-lease-reads-{setting}"));
        let args = ["--lease-reads", setting].map(String::from).to_vec();
        let mut cluster =
            Cluster::start(&scratch, Options { args, lease: LEASE, ..Options::new(3) });
        cluster.must_converge();
        let master = cluster.master();
        let address = cluster.client_address(master);
        let mut client = Resp::with_timeout(address, SECOND).expect("it listens");
        let written = client.call_line("SET k v").expect("an answer");
        assert_eq!(written, RespReply::Simple("OK".into()), "lease_reads={setting}");
        let others: Vec<_> = cluster.nodes().filter(|node| *node != master).collect();
        others.iter().for_each(|node| cluster.pause(*node));
        // Wait until all of the nodes' threads have the new setting.
        std::thread::sleep(SECOND / 2);
        let value = RespReply::Bulk(Some(b"v".to_vec()));
        let reply = client.call_line("GET k").is_ok_and(|reply| reply == value);
        assert_eq!(reply, answered, "lease_reads={setting}");
        others.iter().for_each(|node| cluster.resume(*node));
        wait_until("a read", || {
            match Resp::with_timeout(address, SECOND).and_then(|mut redis| redis.call_line("GET k"))
            {
                Ok(reply) if reply == value => Ok(()),
                other => Err(format!("lease_reads={setting}: {other:?}")),
            }
        });
    }
}
