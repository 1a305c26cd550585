//! Bystanders: clients of their own, whose calls are due at fixed times, and are measured while
//! something else goes on at the same nodes.
//!
//! A latency counts from the time at which the call was due, so that a pause is not hidden behind
//! the one call that met it.

use crate::client::Resp;
use crate::latencies::Latencies;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Call of a bystander, by its number. Errors: a refusal, or no answer.
pub type BystanderCall = Box<dyn FnMut(u64) -> Result<(), String> + Send>;

/// Time between two calls of one bystander.
const PERIOD: Duration = Duration::from_millis(5);
/// Keys that a bystander writes and reads.
const KEYS: u64 = 100;

/// Answers that bystanders got.
#[derive(Clone, Debug, Default)]
pub struct BystanderReport {
    /// Latencies of all calls.
    pub latencies: Latencies,
    /// Calls that were not acknowledged, by the reason.
    pub failures: BTreeMap<String, u64>,
}

impl BystanderReport {
    /// Fails the test if a call was refused, or if there was none.
    pub fn must_be_served(&self, what: &str) {
        assert!(self.failures.is_empty(), "{what}: {:?}", self.failures);
        assert!(self.latencies.count() > 0, "{what}: nobody called");
    }
}

/// Runs bystanders for a time.
pub fn run_bystanders(calls: Vec<BystanderCall>, time: Duration) -> BystanderReport {
    let threads: Vec<_> =
        calls.into_iter().map(|call| std::thread::spawn(move || run_one(call, time))).collect();
    let mut report = BystanderReport::default();
    for thread in threads {
        let BystanderReport { latencies, failures } =
            thread.join().expect("a bystander does not panic");
        report.latencies.join(latencies);
        for (reason, count) in failures {
            *report.failures.entry(reason).or_default() += count;
        }
    }
    report
}

fn run_one(mut call: BystanderCall, time: Duration) -> BystanderReport {
    let (started, mut report) = (Instant::now(), BystanderReport::default());
    for number in 0.. {
        let due = PERIOD * number as u32;
        if due >= time {
            break;
        }
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        let outcome = call(number);
        report.latencies.add(started.elapsed().saturating_sub(due));
        if let Err(reason) = outcome {
            *report.failures.entry(reason).or_default() += 1;
        }
    }
    report
}

/// Returns the calls of a client that writes a key and reads it back, in a bucket and as a user.
pub fn resp_bystander(
    address: SocketAddr,
    login: Option<(&str, &str)>,
    bucket: Option<&str>,
) -> BystanderCall {
    let mut client = Resp::connect(address).expect("it listens");
    let mut lines = Vec::new();
    lines.extend(login.map(|(user, password)| format!("AUTH {user} {password}")));
    lines.extend(bucket.map(|bucket| format!("CREDENZA.BUCKET {bucket}")));
    for line in lines {
        let reply = client.call_line(&line).expect("it answers");
        assert_eq!(reply.error(), None, "a bystander enters");
    }
    Box::new(move |number| {
        let key = format!("bystander-{}", number / 2 % KEYS);
        let line = match number % 2 {
            0 => format!("SET {key} {number}"),
            _ => format!("GET {key}"),
        };
        let reply = client.call_line(&line).map_err(|error| error.to_string())?;
        reply.error().map_or(Ok(()), |error| Err(error.into()))
    })
}
