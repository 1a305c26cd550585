//! Access is turned on and off at one node after the other, under load at all of them: what a
//! replica applies must not depend on whether its node had access on at that moment.

use super::{turn_on, wait_for_access};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use systest::access::{AccessAdmin, AccessVerdict};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, StopOnDrop, experiment};
use systest::report::{Figures, short_or_long};

const PASSWORD: &str = "switching-password";
/// Pause between two switches.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause of a client that can't connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Keys of a client.
const KEYS: u64 = 300;

/// Client that writes at one node, whether or not it is let.
struct SwitchWriter {
    address: SocketAddr,
    /// Number, by which its keys differ from those of others.
    number: u64,
    /// True if it logs in whenever it is asked to.
    has_login: bool,
    client: Option<Resp>,
    /// Answers by what they say of the request's rights.
    verdicts: BTreeMap<&'static str, u64>,
}

impl SwitchWriter {
    fn new(address: SocketAddr, number: u64, has_login: bool) -> SwitchWriter {
        SwitchWriter { address, number, has_login, client: None, verdicts: BTreeMap::new() }
    }

    /// Writes until it is told to stop; returns the verdicts that it got.
    fn run(mut self, stop: &AtomicBool) -> BTreeMap<&'static str, u64> {
        for at in 0_u64.. {
            if stop.load(SeqCst) {
                break;
            }
            let verdict = match self.write(at) {
                Some(AccessVerdict::Granted) => "granted",
                Some(AccessVerdict::Forbidden) => "forbidden",
                Some(AccessVerdict::Unauthenticated) => "unauthenticated",
                Some(AccessVerdict::Unavailable(_)) => "unavailable",
                None => {
                    self.client = None;
                    std::thread::sleep(RECONNECT_PAUSE);
                    "unanswered"
                }
            };
            *self.verdicts.entry(verdict).or_default() += 1;
            if verdict == "unauthenticated" && self.has_login {
                // While access is off nobody can log in: then the next request is served anyway.
                let line = format!("AUTH ada {PASSWORD}");
                let _ = self.client.as_mut().map(|client| client.call_line(&line));
            }
        }
        self.verdicts
    }

    /// Makes one change, of a kind that the number of the attempt chooses. `None`: no answer.
    fn write(&mut self, at: u64) -> Option<AccessVerdict> {
        let key = format!("s{}-{}", self.number, at / 7 % KEYS);
        let lines = match at % 7 {
            0 => vec![format!("SET {key} {at}")],
            1 => vec![format!("SET {key} {at} PX {}", 200 + at % 2_000)],
            2 => vec![format!("INCR n-{key}")],
            3 => vec![format!("APPEND a-{} x", at % 20)],
            4 => vec![format!("DEL {key}")],
            5 => vec!["MULTI".into(), format!("SET {key} {at}"), "INCR all".into(), "EXEC".into()],
            _ => vec![format!("CREDENZA.TAS t-{key} ABSENT VALUE {at}")],
        };
        if self.client.is_none() {
            self.client = Resp::connect(self.address).ok();
        }
        let client = self.client.as_mut()?;
        let mut last = RespReply::Simple(String::new());
        for line in lines {
            last = client.call_line(&line).ok()?;
        }
        // A transaction that was begun while access was off is discarded with its first refusal.
        let is_discarded = last.error().is_some_and(|error| error.starts_with("EXECABORT"));
        Some(match is_discarded {
            true => AccessVerdict::Unauthenticated,
            false => AccessVerdict::of_resp(&last),
        })
    }
}

/// Turns access off and on again, at a node of its own each time; restarts one node meanwhile.
fn switch(cluster: &mut Cluster, rounds: usize) -> u64 {
    let mut switches = 0;
    let admins: Vec<_> =
        cluster.nodes().map(|node| AccessAdmin::new(&cluster.setup_mut(node).data)).collect();
    let mut at = 0;
    let mut next = |words: &[&str]| {
        // Node 3 is restarted meanwhile, and its socket is not always there.
        admins[at % 2].run(words);
        at += 1;
    };
    for round in 0..rounds {
        next(&["access", "off", "--confirm", "off"]);
        std::thread::sleep(PAUSE);
        if round == rounds / 2 {
            // It replays its log while access is off: much of that was applied while it was on.
            assert_eq!(cluster.stop(3), Some(0));
        }
        next(&["access", "on"]);
        std::thread::sleep(PAUSE);
        if round == rounds / 2 {
            cluster.start_node(3);
        }
        switches += 2;
    }
    switches
}

#[test]
fn replicas_are_equal_after_access_was_switched_under_load_at_all_nodes() {
    let _permit = experiment();
    let scratch = Scratch::new("access-switching");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.must_serve();
    let mut figures = Figures::start("S12 access switched under load");
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    admin.set_role("web", &["read,write,list:default/default"]);
    admin.add_user("ada", PASSWORD, "web");
    turn_on(&mut cluster);
    let writers: Vec<_> = cluster
        .client_addresses()
        .into_iter()
        .flat_map(|address| [(address, true), (address, true), (address, false)])
        .zip(0..)
        .map(|((address, has_login), number)| SwitchWriter::new(address, number, has_login))
        .collect();
    let stop = &AtomicBool::new(false);
    let verdicts: Vec<_> = std::thread::scope(|threads| {
        let _stopped = StopOnDrop(stop);
        let threads: Vec<_> = writers
            .into_iter()
            .map(|writer| (writer.has_login, threads.spawn(move || writer.run(stop))))
            .collect();
        figures.faults = switch(&mut cluster, short_or_long(8, 100));
        stop.store(true, SeqCst);
        let joined = threads
            .into_iter()
            .map(|(has_login, thread)| (has_login, thread.join().expect("it does not panic")));
        joined.collect()
    });
    let count = |login: bool, verdict: &str| -> u64 {
        let of_kind = verdicts.iter().filter(|(has_login, _)| *has_login == login);
        of_kind.filter_map(|(_, counts)| counts.get(verdict)).sum()
    };
    figures.ok = count(true, "granted");
    figures.fail = count(true, "unauthenticated") + count(true, "unavailable");
    figures.info = count(true, "unanswered") + count(false, "unanswered");
    figures.add("strangers_served", count(false, "granted"));
    figures.add("strangers_refused", count(false, "unauthenticated"));
    figures.print();
    // Controls: each switch was felt, and writes went on in both states.
    assert!(count(true, "granted") > count(false, "granted"), "{verdicts:?}");
    assert!(count(false, "granted") > 0 && count(false, "unauthenticated") > 0, "{verdicts:?}");
    assert_eq!(count(true, "forbidden") + count(false, "forbidden"), 0, "{verdicts:?}");
    // The comparison reads without a login.
    admin.run(&["access", "off", "--confirm", "off"]);
    wait_for_access(&mut cluster, false);
    cluster.must_converge();
    cluster.must_have_equal_rows();
    // Every group, the directory among them, by the product's own comparison.
    cluster.run_tool(&["group", "verify"]);
}
