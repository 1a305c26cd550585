//! Users and rights in real clusters, as their clients meet them.
//!
//! Promises: an experiment knows what a right allows from the documents, not from the product's
//! table; a wrong verdict names the request, the user and the node.
//! Never: asserts in its short form how long a change takes: other work shares the machine.
//! Read next: `revocation.rs`, then `matrix/mod.rs` and `tenants.rs`.

mod canary;
mod certificates;
mod cut_off;
mod login_flood;
mod matrix;
mod revocation;
mod switching;
mod tenants;
mod timing;

use std::time::{Duration, Instant};
use systest::access::{AccessAdmin, AccessVerdict};
use systest::client::Resp;
use systest::cluster::{Cluster, wait_until};

/// Longest wait for a change, on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time within which a revoked right ends everywhere, in seconds (`docs/run/access.md`).
const REVOCATION_SECONDS: f64 = 5.0;

/// Turns access on at node 1, and waits until it is on at every node. Returns the password of the
/// user `admin`.
fn turn_on(cluster: &mut Cluster) -> String {
    let password = AccessAdmin::new(&cluster.setup_mut(1).data).turn_on();
    wait_for_access(cluster, true);
    password
}

/// Waits until access is on, or off, at every node.
fn wait_for_access(cluster: &mut Cluster, on: bool) {
    for node in cluster.nodes() {
        // Asked at the local socket, which says so whether or not the listeners keep to it.
        let admin = AccessAdmin::new(&cluster.setup_mut(node).data);
        wait_until("access at every node", || match admin.is_on() == on {
            true => Ok(()),
            false => Err(format!("node {node} has not applied it")),
        });
    }
}

/// Asks until the verdict is the wanted one; returns the seconds since the change.
fn seconds_until(
    (what, wanted): (&str, &AccessVerdict),
    changed_at: Instant,
    mut ask: impl FnMut() -> AccessVerdict,
) -> f64 {
    loop {
        let verdict = ask();
        if verdict == *wanted {
            return changed_at.elapsed().as_secs_f64();
        }
        let elapsed = changed_at.elapsed();
        assert!(elapsed < CHANGE_TIMEOUT, "{what}: {verdict:?} after {elapsed:?}, not {wanted:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Logs a connection in, which must succeed.
fn log_in(client: &mut Resp, user: &str, password: &str) {
    let reply = client.call_line(&format!("AUTH {user} {password}")).expect("it answers");
    assert_eq!(reply.error(), None, "{user} does not log in");
}
