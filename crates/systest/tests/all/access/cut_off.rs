//! Node that is cut off from the directory's master: acts on the cluster are refused after a while,
//! data go on.

use super::{log_in, turn_on};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use systest::access::{AccessAdmin, AccessVerdict, basic};
use systest::client::{Http, Resp};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::Network;
use systest::report::{BoundChecks, Figures, skipped};

const PASSWORD: &str = "cut-off-password";
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which acts are refused, in seconds (`docs/run/access.md`).
const STALE_SECONDS: f64 = 30.0;
/// Two checks of the node lie so far apart at most: the last contact may be so much before the cut.
const CHECK_SECONDS: f64 = 1.0;

/// Act on the cluster: the verb that it needs, method, path and body.
type Act = (&'static str, &'static str, &'static str, &'static str);

const ACTS: [Act; 4] = [
    ("watch", "GET", "/status", ""),
    ("operate", "PUT", "/v1/admin/log-levels", r#"{"other":"info"}"#),
    ("place", "DELETE", "/v1/cluster/ring/plan", ""),
    ("secure", "GET", "/v1/access", ""),
];

/// Does an act as a user; returns the verdict.
fn act(address: SocketAddr, user: &str, (_, method, path, body): Act) -> AccessVerdict {
    let header = basic(user, PASSWORD);
    let mut client = Http::with_timeout(address, TIMEOUT).expect("clients reach it");
    let headers = [("authorization", header.as_str())];
    let answer = client.request_with_headers(method, path, &headers, body.as_bytes());
    AccessVerdict::of_http(&answer.expect("it answers"))
}

fn stale() -> AccessVerdict {
    AccessVerdict::Unavailable("stale_replica".into())
}

/// Reads and writes data that need no other node; panics if a request is refused.
fn use_data(address: SocketAddr) {
    let header = basic("ada", PASSWORD);
    let mut client = Http::with_timeout(address, TIMEOUT).expect("clients reach it");
    let mut ask = |method: &str, path: &str, body: &[u8]| {
        let headers = [("authorization", header.as_str()), ("content-type", "text/plain")];
        let answer = client.request_with_headers(method, path, &headers, body);
        let answer = answer.expect("it answers");
        // With `r=1` a replica without the value may be the first to answer.
        let is_served = matches!(answer.status, 200 | 204 | 404);
        assert!(is_served, "{method} {path}: {} {}", answer.status, answer.text());
    };
    ask("GET", "/v1/buckets/default/default/keys/k?consistency=dirty", b"");
    // Each write without a context adds a sibling to its key: a key has one.
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let key = KEYS.fetch_add(1, Ordering::Relaxed);
    ask("PUT", &format!("/buckets/b/keys/k{key}?w=1&dw=1"), b"v");
    ask("GET", &format!("/buckets/b/keys/k{key}?r=1"), b"");
}

/// Returns the node that is master of the directory, if there is one.
fn directory_master(cluster: &Cluster) -> Option<usize> {
    let is_master =
        |node: &usize| cluster.group_status(*node, 0).is_some_and(|status| status.role == "master");
    cluster.nodes().find(is_master)
}

/// Starts a cluster with the users of the experiment; returns the directory's master, too.
fn start(scratch: &Scratch) -> (Cluster, usize) {
    let mut cluster = Cluster::start(scratch, Options::new(3).with_switch());
    cluster.must_serve();
    cluster.init_ring();
    let mut node = None;
    wait_until("a master of the directory", || {
        node = directory_master(&cluster);
        node.map(|_| ()).ok_or_else(|| cluster.describe())
    });
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    admin.set_role("data", &["read,write:default/default", "read,write:available/b"]);
    admin.add_user("ada", PASSWORD, "data");
    admin.add_user("op", PASSWORD, "admin");
    turn_on(&mut cluster);
    (cluster, node.expect("it was waited for"))
}

/// Cuts a node off; returns the seconds until it refuses an act that concerns it alone. Data go on
/// meanwhile.
fn cut_off(cluster: &Cluster, node: usize) -> f64 {
    let (address, cut_at) = (cluster.client_address(node), Instant::now());
    cluster.isolate(node);
    cluster.on_client_host(|| {
        loop {
            use_data(address);
            let verdict = act(address, "op", ACTS[1]);
            let elapsed = cut_at.elapsed();
            if verdict != AccessVerdict::Granted {
                assert_eq!(verdict, stale());
                return elapsed.as_secs_f64();
            }
            assert!(elapsed < Duration::from_secs(120), "it still allows acts");
            std::thread::sleep(Duration::from_millis(250));
        }
    })
}

#[test]
fn node_cut_off_from_the_directory_refuses_acts_and_goes_on_with_data() {
    let name = "access without the directory's master";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cut-off");
    let (mut cluster, node) = start(&scratch);
    let (mut figures, mut bounds) = (Figures::start(name), BoundChecks::default());
    let address = cluster.client_address(node);
    let other = cluster.nodes().find(|other| *other != node).expect("there are three");
    cluster.on_client_host(|| {
        let mut client = Resp::connect(address).expect("clients reach it");
        log_in(&mut client, "ada", PASSWORD);
        assert_eq!(client.call_line("SET k v").expect("it answers").error(), None);
        use_data(address);
        for it in ACTS {
            assert_eq!(act(address, "op", it), AccessVerdict::Granted, "{it:?} before the cut");
        }
    });
    let refused_after = cut_off(&cluster, node);
    assert!(refused_after > STALE_SECONDS - CHECK_SECONDS, "refused after {refused_after} s");
    bounds.check("acts are refused, s after the cut", refused_after, STALE_SECONDS + 10.0);
    cluster.on_client_host(|| {
        for it in ACTS {
            let wanted = if it.0 == "watch" { AccessVerdict::Granted } else { stale() };
            assert_eq!(act(address, "op", it), wanted, "{it:?} while the node is cut off");
        }
        use_data(address);
    });
    // Its local socket still has all rights; the other nodes serve operators as before.
    let local_socket = AccessAdmin::new(&cluster.setup_mut(node).data);
    assert!(local_socket.run(&["access", "status"]).contains("\"on\""));
    let other = cluster.client_address(other);
    cluster.on_client_host(|| {
        wait_until("acts at another node", || match act(other, "op", ACTS[2]) {
            AccessVerdict::Granted => Ok(()),
            verdict => Err(format!("{verdict:?}")),
        });
    });
    let healed_at = Instant::now();
    cluster.heal();
    cluster.on_client_host(|| {
        for it in ACTS {
            wait_until("acts after the cut", || match act(address, "op", it) {
                AccessVerdict::Granted => Ok(()),
                verdict => Err(format!("{it:?}: {verdict:?}")),
            });
        }
    });
    bounds.check("acts are served, s after healing", healed_at.elapsed().as_secs_f64(), 10.0);
    figures.faults = 1;
    figures.add("refused_after_s", format!("{refused_after:.1}"));
    figures.print();
    bounds.assert_bounds();
}
