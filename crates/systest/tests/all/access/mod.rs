//! Users and rights in real clusters, as their clients meet them.
//!
//! Promises: an experiment knows what a right allows from the documents, not from the product's
//! table; a wrong verdict names the request, the user and the node.
//! Never: asserts in its short form how long a change takes: other work shares the machine.
//! Read next: `revocation.rs`, then `matrix/mod.rs`.

mod canary;
mod certificates;
mod cut_off;
mod matrix;
mod revocation;

use std::time::{Duration, Instant};
use systest::access::{AccessAdmin, AccessVerdict};
use systest::client::Resp;
use systest::cluster::{Cluster, wait_until};

/// Longest wait for a change, on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time within which a revoked right ends everywhere, in seconds (`docs/run/access.md`).
const REVOCATION_SECONDS: f64 = 5.0;

/// Turns access on at node 1, and waits until every node requires a login. Returns the password of
/// the user `admin`.
fn turn_on(cluster: &mut Cluster) -> String {
    let password = AccessAdmin::new(&cluster.setup_mut(1).data).turn_on();
    for address in cluster.client_addresses() {
        let ask = || {
            let mut client = Resp::connect(address).map_err(|error| error.to_string())?;
            let reply = client.call_line("PING").map_err(|error| error.to_string())?;
            match AccessVerdict::of_resp(&reply) {
                AccessVerdict::Unauthenticated => Ok(()),
                verdict => Err(format!("{address}: {verdict:?}")),
            }
        };
        cluster.on_client_host(|| wait_until("access at every node", ask));
    }
    password
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
