//! Open-loop probes: writes that are due at fixed times at every node, whatever the outcome of the
//! earlier ones. The longest time without an acknowledgement is the cost of a fault to clients.
//!
//! A client that waits for its answer before its next request would hide a pause behind one call.
//! Each node therefore has several lanes, each with a connection, whose turns are spread evenly.

use crate::client::{CallOutcome, Resp};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lanes of each node. A node that answers none of them gets a request every `PERIOD / LANES`.
const LANES: u32 = 10;
/// Time between two requests of a lane.
const PERIOD: Duration = Duration::from_secs(1);
/// Time that a lane waits for an answer before it reconnects.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause of a lane that could not connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Most refusals that a lane records.
const REFUSALS_MAX: usize = 10_000;
/// Most characters of a refusal that are recorded.
const REFUSAL_CHARS_MAX: usize = 60;

/// The running probes.
pub struct Probes {
    clock: Instant,
    stop: Arc<AtomicBool>,
    lanes: Vec<JoinHandle<(usize, Lane)>>,
}

/// One acknowledged probe.
#[derive(Clone, Copy, Debug)]
struct AckedProbe {
    due: Duration,
    acked_at: Duration,
}

/// A probe that was not acknowledged: refused, or not answered.
#[derive(Clone, Debug)]
struct RefusedProbe {
    refused_at: Duration,
    reason: String,
}

/// Answers that one lane got.
#[derive(Clone, Debug, Default)]
struct Lane {
    answers: Vec<AckedProbe>,
    refusals: Vec<RefusedProbe>,
}

/// Acknowledgements of all probes.
#[derive(Clone, Debug, Default)]
pub struct ProbeResults {
    /// Acknowledgements by node, counted from 0; each in the order of time.
    nodes: Vec<Vec<AckedProbe>>,
    /// Refusals by node, likewise.
    refusals: Vec<Vec<RefusedProbe>>,
}

/// A time without an acknowledgement at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pause {
    /// Its length.
    pub length: Duration,
    /// Beginning of the pause, on the probes' clock.
    pub from: Duration,
    /// Number of the node, from 1.
    pub node: usize,
}

impl Probes {
    /// Starts the probes; their keys are `probe-NODE-LANE` of the default bucket.
    pub fn start(nodes: &[SocketAddr]) -> Probes {
        let (clock, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let spawn = |(node, lane): (usize, u32)| {
            let (address, stop) = (nodes[node], stop.clone());
            std::thread::spawn(move || (node, probe(address, (node, lane), clock, &stop)))
        };
        let lanes = (0..nodes.len()).flat_map(|node| (0..LANES).map(move |lane| (node, lane)));
        let lanes = lanes.map(spawn).collect();
        Probes { clock, stop, lanes }
    }

    /// Returns the time on the probes' clock.
    pub fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Stops the probes and returns their acknowledgements.
    pub fn stop(self) -> ProbeResults {
        self.stop.store(true, Ordering::SeqCst);
        let mut results = ProbeResults::default();
        for lane in self.lanes {
            let (node, lane) = lane.join().expect("a probe does not panic");
            let nodes = results.nodes.len().max(node + 1);
            results.nodes.resize(nodes, Vec::new());
            results.refusals.resize(nodes, Vec::new());
            results.nodes[node].extend(lane.answers);
            results.refusals[node].extend(lane.refusals);
        }
        results.nodes.iter_mut().for_each(|answers| answers.sort_by_key(|answer| answer.acked_at));
        results
    }
}

fn probe(
    address: SocketAddr,
    (node, lane): (usize, u32),
    clock: Instant,
    stop: &AtomicBool,
) -> Lane {
    let key = format!("probe-{node}-{lane}");
    let (mut results, mut connection) = (Lane::default(), None);
    let mut due = lane * PERIOD / LANES;
    while !stop.load(Ordering::SeqCst) {
        let now = clock.elapsed();
        if now < due {
            std::thread::sleep((due - now).min(PERIOD / 10));
            continue;
        }
        if connection.is_none() {
            connection = Resp::with_timeout(address, ANSWER_TIMEOUT).ok();
        }
        let reply = connection.as_mut().map(|redis| redis.call_line(&format!("SET {key} {due:?}")));
        match reply {
            Some(Ok(word)) if word.outcome() == CallOutcome::Acknowledged(()) => {
                results.answers.push(AckedProbe { due, acked_at: clock.elapsed() });
            }
            // A refusal is an answer: the lane keeps its schedule.
            Some(Ok(word)) => results.record_refusal(clock.elapsed(), &format!("{word:?}")),
            Some(Err(error)) => {
                results.record_refusal(clock.elapsed(), &error.to_string());
                connection = None;
                std::thread::sleep(RECONNECT_PAUSE);
            }
            None => std::thread::sleep(RECONNECT_PAUSE),
        }
        // Probes that were due meanwhile are skipped: other lanes were due then, too.
        while due <= clock.elapsed() {
            due += PERIOD;
        }
    }
    results
}

impl Lane {
    fn record_refusal(&mut self, refused_at: Duration, reason: &str) {
        if self.refusals.len() < REFUSALS_MAX {
            let reason = reason.chars().take(REFUSAL_CHARS_MAX).collect();
            self.refusals.push(RefusedProbe { refused_at, reason });
        }
    }
}

impl ProbeResults {
    /// Returns the refusals at a pause's node during the pause, each with its number.
    pub fn refusals(&self, pause: &Pause) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        let span = pause.from..=pause.from + pause.length;
        let node = self.refusals.get(pause.node.wrapping_sub(1)).into_iter().flatten();
        for refusal in node.filter(|refusal| span.contains(&refusal.refused_at)) {
            *counts.entry(refusal.reason.as_str()).or_default() += 1;
        }
        counts
    }

    /// Returns the longest pause between two moments at these nodes (from 1), each node for itself.
    pub fn longest(&self, nodes: &[usize], (from, to): (Duration, Duration)) -> Pause {
        let each = nodes.iter().map(|node| {
            let answers = self.nodes.get(node - 1).map_or(&[][..], Vec::as_slice);
            let within =
                answers.iter().map(|answer| answer.acked_at).filter(|at| (from..to).contains(at));
            let moments: Vec<_> = [from].into_iter().chain(within).chain([to]).collect();
            let pauses = moments.windows(2).map(|pair| Pause {
                length: pair[1] - pair[0],
                from: pair[0],
                node: *node,
            });
            pauses.max().unwrap_or_default()
        });
        each.max().unwrap_or_default()
    }

    /// Returns a percentile, in parts per thousand, of the latencies of probes that were due
    /// between two moments at these nodes (from 1). Probes that were never acknowledged are not
    /// included: they are pauses.
    pub fn latency(
        &self,
        nodes: &[usize],
        (from, to): (Duration, Duration),
        per_mille: usize,
    ) -> Duration {
        let answers = nodes.iter().filter_map(|node| self.nodes.get(node - 1)).flatten();
        let due = answers.filter(|answer| (from..to).contains(&answer.due));
        let mut times: Vec<_> =
            due.map(|answer| answer.acked_at.saturating_sub(answer.due)).collect();
        times.sort_unstable();
        times.get(times.len() * per_mille / 1000).copied().unwrap_or_default()
    }

    /// Returns the number of acknowledgements.
    pub fn count(&self) -> u64 {
        self.nodes.iter().map(|answers| answers.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: f64) -> Duration {
        Duration::from_secs_f64(number)
    }

    fn probe_results(nodes: &[&[f64]]) -> ProbeResults {
        let answer = |at: &f64| AckedProbe { due: seconds(at - 0.01), acked_at: seconds(*at) };
        let nodes = nodes.iter().map(|times| times.iter().map(answer).collect());
        ProbeResults { nodes: nodes.collect(), refusals: Vec::new() }
    }

    #[test]
    fn longest_pause_spans_gaps_tail_and_nodes_without_acknowledgements() {
        let all = probe_results(&[&[1.0, 1.1, 3.0, 3.1], &[1.0, 2.0, 3.0]]);
        let span = (seconds(0.5), seconds(4.0));
        let pause = all.longest(&[1, 2], span);
        assert_eq!((pause.length, pause.from, pause.node), (seconds(1.9), seconds(1.1), 1));
        assert_eq!(all.longest(&[2], span).length, seconds(1.0));
        // Without any answer the whole time is a pause; so is the time after the last answer.
        assert_eq!(all.longest(&[3], span).length, seconds(3.5));
        assert_eq!(all.longest(&[1], (seconds(3.0), seconds(9.0))).length, seconds(5.9));
    }

    #[test]
    fn probe_latency_counts_from_its_due_time() {
        let all = probe_results(&[&[1.0, 2.0, 3.0]]);
        let found = all.latency(&[1], (seconds(0.0), seconds(9.0)), 990);
        assert!(found.as_millis().abs_diff(10) <= 1, "{found:?}");
        assert_eq!(all.latency(&[2], (seconds(0.0), seconds(9.0)), 990), Duration::ZERO);
    }

    #[test]
    fn pause_refusals_are_those_of_its_node_within_its_span() {
        let refusal =
            |at: f64, reason: &str| RefusedProbe { refused_at: seconds(at), reason: reason.into() };
        let first = vec![refusal(0.5, "early"), refusal(1.5, "busy"), refusal(2.0, "busy")];
        let refusals = vec![first, vec![refusal(1.7, "elsewhere")]];
        let all = ProbeResults { refusals, ..probe_results(&[&[1.0, 3.0], &[1.0]]) };
        let pause = all.longest(&[1], (seconds(1.0), seconds(3.0)));
        assert_eq!(all.refusals(&pause), BTreeMap::from([("busy", 2)]));
        assert_eq!(all.refusals(&Pause::default()), BTreeMap::new());
    }
}
