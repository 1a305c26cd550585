//! Pings between two nodes: how long a side hears nothing, and how many pings are sent.

use crate::activity::LinkActivity;
use std::time::Duration;

/// Interval of pings in milliseconds.
const INTERVAL_MS: u64 = 250;
/// Simulated time in milliseconds.
const RUN_MS: u64 = 60_000;
/// Time of a message in milliseconds.
const DELAY_MS: u64 = 1;

/// Counts of a run.
struct PingRun {
    /// Longest time for which a side received nothing, in milliseconds.
    silence_ms: u64,
    /// Number of pings of each side.
    pings: [u64; 2],
}

/// Runs a connection. `phase_ms`: offset between the ends of the two sides' intervals.
/// `traffic_ms`: interval of requests of the first side, answered at once.
fn run(phase_ms: u64, traffic_ms: Option<u64>) -> PingRun {
    let ns = |ms: u64| ms * 1_000_000;
    let mut sides =
        [true, false].map(|is_pinger| LinkActivity { is_pinger, ..LinkActivity::default() });
    // Messages: time of arrival, receiver, and true if it answers.
    let mut on_the_way: Vec<(u64, usize, bool)> = Vec::new();
    let mut result = PingRun { silence_ms: 0, pings: [0; 2] };
    for now in 1..=RUN_MS {
        let (arrived, later): (Vec<_>, Vec<_>) =
            on_the_way.into_iter().partition(|(at, ..)| *at == now);
        on_the_way = later;
        let mut send = |sides: &mut [LinkActivity; 2], from: usize, is_request: bool| {
            sides[from].sent_at = ns(now);
            on_the_way.push((now + DELAY_MS, 1 - from, is_request));
        };
        for (_, to, is_request) in arrived {
            sides[to].received_at = ns(now);
            if is_request {
                send(&mut sides, to, false);
            }
        }
        if traffic_ms.is_some_and(|every| now % every == 0) {
            send(&mut sides, 0, true);
        }
        for (side, offset) in [(0, 0), (1, phase_ms)] {
            let is_tick = (now + offset) % INTERVAL_MS == 0;
            let interval = Duration::from_millis(INTERVAL_MS);
            if is_tick && sides[side].is_ping_due(ns(now), interval) {
                sides[side].pinged_at = ns(now);
                result.pings[side] += 1;
                send(&mut sides, side, true);
            }
        }
        // The first interval begins with the connection.
        if now > 2 * INTERVAL_MS {
            let silence = sides.map(|side| now - side.received_at / 1_000_000);
            result.silence_ms =
                silence.into_iter().max().max(Some(result.silence_ms)).expect("two");
        }
    }
    result
}

#[test]
fn quiet_connection_is_pinged_once_in_an_interval() {
    for phase_ms in (0..INTERVAL_MS).step_by(7) {
        let PingRun { silence_ms, pings } = run(phase_ms, None);
        // A ping of the second side may stand for one of the first.
        assert!(silence_ms <= 3 * INTERVAL_MS / 2 + 2 * DELAY_MS, "{phase_ms}: {silence_ms} ms");
        // Pings of its own show that the first side reads what the second one sends.
        let own = RUN_MS / (4 * INTERVAL_MS);
        assert!(pings[1].abs_diff(own) <= 1, "{phase_ms}: {pings:?}");
        assert!(pings[0] + pings[1] <= RUN_MS / INTERVAL_MS + own, "{phase_ms}: {pings:?}");
    }
}

#[test]
fn connection_with_heartbeats_is_pinged_every_fourth_interval() {
    for phase_ms in (0..INTERVAL_MS).step_by(7) {
        let PingRun { silence_ms, pings } = run(phase_ms, Some(100));
        assert!(silence_ms <= 100 + 2 * DELAY_MS, "{phase_ms}: {silence_ms} ms");
        let own = RUN_MS / (4 * INTERVAL_MS);
        assert!(pings.iter().all(|pings| pings.abs_diff(own) <= 1), "{phase_ms}: {pings:?}");
    }
}

/// A connection with traffic that is slower than pings is quiet in between.
#[test]
fn rare_traffic_does_not_stand_for_pings() {
    for traffic_ms in [300, 700, 1_400] {
        let PingRun { silence_ms, .. } = run(100, Some(traffic_ms));
        assert!(silence_ms <= 3 * INTERVAL_MS / 2, "{traffic_ms}: {silence_ms} ms");
    }
}

/// The second side pings a quiet connection if the first one does not.
#[test]
fn other_side_pings_if_the_pinger_does_not() {
    let mut side = LinkActivity { is_pinger: false, received_at: 1, sent_at: 1, pinged_at: 1 };
    let interval = Duration::from_millis(INTERVAL_MS);
    assert!(!side.is_ping_due(INTERVAL_MS * 1_000_000, interval));
    assert!(side.is_ping_due(2 * INTERVAL_MS * 1_000_000, interval));
    side.is_pinger = true;
    assert!(side.is_ping_due(INTERVAL_MS * 1_000_000, interval));
}
