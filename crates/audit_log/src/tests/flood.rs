//! Bound of the lines that callers can provoke.

use crate::flood::{FloodBounds, FloodLimiter, LOGINS, REFUSALS};
use crate::record::{AuditOutcome, AuditRecord};
use base::Reason;

fn refusal(who: &str, last: u8) -> AuditRecord {
    AuditRecord {
        who: who.into(),
        address: Some([198, 18, 0, last].into()),
        operation: "get",
        outcome: AuditOutcome::Denied(Reason::Forbidden),
        ..AuditRecord::default()
    }
}

/// Sends this many events, and returns the number of lines of their own.
fn send(limiter: &mut FloodLimiter, record: &AuditRecord, count: u64, now_ms: u64) -> u64 {
    (0..count).filter(|_| limiter.admit(record, now_ms)).count() as u64
}

#[test]
fn events_of_a_source_beyond_its_lines_are_counted_in_one_line_a_window() {
    let mut limiter = FloodLimiter::new(REFUSALS);
    let (ada, eve) = (refusal("ada", 1), refusal("eve", 1));
    assert_eq!(send(&mut limiter, &ada, 1_000_000, 5), REFUSALS.source_lines_max);
    assert_eq!(send(&mut limiter, &eve, 1, 6), 1, "others have lines of their own");
    assert_eq!(limiter.deadline_ms(), Some(5 + REFUSALS.window_ms));
    assert!(limiter.end_window(4 + REFUSALS.window_ms).is_empty(), "it is not over");
    let ended = limiter.end_window(5 + REFUSALS.window_ms);
    let [numbers] = &ended[..] else { panic!("one source has more: {ended:?}") };
    assert_eq!((numbers.who.as_str(), numbers.operation), ("ada", "refusals"));
    assert_eq!(numbers.count, 1_000_000 - REFUSALS.source_lines_max);
    assert_eq!((numbers.address, numbers.outcome), (ada.address, ada.outcome));
    assert_eq!(limiter.deadline_ms(), None);
    // The next window.
    assert_eq!(send(&mut limiter, &ada, 3, 90_000), 3);
    assert!(limiter.end_window(90_000 + REFUSALS.window_ms).is_empty(), "each has its line");
}

#[test]
fn lines_and_memory_are_bounded_however_many_sources_there_are() {
    for bounds in [REFUSALS, LOGINS] {
        let mut limiter = FloodLimiter::new(bounds);
        let (mut lines, mut sent) = (0, 0);
        for number in 0..20_000 {
            let source = refusal(&format!("user{number}"), (number % 250) as u8);
            lines += send(&mut limiter, &source, 3, 7);
            sent += 3;
        }
        assert_eq!(lines, bounds.lines_max);
        let ended = limiter.end_window(7 + bounds.window_ms);
        assert!(ended.len() as u64 <= bounds.lines_max + 1, "{}", ended.len());
        let others = ended.last().expect("a line of the others");
        assert_eq!(others.who, "(others)");
        let counted: u64 = ended.iter().map(|record| record.count).sum();
        assert_eq!(counted + lines, sent, "each event is a line, or counted");
    }
}

#[test]
fn network_of_an_ipv6_host_is_one_source() {
    let bounds = FloodBounds { source_lines_max: 1, ..REFUSALS };
    let mut limiter = FloodLimiter::new(bounds);
    let from = |text: &str| AuditRecord {
        address: Some(text.parse().expect("an address")),
        ..refusal("(unknown)", 1)
    };
    assert!(limiter.admit(&from("2001:db8::1"), 1));
    assert!(!limiter.admit(&from("2001:db8::2"), 1), "it owns all of them");
    assert!(limiter.admit(&from("2001:db8:0:1::1"), 1));
}
