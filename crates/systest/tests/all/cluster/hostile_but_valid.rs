//! Requests that are well formed, that any client may send, and that cost as much as requests can.
//!
//! Transactions whose answers have gigabytes, deletes of everything, patterns over all keys, many
//! clients that do not read their answers: none of them may cost the master its office, delay the
//! answers to others, or take more memory than the settings say.
//!
//! Two bounds hold the longest wait of another client. The long form runs alone, and allows what a
//! soak allows for hostile requests. The short form shares its machine, and allows the time in
//! which the group would have had another master: a wait beyond it is a master that does its work
//! no longer, whatever else the machine does.

use super::{SECOND, percentile};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::mem;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use systest::client::{Http, HttpResponse, Resp, RespReply, encode_command};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, StopOnDrop, experiment, resident_bytes};
use systest::report::{BoundChecks, Figures, short_or_long};

/// Longest wait for an answer on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Settings of every node.
const SETTINGS: [&str; 6] =
    ["--memory-bytes-max", "64MiB", "--buffer-bytes-max", "64MiB", "--segment-bytes", "4MiB"];
/// Memory that the settings allow: the store, the front-ends' buffers, answers in progress,
/// undecided updates (a quarter of the store's memory), and values kept for members that lag; plus
/// the memory of an idle node, with the allocator's reserve.
const RESIDENT_MIB_MAX: u64 = 64 + 64 + 64 + 16 + 16 + 200;
/// Longest wait of another client in the long form, in seconds: what a soak allows (`soak`) while
/// it sends the same requests beside another fault.
const WAIT_MAX_S: f64 = 3.0;
/// Time beside two leases in which another master serves at the latest, on a machine that other
/// tests share: `hanging.rs` allows a fifth of it in the long form. With the lease of the
/// experiments that makes eight seconds. A group that let one request occupy it made others wait
/// for 22 seconds.
const ELECTION_MAX: Duration = Duration::from_secs(4);
/// Bytes of a large value; six of them are read at a time.
const LARGE_BYTES: usize = 8 << 20;
const LARGE: [&[u8]; 6] = [b"l1", b"l2", b"l3", b"l4", b"l5", b"l6"];

fn connect(address: SocketAddr) -> Resp {
    Resp::with_timeout(address, ANSWER_TIMEOUT).expect("a node takes connections")
}

/// Writes keys under `p:` and six large values.
fn fill(address: SocketAddr, rows: u64) {
    let mut client = connect(address);
    for first in (0..rows).step_by(1_000) {
        let keys: Vec<_> =
            (first..rows.min(first + 1_000)).map(|row| format!("p:{row:08}")).collect();
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        keys.iter().for_each(|key| args.extend([key.as_bytes(), b"v"]));
        assert_eq!(client.call(&args).expect("an answer"), RespReply::Simple("OK".into()));
    }
    let value = vec![b'v'; LARGE_BYTES];
    for key in LARGE {
        let reply = client.call(&[b"SET", key, &value]).expect("an answer");
        assert_eq!(reply, RespReply::Simple("OK".into()));
    }
}

/// Runs a transaction; returns the reply to its `EXEC`.
fn transaction(address: SocketAddr, commands: &[Vec<&[u8]>]) -> RespReply {
    let mut client = connect(address);
    client.call(&[b"MULTI"]).expect("an answer");
    for args in commands {
        client.call(args).expect("an answer");
    }
    client.call(&[b"EXEC"]).expect("an answer")
}

fn must_be_refused(reply: &RespReply, expected: &str) {
    let error = reply.error().unwrap_or_else(|| panic!("it is refused"));
    assert!(error.contains(expected), "{error}");
}

/// Sends one of these requests again and again for a while.
fn repeat_for_a_while(mut request: impl FnMut()) {
    let deadline = Instant::now() + short_or_long(2, 20) as u32 * SECOND;
    request();
    while Instant::now() < deadline {
        request();
    }
}

fn post(address: SocketAddr, path: &str, body: &str) -> HttpResponse {
    let mut web = Http::with_timeout(address, ANSWER_TIMEOUT).expect("a node takes connections");
    let path = format!("/v1/buckets/default/default/{path}");
    web.request("POST", &path, body.as_bytes()).expect("an answer")
}

/// Repeats a request until it is answered: a refusal for lack of memory ends when others free
/// theirs.
fn retry_until_answered(client: &mut Resp, args: &[&[u8]]) {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    while let Some(error) = client.call(args).expect("an answer").error() {
        assert!(Instant::now() < deadline, "refused for {ANSWER_TIMEOUT:?}: {error}");
        thread::sleep(SECOND / 100);
    }
}

/// Runs clients that request much and do not read it. Half of them never read; after they are gone,
/// a new request is answered.
fn never_read(address: SocketAddr) {
    let mget = [&[&b"MGET"[..]][..], &LARGE].concat();
    let request = encode_command(&mget);
    let mut clients: Vec<_> = (0..20).map(|_| connect(address)).collect();
    clients.iter_mut().for_each(|client| client.send(&request).expect("it is sent"));
    thread::sleep(SECOND);
    for client in &mut clients[..10] {
        client.receive().expect("an answer");
    }
    clients.truncate(1);
    retry_until_answered(&mut clients[0], &mget);
}

/// Runs clients that request much five times, each as soon as it has its answer, and then repeat
/// until they are answered.
fn large_reads(address: SocketAddr) {
    let mget = [&[&b"MGET"[..]][..], &LARGE].concat();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = connect(address);
                for _ in 0..5 {
                    client.call(&mget).expect("an answer");
                }
                retry_until_answered(&mut client, &mget);
            });
        }
    });
}

/// Writes many large values, for merges to read.
fn write_large_values(address: SocketAddr, prefix: &str, count: usize, mut value: Vec<u8>) {
    let mut client = connect(address);
    for number in 0..count {
        let key = format!("{prefix}{number}");
        // No two are equal.
        value[..8].copy_from_slice(&number.to_be_bytes());
        let reply = client.call(&[b"SET", key.as_bytes(), &value]).expect("an answer");
        assert_eq!(reply, RespReply::Simple("OK".into()));
    }
}

/// Waits of an independent client.
#[derive(Default)]
struct Bystander {
    /// Times of its writes since they were last taken.
    waits: Mutex<Vec<Duration>>,
    stop: AtomicBool,
}

impl Bystander {
    /// Writes until it is stopped; records the time of each write.
    fn run(&self, address: SocketAddr) {
        let mut client = connect(address);
        while !self.stop.load(Ordering::SeqCst) {
            let requested_at = Instant::now();
            let reply = client.call(&[b"SET", b"other", b"v"]).expect("an answer");
            assert_eq!(reply, RespReply::Simple("OK".into()), "others are served");
            self.waits.lock().expect("no thread panicked").push(requested_at.elapsed());
        }
    }

    fn take_waits(&self) -> Vec<Duration> {
        mem::take(&mut *self.waits.lock().expect("no thread panicked"))
    }

    /// Sends each request for a while, and adds figures of the waits meanwhile. Returns the longest
    /// wait beside each request; `None`: no write was answered.
    fn watch(
        &self,
        address: SocketAddr,
        figures: &mut Figures,
    ) -> Vec<(&'static str, Option<Duration>)> {
        let mut longest_waits = Vec::new();
        for (name, request) in requests(address) {
            let began = Instant::now();
            repeat_for_a_while(request);
            let waits = self.take_waits();
            let per_second = waits.len() as f64 / began.elapsed().as_secs_f64();
            figures.add(&format!("others_per_second_{name}"), format!("{per_second:.0}"));
            let longest = waits.iter().max().copied();
            longest_waits.push((name, longest));
            if let Some(longest) = longest {
                let p99 = percentile(waits, 99);
                figures.add(&format!("others_p99_ms_{name}"), p99.as_millis());
                figures.add(&format!("others_max_ms_{name}"), longest.as_millis());
            }
        }
        longest_waits
    }
}

/// Checks the longest waits of the bystander, the last of which may have ended after the last
/// request.
fn check_waits(
    cluster: &Cluster,
    name: &str,
    mut longest_waits: Vec<(&'static str, Option<Duration>)>,
    last: Vec<Duration>,
) {
    longest_waits.push(("the end", last.into_iter().max()));
    let starved = longest_waits.iter().filter(|(_, longest)| longest.is_none());
    let starved: Vec<_> = starved.map(|(request, _)| request).collect();
    assert!(starved.is_empty(), "others had to wait for all of {starved:?}");
    let deposed_after = 2 * cluster.lease() + ELECTION_MAX;
    let mut checks = BoundChecks::default();
    for (request, longest) in longest_waits {
        let longest = longest.unwrap_or_default();
        assert!(
            longest <= deposed_after,
            "others waited for {longest:?} beside {request}: another master would have served them"
        );
        let what = format!("{name}: longest wait of others beside {request}, s");
        checks.check(&what, longest.as_secs_f64(), WAIT_MAX_S);
    }
    checks.assert_bounds();
}

/// Name of a request, and the function that sends and checks it.
type Request = (&'static str, Box<dyn Fn()>);

fn requests(address: SocketAddr) -> [Request; 10] {
    let mget = [&[&b"MGET"[..]][..], &LARGE].concat();
    let reads = vec![mget; 60];
    let set = || vec![vec![&b"SET"[..], b"w", b"v"]];
    let mixed = [set(), reads.clone()].concat();
    let exists = vec![vec![&b"EXISTS"[..], b"p:00000001"]; 30_000];
    let many_exists = [set(), exists].concat();
    // The disk writes each of them several times: the short form is content with two merges.
    let noise_count = short_or_long(16, 60);
    let noise: Vec<u8> = StdRng::seed_from_u64(9).random_iter().take(LARGE_BYTES).collect();
    let refused_transaction = move |commands: Vec<Vec<&'static [u8]>>, limit: &'static str| {
        Box::new(move || must_be_refused(&transaction(address, &commands), limit))
    };
    [
        ("reads", refused_transaction(reads, "answer_bytes_max")),
        ("reads_and_a_write", refused_transaction(mixed, "answer_bytes_max")),
        ("rows", refused_transaction(many_exists, "evaluation_rows_max")),
        (
            "delete_prefix",
            Box::new(move || {
                let reply = post(address, "delete_prefix", r#"{"prefix":"p:"}"#);
                assert_eq!((reply.status, &reply.reason()[..]), (413, "too_large"));
            }),
        ),
        (
            "patterns",
            Box::new(move || {
                let mut client = connect(address);
                let reply = client.call(&[b"KEYS", b"[p-q]:[0-9]*[^a-z]?[a-f]*[x]"]);
                assert_eq!(reply.expect("an answer").list().len(), 0);
            }),
        ),
        ("never_read", Box::new(move || never_read(address))),
        ("large_reads", Box::new(move || large_reads(address))),
        // Merges read values that compress to almost nothing, and values that do not compress.
        (
            "hollow_values",
            Box::new(move || write_large_values(address, "hollow", 60, vec![b'v'; LARGE_BYTES])),
        ),
        (
            "noise_values",
            Box::new(move || write_large_values(address, "noise", noise_count, noise.clone())),
        ),
        (
            "empty_prefix",
            Box::new(move || {
                let mut web =
                    Http::with_timeout(address, ANSWER_TIMEOUT).expect("it takes connections");
                web.empty_prefix("p:").expect("no part is refused");
            }),
        ),
    ]
}

#[test]
fn expensive_requests_depose_no_master_and_stay_in_memory_bound() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-hostile-but-valid");
    let mut figures = Figures::start("hostile but valid requests");
    let args = SETTINGS.map(String::from).to_vec();
    let mut cluster = Cluster::start(&scratch, Options { args, ..Options::new(3) });
    cluster.must_serve();
    let address = cluster.client_address(cluster.master());
    let rows = short_or_long(30_000, 10_000_000) as u64;
    fill(address, rows);
    let pids: Vec<_> = cluster.nodes().map(|node| cluster.server(node).pid()).collect();
    let ballots = |cluster: &Cluster| -> Vec<_> {
        let ballot_of = |node| cluster.group_status(node, 1).map(|ballot_of| ballot_of.ballot);
        cluster.nodes().map(ballot_of).collect()
    };
    let before = ballots(&cluster);
    let (bystander, peak) = (Bystander::default(), AtomicU64::new(0));
    let longest_waits = thread::scope(|scope| {
        scope.spawn(|| bystander.run(address));
        scope.spawn(|| {
            while !bystander.stop.load(Ordering::SeqCst) {
                let largest = pids.iter().map(|pid| resident_bytes(*pid)).max().unwrap_or(0);
                peak.fetch_max(largest >> 20, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let _stop = StopOnDrop(&bystander.stop);
        let longest_waits = bystander.watch(address, &mut figures);
        // One more write, so that a wait which outlasts the last request counts, too.
        thread::sleep(SECOND);
        longest_waits
    });
    let after = ballots(&cluster);
    figures.add("master_changes", u32::from(before != after));
    figures.add("resident_mib", peak.load(Ordering::SeqCst));
    figures.print();
    assert_eq!(before, after, "the master kept its office");
    let peak = peak.into_inner();
    assert!(peak <= RESIDENT_MIB_MAX, "{peak} MiB are held, {RESIDENT_MIB_MAX} are allowed");
    let mut client = connect(address);
    let remaining = client.call(&[b"KEYS", b"p:*"]).expect("an answer");
    assert!(remaining.list().is_empty(), "everything under the prefix is gone");
    assert_eq!(client.call(&[b"EXISTS", b"l1"]).expect("an answer"), RespReply::Number(1));
    // Times are checked last: a broken bound must not hide a wrong result.
    check_waits(&cluster, figures.name(), longest_waits, bystander.take_waits());
}
