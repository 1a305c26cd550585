//! Tenants: users of one cluster, of whom one asks ten times what it may. The others must hardly
//! notice it, and no master must lose its office for it.

use super::turn_on;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use systest::access::{AccessAdmin, basic};
use systest::bystanders::{BystanderReport, resp_bystander, run_bystanders};
use systest::client::{Http, Resp};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, StopOnDrop, experiment};
use systest::report::{BoundChecks, Figures, short_or_long};

const PASSWORD: &str = "tenant-password";
/// Operations a second that the greedy tenant may use of each node.
const QUOTA: u64 = 100;
/// Connections of the greedy tenant to each node.
const CONNECTIONS: u64 = 4;
/// Bound on the bytes of the greedy tenant's bucket.
const BYTES_MAX: u64 = 1 << 20;
const VALUE_BYTES: usize = 4 << 10;
/// Writes a second of the tenant that fills its bucket, all connections together.
const FILL_RATE: u64 = 400;
/// Parts of a measurement, of which the median counts. A disk that stalls once for 30 ms makes six
/// calls of each client late, which are 1 % of its calls of three seconds: no fault of a tenant.
const PARTS: usize = 5;
/// Largest ratio of the others' p99 beside the greedy tenant and without it.
const RATIO_MAX: f64 = 2.0;

/// Cluster with two tenants, each with a bucket: `calm` and `greedy`.
struct TenantTrial {
    cluster: Cluster,
    admin: AccessAdmin,
    /// Header of the administrator.
    header: String,
    figures: Figures,
    bounds: BoundChecks,
    name: &'static str,
}

impl TenantTrial {
    /// Starts a cluster. `properties`: those of the greedy tenant's bucket, as JSON.
    fn start(scratch: &Scratch, name: &'static str, properties: &str) -> TenantTrial {
        let mut cluster = Cluster::start(scratch, Options::new(3));
        cluster.must_serve();
        let mut web = Http::connect(cluster.client_address(1)).expect("it listens");
        for (bucket, body) in [("calm", "{}"), ("greedy", properties)] {
            let path = format!("/v1/buckets/default/{bucket}");
            let answer = web.request("PUT", &path, body.as_bytes()).expect("it answers");
            assert_eq!(answer.status, 201, "{bucket}: {}", answer.text());
        }
        let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
        for tenant in ["calm", "greedy"] {
            admin.set_role(tenant, &[&format!("read,write,list:default/{tenant}")]);
            admin.add_user(tenant, PASSWORD, tenant);
        }
        let header = basic("admin", &turn_on(&mut cluster));
        let (figures, bounds) = (Figures::start(name), BoundChecks::default());
        TenantTrial { cluster, admin, header, figures, bounds, name }
    }

    fn get(&self, node: usize, path: &str) -> serde_json::Value {
        let mut web = Http::connect(self.cluster.client_address(node)).expect("it listens");
        let headers = [("authorization", self.header.as_str())];
        let answer = web.request_with_headers("GET", path, &headers, b"").expect("it answers");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Returns the ballot of each group at each node: an election changes one.
    fn ballots(&self) -> Vec<(usize, String, String)> {
        let mut ballots = Vec::new();
        for node in self.cluster.nodes() {
            let status = self.get(node, "/status");
            for group in status["groups"].as_array().into_iter().flatten() {
                ballots.push((node, group["id"].to_string(), group["ballot"].to_string()));
            }
        }
        assert!(ballots.len() >= 6, "groups 0 and 1 at three nodes: {ballots:?}");
        ballots
    }

    /// Runs clients of the calm tenant at all nodes for a time. Returns what they got in each part
    /// of it.
    fn watch_calm(&self, time: Duration) -> Vec<BystanderReport> {
        let login = Some(("calm", PASSWORD));
        let watch_part = |_| {
            let addresses = self.cluster.client_addresses().into_iter();
            let calls =
                addresses.map(|address| resp_bystander(address, login, Some("default/calm")));
            run_bystanders(calls.collect(), time / PARTS as u32)
        };
        (0..PARTS).map(watch_part).collect()
    }

    /// Measures the calm tenant, alone and beside the greedy one, whose clients run until they are
    /// told to stop. Returns their answers by their first word, and the time that they had.
    fn run(
        &mut self,
        time: Duration,
        greedy: impl Fn(SocketAddr, u64, &AtomicBool) -> BTreeMap<String, u64> + Sync,
    ) -> (BTreeMap<String, u64>, Duration) {
        let alone = self.watch_calm(time);
        let ballots = self.ballots();
        let addresses = self.cluster.client_addresses();
        let (stop, greedy, began) = (&AtomicBool::new(false), &greedy, Instant::now());
        let (beside, answers) = std::thread::scope(|threads| {
            let _stopped = StopOnDrop(stop);
            let places =
                addresses.iter().flat_map(|address| (0..CONNECTIONS).map(move |_| address));
            let clients: Vec<_> = places
                .zip(0..)
                .map(|(address, number)| threads.spawn(move || greedy(*address, number, stop)))
                .collect();
            let beside = self.watch_calm(time);
            stop.store(true, SeqCst);
            let mut answers: BTreeMap<String, u64> = BTreeMap::new();
            for client in clients {
                for (word, count) in client.join().expect("it does not panic") {
                    *answers.entry(word).or_default() += count;
                }
            }
            (beside, answers)
        });
        let elapsed = began.elapsed();
        let (p99_alone, p99_beside) = (median_p99_ms(&alone), median_p99_ms(&beside));
        let calls = alone.iter().chain(&beside).map(|part| part.latencies.count());
        self.figures.ok = calls.sum::<usize>() as u64;
        self.figures.add("greedy", format!("{answers:?}").replace(' ', ""));
        self.figures.add("p99_ms_alone", format!("{p99_alone:.2}"));
        self.figures.add("p99_ms_beside", format!("{p99_beside:.2}"));
        self.figures.print();
        alone.iter().for_each(|part| part.must_be_served("the calm tenant alone"));
        beside.iter().for_each(|part| part.must_be_served("the calm tenant beside the greedy one"));
        let after = self.ballots();
        let elections = after.iter().filter(|ballot| !ballots.contains(ballot)).count();
        let name = format!("{}: ballots that are others than before", self.name);
        self.bounds.check(&name, elections as f64, 0.0);
        let name = format!("{}: p99 of the other tenant, times", self.name);
        self.bounds.check(&name, p99_beside / p99_alone, RATIO_MAX);
        (answers, elapsed)
    }
}

/// Returns the median of the parts' 99th percentiles, in milliseconds.
fn median_p99_ms(parts: &[BystanderReport]) -> f64 {
    let mut p99: Vec<f64> = parts.iter().map(|part| part.latencies.per_mille_ms(990)).collect();
    p99.sort_unstable_by(f64::total_cmp);
    p99[p99.len() / 2]
}

/// Connects a client of the greedy tenant.
fn connect(address: SocketAddr) -> Resp {
    let mut client = Resp::connect(address).expect("it listens");
    super::log_in(&mut client, "greedy", PASSWORD);
    // Those of its connections that were there before use up its quota already.
    wait_until("its bucket", || {
        let reply = client.call_line("CREDENZA.BUCKET default/greedy").expect("it answers");
        match reply.error() {
            None => Ok(()),
            Some(text) if text.starts_with("QUOTA ") => Err(text.to_string()),
            Some(text) => panic!("{text}"),
        }
    });
    client
}

/// Sends commands at a rate on one connection, until it is told to stop; returns the answers by
/// their first word, `OK` for those that are no error.
fn send_at_rate(
    mut client: Resp,
    per_second: u64,
    stop: &AtomicBool,
    mut command: impl FnMut(u64) -> Vec<Vec<u8>>,
) -> BTreeMap<String, u64> {
    let (began, mut answers) = (Instant::now(), BTreeMap::new());
    for at in 0_u64.. {
        if stop.load(SeqCst) {
            break;
        }
        let due = Duration::from_micros(at * 1_000_000 / per_second);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let args = command(at);
        let args: Vec<_> = args.iter().map(Vec::as_slice).collect();
        // A quota never ends a connection.
        let reply = client.call(&args).expect("it answers");
        let word = reply.error().map_or("OK", |text| text.split(' ').next().unwrap_or_default());
        *answers.entry(word.to_string()).or_default() += 1;
    }
    answers
}

#[test]
fn tenant_at_ten_times_its_quota_leaves_others_fast_and_masters_in_office() {
    let _permit = experiment();
    let scratch = Scratch::new("tenant-quota");
    let mut trial = TenantTrial::start(&scratch, "S26 a tenant at ten times its quota", "{}");
    let quota = ["user", "quota", "greedy", "--operations", &QUOTA.to_string(), "--burst", "1s"];
    trial.admin.run(&quota);
    for node in trial.cluster.nodes() {
        wait_until("the quota at every node", || {
            let state = trial.get(node, "/v1/access");
            let mut users = state["users"].as_array().into_iter().flatten();
            match users.any(|user| user["name"] == "greedy" && !user["quota"].is_null()) {
                true => Ok(()),
                false => Err(state.to_string()),
            }
        });
    }
    let time = Duration::from_secs(short_or_long(4, 30) as u64);
    let (answers, elapsed) = trial.run(time, |address, number, stop| {
        send_at_rate(connect(address), 10 * QUOTA / CONNECTIONS, stop, |at| {
            let key = format!("greedy-{number}-{}", at % 100);
            vec![b"SET".to_vec(), key.into_bytes(), b"v".to_vec()]
        })
    });
    let count = |word: &str| answers.get(word).copied().unwrap_or(0);
    let (served, refused) = (count("OK"), count("QUOTA"));
    assert_eq!(served + refused, answers.values().sum::<u64>(), "{answers:?}");
    // Each of three nodes allows the rate, and what a second of rest has saved.
    let allowed = 3 * QUOTA * (elapsed.as_secs() + 2);
    assert!(served <= allowed, "{served} operations in {elapsed:?}, {allowed} are allowed");
    assert!(served > 0 && refused > 0, "{answers:?}");
    let name = "S26 a tenant at ten times its quota: served for each that was refused";
    trial.bounds.check(name, served as f64 / refused as f64, 1.0);
    trial.bounds.assert_bounds();
}

#[test]
fn tenant_that_fills_its_bucket_leaves_others_fast_and_masters_in_office() {
    let _permit = experiment();
    let scratch = Scratch::new("tenant-bytes");
    let properties = format!("{{\"counted\":true,\"bytes_max\":{BYTES_MAX}}}");
    let name = "S32 a tenant with ten times the bytes of its bucket";
    let mut trial = TenantTrial::start(&scratch, name, &properties);
    let writes = 10 * BYTES_MAX / VALUE_BYTES as u64;
    let time = Duration::from_secs(writes / FILL_RATE + short_or_long(1, 20) as u64);
    let value = vec![b'v'; VALUE_BYTES];
    let (answers, _) = trial.run(time, |address, number, stop| {
        send_at_rate(connect(address), FILL_RATE / (3 * CONNECTIONS), stop, |at| {
            vec![b"SET".to_vec(), format!("fill-{number}-{at}").into_bytes(), value.clone()]
        })
    });
    let count = |word: &str| answers.get(word).copied().unwrap_or(0);
    let (served, refused) = (count("OK"), count("QUOTA"));
    assert_eq!(served + refused, answers.values().sum::<u64>(), "{answers:?}");
    assert!(served * VALUE_BYTES as u64 <= BYTES_MAX, "{served} values");
    assert!(served > 0 && refused > 0, "{answers:?}");
    let name = "S32 a tenant with ten times the bytes of its bucket: served for each refused";
    trial.bounds.check(name, served as f64 / refused as f64, 0.2);
    let counted = trial.get(1, "/v1/buckets/default/greedy/count");
    let bytes = counted["bytes"].as_u64().expect("the bucket is counted");
    assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&bytes), "{counted}");
    // Deletes make room.
    let mut client = connect(trial.cluster.client_address(1));
    let value = "v".repeat(VALUE_BYTES);
    let set = format!("SET more {value}");
    assert!(client.call_line(&set).expect("it answers").error().is_some());
    for at in 0..2 {
        let reply = client.call_line(&format!("DEL fill-0-{at}")).expect("it answers");
        assert_eq!(reply.error(), None);
    }
    assert_eq!(client.call_line(&set).expect("it answers").error(), None);
    trial.bounds.assert_bounds();
}
