//! Hostile but valid requests: a catalogue of requests that any client may send and no other client
//! must feel. Each is within the limits of its command; each costs a server that is careless about
//! sums, about work under a lock, or about buffers, far more than it costs the sender.
//!
//! The answers do not matter, a refusal is as good as a result. What matters is that the master
//! stays, that other clients are served, and that memory stays within its bound.

use super::{MEMORY_BYTES_MAX, MEMORY_SLACK_BYTES, SECOND, mib};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply, encode_command};
use systest::cluster::Cluster;
use systest::environment::{StopOnDrop, resident_bytes};
use systest::report::{BoundChecks, print_line, short_or_long};

/// Time that the sender waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Prefix of its keys.
const PREFIX: &str = "zz-hostile-";
/// Interval of the memory measurements.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A request, or a few that belong together.
struct HostileRequest {
    name: &'static str,
    send: fn(SocketAddr) -> io::Result<()>,
    /// True if it writes megabytes at once.
    is_large: bool,
}

impl HostileRequest {
    const fn small(name: &'static str, send: fn(SocketAddr) -> io::Result<()>) -> HostileRequest {
        HostileRequest { name, send, is_large: false }
    }

    const fn large(name: &'static str, send: fn(SocketAddr) -> io::Result<()>) -> HostileRequest {
        HostileRequest { name, send, is_large: true }
    }
}

const CATALOGUE: [HostileRequest; 11] = [
    HostileRequest::large("a transaction of many large reads", large_reads),
    HostileRequest::small("the delete of a long prefix", long_prefix),
    HostileRequest::small("KEYS with classes", patterns),
    HostileRequest::large("huge MSETs", huge_msets),
    HostileRequest::large("a long transaction of one key", deep_sequence),
    HostileRequest::small("ranges with the largest page", long_ranges),
    HostileRequest::small("a storm of WATCH", watch_many_keys),
    HostileRequest::small("thousands of pipelined EXECs", pipelined_execs),
    HostileRequest::small("SCAN over tombstones", scan_tombstones),
    HostileRequest::large("SETRANGE at the limit", set_range),
    HostileRequest::small("lists of an available bucket", available_lists),
];

/// Results of the hostile requests.
#[derive(Debug, Default)]
pub struct Report {
    next: usize,
    sent: u64,
    failed: u64,
    peak_bytes: u64,
    /// Number of changes of the master while no other fault was active.
    pub master_changes: u64,
}

impl Report {
    /// Returns an empty report; the seed chooses the first request of the catalogue.
    pub fn new(seed: u64) -> Report {
        Report { next: seed as usize % CATALOGUE.len(), ..Report::default() }
    }

    /// Sends one request after the other for a time, at least one, from the clients' host.
    /// `is_lossy`: links lose so much that megabytes would delay others for too long, because all
    /// values of a group are replicated in one order; such requests are left out.
    pub fn send(
        &mut self,
        cluster: &Cluster,
        address: SocketAddr,
        pids: &[u32],
        (duration, is_lossy): (Duration, bool),
    ) {
        let stop_flag = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let watch = threads.spawn(|| watch_peak_memory(pids, &stop_flag));
            let stop = StopOnDrop(&stop_flag);
            let started = Instant::now();
            while self.sent == 0 || started.elapsed() < duration {
                let request = &CATALOGUE[self.next % CATALOGUE.len()];
                self.next += 1;
                if is_lossy && request.is_large {
                    continue;
                }
                let sent = Instant::now();
                let result = cluster.on_client_host(|| (request.send)(address));
                self.sent += 1;
                self.failed += u64::from(result.is_err());
                let outcome = result.map_or_else(|error| error.to_string(), |()| "answered".into());
                let seconds = sent.elapsed().as_secs_f64();
                print_line(&format!("    hostile: {} ({seconds:.1} s): {outcome}", request.name));
            }
            drop(stop);
            let peak = watch.join().expect("a watch does not panic");
            self.peak_bytes = self.peak_bytes.max(peak);
        });
    }
}

fn watch_peak_memory(pids: &[u32], stop_flag: &AtomicBool) -> u64 {
    let mut peak_bytes = 0;
    while !stop_flag.load(Ordering::SeqCst) {
        peak_bytes = pids.iter().map(|pid| resident_bytes(*pid)).fold(peak_bytes, u64::max);
        std::thread::sleep(POLL_INTERVAL);
    }
    peak_bytes
}

/// Checks the results against their bounds.
pub fn bounds(checks: &mut BoundChecks, name: &str, report: &Report) {
    if report.sent == 0 {
        return;
    }
    let changes = report.master_changes as f64;
    checks.check(&format!("{name}: changes of the master by hostile requests"), changes, 0.0);
    let limit = (MEMORY_BYTES_MAX + MEMORY_SLACK_BYTES) as f64;
    let bound_name = format!("{name}: most memory of a node under hostile requests, MiB");
    checks.check(&bound_name, mib(report.peak_bytes as f64), mib(limit));
}

/// Prints the latency of other clients. `hostile_but_valid.rs` checks their longest wait on an
/// otherwise idle machine: here the cores are busy with all other loads.
pub fn print_latency_of_others(name: &str, p99: Duration) {
    let seconds = p99.as_secs_f64();
    print_line(&format!("{name}: p99 of others beside hostile requests: {seconds:.3} s"));
}

fn connect(address: SocketAddr) -> io::Result<Resp> {
    Resp::with_timeout(address, ANSWER_TIMEOUT)
}

/// Sends all commands at once, then reads as many replies.
fn pipeline(redis: &mut Resp, commands: &[Vec<u8>]) -> io::Result<Vec<RespReply>> {
    redis.send(&commands.concat())?;
    commands.iter().map(|_| redis.receive()).collect()
}

fn key(name: &str, at: usize) -> String {
    format!("{PREFIX}{name}-{at:07}")
}

/// Deletes the rows that were written. Other faults may have it refused for a while.
fn delete_rows(address: SocketAddr, name: &str) -> io::Result<()> {
    let (prefix, started) = (format!("{PREFIX}{name}"), Instant::now());
    loop {
        let result = Http::with_timeout(address, ANSWER_TIMEOUT)?.empty_prefix(&prefix);
        if result.is_ok() || started.elapsed() > ANSWER_TIMEOUT {
            return result.map(drop);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn write_rows(redis: &mut Resp, name: &str, count: usize) -> io::Result<()> {
    const PART: usize = 1000;
    for begin in (0..count).step_by(PART) {
        let keys: Vec<_> = (begin..(begin + PART).min(count)).map(|at| key(name, at)).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"x"]);
        let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
        // Without a majority each would be waited for, and refused.
        if let RespReply::Error(text) = redis.call(&args)? {
            return Err(io::Error::other(text));
        }
    }
    Ok(())
}

fn large_reads(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let value = vec![b'x'; short_or_long(1 << 20, 8 << 20)];
    let keys: Vec<_> = (0..6).map(|at| key("large", at)).collect();
    for key in &keys {
        redis.call(&[b"SET", key.as_bytes(), &value])?;
    }
    let args: Vec<&[u8]> =
        [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let reads = (0..60).map(|_| encode_command(&args));
    let all: Vec<_> = [encode_command(&[b"MULTI"])]
        .into_iter()
        .chain(reads)
        .chain([encode_command(&[b"EXEC"])])
        .collect();
    let result = pipeline(&mut redis, &all).map(|_| ());
    delete_rows(address, "large")?;
    result
}

fn long_prefix(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    write_rows(&mut redis, "prefix", short_or_long(20_000, 300_000))?;
    // This many rows at once are refused.
    redis.call_line(&format!("CREDENZA.DELPREFIX {PREFIX}prefix"))?;
    delete_rows(address, "prefix")
}

fn patterns(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let pattern = "*[a-z]*[0-9]*[^x]*[a-m0-5]*[!-~]*";
    let all = vec![encode_command(&[b"KEYS", pattern.as_bytes()]); short_or_long(5, 50)];
    pipeline(&mut redis, &all).map(|_| ())
}

fn huge_msets(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let keys: Vec<_> = (0..10_000).map(|at| key("mset", at)).collect();
    let value = vec![b'v'; 400];
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value[..]]);
    let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
    pipeline(&mut redis, &vec![encode_command(&args); short_or_long(2, 6)])?;
    delete_rows(address, "mset")
}

fn deep_sequence(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let key = key("deep", 0);
    let step = encode_command(&[b"APPEND", key.as_bytes(), b"0123456789"]);
    let steps = vec![step; short_or_long(5_000, 60_000)];
    let all: Vec<_> = [encode_command(&[b"MULTI"])]
        .into_iter()
        .chain(steps)
        .chain([encode_command(&[b"EXEC"])])
        .collect();
    pipeline(&mut redis, &all)?;
    delete_rows(address, "deep")
}

fn long_ranges(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let all = vec![
        encode_command(&[b"CREDENZA.RANGE", b"-", b"+", b"LIMIT", b"100000"]);
        short_or_long(5, 50)
    ];
    pipeline(&mut redis, &all).map(|_| ())
}

fn watch_many_keys(address: SocketAddr) -> io::Result<()> {
    let keys: Vec<_> = (0..500).map(|at| key("watch", at)).collect();
    let args: Vec<&[u8]> =
        [&b"WATCH"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let mut watchers = Vec::new();
    for _ in 0..short_or_long(20, 200) {
        let mut redis = connect(address)?;
        redis.call(&args)?;
        watchers.push(redis);
    }
    let mut redis = connect(address)?;
    write_rows(&mut redis, "watch", 500)?;
    let transaction = [
        encode_command(&[b"MULTI"]),
        encode_command(&[b"INCR", b"zz-hostile-watched"]),
        encode_command(&[b"EXEC"]),
    ];
    for watcher in &mut watchers {
        pipeline(watcher, &transaction)?;
    }
    delete_rows(address, "watch")
}

fn pipelined_execs(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let key = key("exec", 0);
    let transaction = [
        encode_command(&[b"MULTI"]),
        encode_command(&[b"SET", key.as_bytes(), b"x"]),
        encode_command(&[b"GET", key.as_bytes()]),
        encode_command(&[b"EXEC"]),
    ];
    let all: Vec<_> = (0..short_or_long(1_000, 10_000)).flat_map(|_| transaction.clone()).collect();
    pipeline(&mut redis, &all)?;
    delete_rows(address, "exec")
}

fn scan_tombstones(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    let count = short_or_long(10_000, 200_000);
    write_rows(&mut redis, "dead", count)?;
    delete_rows(address, "dead")?;
    let prefix = format!("{PREFIX}dead");
    let scan = encode_command(&[b"CREDENZA.PREFIX", prefix.as_bytes(), b"LIMIT", b"1", b"KEYS"]);
    pipeline(&mut redis, &vec![scan; short_or_long(50, 500)]).map(|_| ())
}

fn set_range(address: SocketAddr) -> io::Result<()> {
    let mut redis = connect(address)?;
    for at in 0..short_or_long(2, 6) {
        let key = key("range", at);
        // The last byte of the longest value, then one beyond it, which is refused.
        for offset in [b"8388607", b"8388608"] {
            redis.call(&[b"SETRANGE", key.as_bytes(), offset, b"x"])?;
        }
    }
    delete_rows(address, "range")
}

fn available_lists(address: SocketAddr) -> io::Result<()> {
    let mut web = Http::with_timeout(address, ANSWER_TIMEOUT)?;
    for _ in 0..short_or_long(5, 50) {
        for path in [
            "/types/available/buckets/soak/keys?keys=true",
            "/types/available/buckets/soak/index/$key/a/z?max_results=100000",
            "/types/available/buckets/soak/index/$bucket/soak",
        ] {
            let answer = web.request("GET", path, b"")?;
            if answer.header("connection") == Some("close") {
                web = Http::with_timeout(address, ANSWER_TIMEOUT)?;
            }
        }
    }
    std::thread::sleep(SECOND / 10);
    Ok(())
}
