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
use systest::client::{Http, Resp, RespReply, command};
use systest::report::{BoundChecks, say, times};
use systest::rigs::{Cluster, StopOnDrop, resident_bytes};

/// Time that the sender waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Prefix of its keys.
const PREFIX: &str = "zz-hostile-";
/// Interval of the memory measurements.
const LOOK: Duration = Duration::from_millis(50);

/// A request, or a few that belong together.
struct Hostile {
    name: &'static str,
    send: fn(SocketAddr) -> io::Result<()>,
    /// True if it writes tens of MiB.
    is_large: bool,
}

impl Hostile {
    const fn small(name: &'static str, send: fn(SocketAddr) -> io::Result<()>) -> Hostile {
        Hostile { name, send, is_large: false }
    }

    const fn large(name: &'static str, send: fn(SocketAddr) -> io::Result<()>) -> Hostile {
        Hostile { name, send, is_large: true }
    }
}

const CATALOGUE: [Hostile; 11] = [
    Hostile::large("a transaction of many large reads", large_reads),
    Hostile::small("the delete of a long prefix", long_prefix),
    Hostile::small("KEYS with classes", patterns),
    Hostile::large("huge MSETs", huge_msets),
    Hostile::small("a long transaction of one key", deep_sequence),
    Hostile::small("ranges with the largest page", long_ranges),
    Hostile::small("a storm of WATCH", watch_storm),
    Hostile::small("thousands of pipelined EXECs", pipelined_execs),
    Hostile::small("SCAN over tombstones", scans_of_the_dead),
    Hostile::large("SETRANGE at the limit", set_range),
    Hostile::small("lists of an available bucket", available_lists),
];

/// Results of the hostile requests.
#[derive(Debug, Default)]
pub struct Report {
    next: usize,
    sent: u64,
    broken: u64,
    most_bytes: u64,
    /// Number of changes of the master while no other fault was active.
    pub master_changes: u64,
}

impl Report {
    /// Returns an empty report; the seed chooses the first request of the catalogue.
    pub fn of(seed: u64) -> Report {
        Report { next: seed as usize % CATALOGUE.len(), ..Report::default() }
    }

    /// Sends one request after the other for a time, at least one, from the clients' host.
    /// `narrow`: links lose so much that tens of MiB would delay others for too long, because all
    /// values of a group are replicated in one order; such requests are left out.
    pub fn send(
        &mut self,
        cluster: &Cluster,
        to: SocketAddr,
        pids: &[u32],
        (span, narrow): (Duration, bool),
    ) {
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let watch = threads.spawn(|| peak(pids, &over));
            let stop = StopOnDrop(&over);
            let begun = Instant::now();
            while self.sent == 0 || begun.elapsed() < span {
                let one = &CATALOGUE[self.next % CATALOGUE.len()];
                self.next += 1;
                if narrow && one.is_large {
                    continue;
                }
                let sent = Instant::now();
                let ended = cluster.from_clients(|| (one.send)(to));
                self.sent += 1;
                self.broken += u64::from(ended.is_err());
                let how = ended.map_or_else(|error| error.to_string(), |()| "answered".into());
                let took = sent.elapsed().as_secs_f64();
                say(&format!("    hostile: {} ({took:.1} s): {how}", one.name));
            }
            drop(stop);
            let peak = watch.join().expect("a watch does not panic");
            self.most_bytes = self.most_bytes.max(peak);
        });
    }
}

fn peak(pids: &[u32], over: &AtomicBool) -> u64 {
    let mut most = 0;
    while !over.load(Ordering::SeqCst) {
        most = pids.iter().map(|pid| resident_bytes(*pid)).fold(most, u64::max);
        std::thread::sleep(LOOK);
    }
    most
}

/// Checks the results against their bounds.
pub fn bounds(checks: &mut BoundChecks, name: &str, report: &Report) {
    if report.sent == 0 {
        return;
    }
    let changes = report.master_changes as f64;
    checks.hold(&format!("{name}: changes of the master by hostile requests"), changes, 0.0);
    let limit = (MEMORY_BYTES_MAX + MEMORY_SLACK_BYTES) as f64;
    let what = format!("{name}: most memory of a node under hostile requests, MiB");
    checks.hold(&what, mib(report.most_bytes as f64), mib(limit));
}

/// Prints the latency of other clients. `hostile_but_valid.rs` checks it against a bound on an
/// otherwise idle machine: here the cores are busy with all other loads.
pub fn felt(name: &str, p99: Duration) {
    let seconds = p99.as_secs_f64();
    say(&format!("{name}: p99 of others beside hostile requests: {seconds:.3} s"));
}

fn connect(to: SocketAddr) -> io::Result<Resp> {
    Resp::with_patience(to, PATIENCE)
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
fn clear(to: SocketAddr, name: &str) -> io::Result<()> {
    let (prefix, begun) = (format!("{PREFIX}{name}"), Instant::now());
    loop {
        let emptied = Http::with_patience(to, PATIENCE)?.empty_prefix(&prefix);
        if emptied.is_ok() || begun.elapsed() > PATIENCE {
            return emptied.map(drop);
        }
        std::thread::sleep(LOOK);
    }
}

fn fill(redis: &mut Resp, name: &str, count: usize) -> io::Result<()> {
    const PART: usize = 1000;
    for begin in (0..count).step_by(PART) {
        let keys: Vec<_> = (begin..(begin + PART).min(count)).map(|at| key(name, at)).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"x"]);
        let words: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
        // Without a majority each would be waited for, and refused.
        if let RespReply::Error(refused) = redis.call(&words)? {
            return Err(io::Error::other(refused));
        }
    }
    Ok(())
}

fn large_reads(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let value = vec![b'x'; times(1 << 20, 8 << 20)];
    let keys: Vec<_> = (0..6).map(|at| key("large", at)).collect();
    for key in &keys {
        redis.call(&[b"SET", key.as_bytes(), &value])?;
    }
    let words: Vec<&[u8]> =
        [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let reads = (0..60).map(|_| command(&words));
    let all: Vec<_> =
        [command(&[b"MULTI"])].into_iter().chain(reads).chain([command(&[b"EXEC"])]).collect();
    let answered = pipeline(&mut redis, &all).map(|_| ());
    clear(to, "large")?;
    answered
}

fn long_prefix(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    fill(&mut redis, "prefix", times(20_000, 300_000))?;
    // This many rows at once are refused.
    redis.say(&format!("CREDENZA.DELPREFIX {PREFIX}prefix"))?;
    clear(to, "prefix")
}

fn patterns(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let pattern = "*[a-z]*[0-9]*[^x]*[a-m0-5]*[!-~]*";
    let all = vec![command(&[b"KEYS", pattern.as_bytes()]); times(5, 50)];
    pipeline(&mut redis, &all).map(|_| ())
}

fn huge_msets(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let keys: Vec<_> = (0..10_000).map(|at| key("mset", at)).collect();
    let value = vec![b'v'; 400];
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value[..]]);
    let words: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
    pipeline(&mut redis, &vec![command(&words); times(2, 6)])?;
    clear(to, "mset")
}

fn deep_sequence(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let key = key("deep", 0);
    let step = command(&[b"APPEND", key.as_bytes(), b"0123456789"]);
    let steps = vec![step; times(5_000, 60_000)];
    let all: Vec<_> =
        [command(&[b"MULTI"])].into_iter().chain(steps).chain([command(&[b"EXEC"])]).collect();
    pipeline(&mut redis, &all)?;
    clear(to, "deep")
}

fn long_ranges(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let all = vec![command(&[b"CREDENZA.RANGE", b"-", b"+", b"LIMIT", b"100000"]); times(5, 50)];
    pipeline(&mut redis, &all).map(|_| ())
}

fn watch_storm(to: SocketAddr) -> io::Result<()> {
    let keys: Vec<_> = (0..500).map(|at| key("watch", at)).collect();
    let words: Vec<&[u8]> =
        [&b"WATCH"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let mut watchers = Vec::new();
    for _ in 0..times(20, 200) {
        let mut redis = connect(to)?;
        redis.call(&words)?;
        watchers.push(redis);
    }
    let mut redis = connect(to)?;
    fill(&mut redis, "watch", 500)?;
    let turn =
        [command(&[b"MULTI"]), command(&[b"INCR", b"zz-hostile-watched"]), command(&[b"EXEC"])];
    for watcher in &mut watchers {
        pipeline(watcher, &turn)?;
    }
    clear(to, "watch")
}

fn pipelined_execs(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let key = key("exec", 0);
    let turn = [
        command(&[b"MULTI"]),
        command(&[b"SET", key.as_bytes(), b"x"]),
        command(&[b"GET", key.as_bytes()]),
        command(&[b"EXEC"]),
    ];
    let all: Vec<_> = (0..times(1_000, 10_000)).flat_map(|_| turn.clone()).collect();
    pipeline(&mut redis, &all)?;
    clear(to, "exec")
}

fn scans_of_the_dead(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    let count = times(10_000, 200_000);
    fill(&mut redis, "dead", count)?;
    clear(to, "dead")?;
    let prefix = format!("{PREFIX}dead");
    let scan = command(&[b"CREDENZA.PREFIX", prefix.as_bytes(), b"LIMIT", b"1", b"KEYS"]);
    pipeline(&mut redis, &vec![scan; times(50, 500)]).map(|_| ())
}

fn set_range(to: SocketAddr) -> io::Result<()> {
    let mut redis = connect(to)?;
    for at in 0..times(2, 6) {
        let key = key("range", at);
        // The last byte of the longest value, then one beyond it, which is refused.
        for offset in [b"8388607", b"8388608"] {
            redis.call(&[b"SETRANGE", key.as_bytes(), offset, b"x"])?;
        }
    }
    clear(to, "range")
}

fn available_lists(to: SocketAddr) -> io::Result<()> {
    let mut web = Http::with_patience(to, PATIENCE)?;
    for _ in 0..times(5, 50) {
        for path in [
            "/types/available/buckets/soak/keys?keys=true",
            "/types/available/buckets/soak/index/$key/a/z?max_results=100000",
            "/types/available/buckets/soak/index/$bucket/soak",
        ] {
            let answer = web.ask("GET", path, b"")?;
            if answer.header("connection") == Some("close") {
                web = Http::with_patience(to, PATIENCE)?;
            }
        }
    }
    std::thread::sleep(SECOND / 10);
    Ok(())
}
