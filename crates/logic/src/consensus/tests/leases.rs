//! Leases: a promise outlasts the lease that relies on it, and no end of a connection shortens it.

use super::machine::NODE;
use crate::consensus::lease::Lease;
use crate::consensus::{
    Body, Configuration, Effect, Event, LeaseClock, LeaseTerm, Member, Message, Replica,
    RestoredState,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};

#[test]
fn lease_requires_majority_and_ends_early_by_clock_drift() {
    let clock = LeaseClock { length: Millis(1_000), drift_ppm: 10_000, allows_reads: true };
    let mut lease = Lease::new(clock, (1..=3).map(NodeId), 2);
    lease.grant(NodeId(1), Millis(100));
    assert!(!lease.is_valid(Millis(100)), "one of three is no majority");
    lease.grant(NodeId(2), Millis(50));
    assert!(lease.is_valid(Millis(50 + 494)), "495 ms from when the second heartbeat was sent");
    assert!(!lease.is_valid(Millis(50 + 495)));
    lease.grant(NodeId(2), Millis(20));
    assert!(lease.is_valid(Millis(50 + 494)), "an older grant takes nothing back");
}

/// The promise of a voter outlasts the lease that relies on it, for every length, term and drift.
#[test]
fn promise_outlasts_the_lease_that_relies_on_it() {
    for length in [1, 2, 3, 100, 599, 600, 601, 60_000] {
        for drift_ppm in [0, 1, 10_000, 333_333, 1_000_000] {
            let clock = LeaseClock { length: Millis(length), drift_ppm, allows_reads: true };
            let lease = clock.lease_end(Millis(7)).0 - 7;
            let [half, whole] = [LeaseTerm::Half, LeaseTerm::Whole]
                .map(|term| clock.grant_end(Millis(7), term).0 - 7);
            // In parts of a millionth of a millisecond, to see what was rounded.
            let real = u128::from(length) * 500_000;
            let [drift, million] = [u128::from(drift_ppm), 1_000_000];
            assert!(u128::from(lease) * million * million <= real * (million - drift));
            assert!(u128::from(half) * million * million >= real * (million + drift));
            assert!(u128::from(whole) * million * million >= 2 * real * (million + drift));
            assert!(lease <= half && half <= whole, "{length} ms, {drift_ppm} ppm");
        }
    }
}

#[test]
fn lease_may_be_unbounded_and_excessive_drift_voids_lease() {
    let forever = LeaseClock { length: Millis(u64::MAX), drift_ppm: 0, allows_reads: true };
    let mut lease = Lease::new(forever, [NODE].into_iter(), 1);
    lease.grant(NODE, Millis(5));
    assert!(lease.is_valid(Millis(u64::MAX / 2)));
    let drifting = LeaseClock { length: Millis(1_000), drift_ppm: 2_000_000, allows_reads: true };
    let mut lease = Lease::new(drifting, [NODE].into_iter(), 1);
    lease.grant(NODE, Millis(5));
    assert!(!lease.is_valid(Millis(5)), "clocks that drift without bound leave no lease");
}

/// Clocks are read in whole milliseconds. A voter that reads its clock late in a millisecond, and
/// at the end of its promise early in one, promised for one less than it counted.
#[test]
fn promise_read_in_whole_milliseconds_outlasts_the_lease() {
    for length in (100..=2_000).chain([60_000]) {
        let clock = LeaseClock { length: Millis(length), ..LeaseClock::default() };
        let lease = clock.lease_end(Millis(0)).0;
        let promise = clock.grant_end(Millis(0), LeaseTerm::Half).0 - 1;
        // The master's clock is slow by this many parts per million, and the voter's is fast.
        let deviation_ppm = if length == 600 { 8_300 } else { 5_000 };
        let [slow, fast] = [1_000_000 - deviation_ppm, 1_000_000 + deviation_ppm];
        assert!(lease * fast <= promise * slow, "{length} ms");
    }
}

fn configuration(id: u32) -> Configuration {
    let members = [1, 5, 9].map(|node| Member { node: NodeId(node), part: Part::Voter });
    Configuration::new(ConfigurationId(id), members.to_vec()).expect("sound")
}

/// Returns a replica, node 1 of three, that waits for its start, and the ballot of node 9 that it
/// promised.
fn restored() -> (Replica, Ballot) {
    let master = Ballot { round: 2, node: NodeId(9) };
    let restored = RestoredState {
        node: NODE,
        configuration: configuration(1),
        base: LogIndex(0),
        signs: Vec::new(),
        promised: master,
        accepted_ballot: master,
        last: LogIndex(5),
        decided: LogIndex(5),
        tear: None,
        lease: LeaseClock::default(),
    };
    (Replica::restore(restored).expect("sound"), master)
}

/// Returns a follower, node 1 of three, that promised ballot 2 of node 9 and granted nothing for
/// long, with that ballot and the time.
fn follower() -> (Replica, Ballot, u64) {
    let (mut replica, master) = restored();
    replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
    (replica, master, 10_000)
}

/// Reports the end of a connection to a replica.
fn end_link(replica: &mut Replica, node: NodeId, now: u64) {
    replica.step(Event::LinkEnded { node, now: Millis(now) }, &mut Vec::new());
}

/// Passes a message of its configuration to a replica; returns what it sends.
fn deliver(replica: &mut Replica, ballot: Ballot, body: Body, now: u64) -> Vec<Body> {
    let message = Message { configuration: replica.configuration().id(), ballot, body };
    let (from, now) = (ballot.node, Millis(now));
    let mut effects = Vec::new();
    replica.step(Event::Received { from, message, signs: Vec::new(), now }, &mut effects);
    let sent = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { message, .. } => Some(message.body),
        _ => None,
    });
    sent.collect()
}

fn heartbeat(lease: Option<LeaseTerm>) -> Body {
    heartbeat_with(lease, 0)
}

fn heartbeat_with(lease: Option<LeaseTerm>, decided: u64) -> Body {
    let (sent, decided, saved_by_all) = (Millis(77), LogIndex(decided), LogIndex(0));
    Body::Heartbeat { beat: 1, sent, lease, decided, saved_by_all }
}

/// A master of a former version requests a whole lease and relies on it: the end of its connection
/// frees no voter before that.
#[test]
fn voter_keeps_the_term_that_the_heartbeat_requested() {
    for (lease, promised_ms) in [(LeaseTerm::Half, 303), (LeaseTerm::Whole, 606)] {
        for link_ends in [false, true] {
            let (mut replica, master, now) = follower();
            let (sent, lease) = (Millis(77), Some(lease));
            let granted = Body::Granted { beat: 1, sent, lease, is_full: false };
            assert_eq!(deliver(&mut replica, master, heartbeat(lease), now), [granted]);
            if link_ends {
                end_link(&mut replica, master.node, now);
            }
            let candidate = Ballot { round: 3, node: NodeId(5) };
            assert_bound_until(&mut replica, candidate, now + promised_ms);
        }
    }
}

/// Asserts that a replica promises this ballot at this time, and no earlier.
fn assert_bound_until(replica: &mut Replica, candidate: Ballot, until: u64) {
    let prepare = Body::Prepare { released: Ballot::default() };
    let promised = replica.promised();
    let early = deliver(replica, candidate, prepare, until - 1);
    assert_eq!(early, [Body::Refused { promised }]);
    deliver(replica, candidate, prepare, until);
    assert_eq!(replica.promised(), candidate, "its promise is over");
}

/// A voter that restarts has forgotten its grants: it is bound for the longest term from its start.
/// Connections end with the former process, and may end before this one has started its groups.
#[test]
fn restarted_voter_is_bound_whatever_ends_its_connections() {
    for ends_at in [None, Some(100), Some(101), Some(600)] {
        let (mut replica, master) = restored();
        let mut effects = Vec::new();
        let ended = |at: u64| Event::LinkEnded { node: master.node, now: Millis(at) };
        if ends_at == Some(100) {
            replica.step(ended(100), &mut effects);
            assert_eq!(effects, [], "it waits for its start");
        }
        replica.step(Event::Started { now: Millis(100) }, &mut effects);
        if let Some(at) = ends_at {
            replica.step(ended(at), &mut effects);
        }
        let sends = |effect: &Effect| matches!(effect, Effect::Send { .. });
        assert!(!effects.iter().any(sends), "it seeks no other master: {effects:?}");
        assert_bound_until(&mut replica, Ballot { round: 3, node: NodeId(5) }, 706);
    }
}

/// A snapshot replaces the log, and perhaps the configuration. What the voter promised stays, also
/// if the connection with the master ended before or after.
#[test]
fn installed_snapshot_keeps_the_promise() {
    for id in [1, 2] {
        for ends_first in [false, true] {
            let (mut replica, master, now) = follower();
            deliver(&mut replica, master, heartbeat(Some(LeaseTerm::Half)), now);
            if ends_first {
                end_link(&mut replica, master.node, now + 1);
            }
            let base = if id == 1 { LogIndex(0) } else { LogIndex(8) };
            let installed =
                Event::Installed { last: LogIndex(9), configuration: (base, configuration(id)) };
            replica.step(installed, &mut Vec::new());
            assert_eq!(replica.decided(), LogIndex(9));
            end_link(&mut replica, master.node, now + 2);
            let candidate = Ballot { round: u64::from(id) << 40, node: NodeId(5) };
            assert_bound_until(&mut replica, candidate, now + 303);
        }
    }
}

/// A heartbeat over the next connection binds the voter as ever.
#[test]
fn heartbeat_after_a_link_end_restores_patience() {
    let (mut replica, master, now) = follower();
    deliver(&mut replica, master, heartbeat(Some(LeaseTerm::Half)), now);
    end_link(&mut replica, master.node, now + 1);
    assert_eq!(replica.idle_until(), Some(Millis(now + 303)));
    deliver(&mut replica, master, heartbeat(Some(LeaseTerm::Half)), now + 100);
    assert_eq!(replica.idle_until(), Some(Millis(now + 100 + 606)));
}

/// A voter waits for a silent master for the whole length, and for one whose connection ended for
/// as long as its promise. Another member's connection changes nothing.
#[test]
fn link_end_of_the_master_alone_shortens_patience() {
    for (ended, waits_ms) in [(None, 606), (Some(5), 606), (Some(9), 303), (Some(7), 606)] {
        let (mut replica, master, now) = follower();
        deliver(&mut replica, master, heartbeat(Some(LeaseTerm::Half)), now);
        if let Some(node) = ended.map(NodeId) {
            replica.step(Event::LinkEnded { node, now: Millis(now + 1) }, &mut Vec::new());
        }
        assert_eq!(replica.idle_until(), Some(Millis(now + waits_ms)));
        let mut effects = Vec::new();
        replica.step(Event::Tick { now: Millis(now + waits_ms - 1) }, &mut effects);
        assert!(effects.is_empty(), "it waits: {effects:?}");
        replica.step(Event::Tick { now: Millis(now + waits_ms) }, &mut effects);
        let seeks = |effect: &Effect| match effect {
            Effect::Send { message, .. } => matches!(message.body, Body::Probe { .. }),
            _ => false,
        };
        assert_eq!(effects.iter().filter(|effect| seeks(effect)).count(), 2, "{effects:?}");
    }
}

/// What a master reported says nothing of the time after its followers stop to hear it, also at a
/// follower that goes on following it.
#[test]
fn end_of_the_followed_log_is_known_while_the_master_is_heard() {
    for disk_hangs in [false, true] {
        let (mut replica, master, now) = follower();
        assert_eq!(replica.followed_log_end(Millis(now)), None, "it follows nobody");
        deliver(&mut replica, master, heartbeat_with(Some(LeaseTerm::Half), 9), now);
        replica.step(Event::Disk { disk_hangs }, &mut Vec::new());
        let known = Some((master, LogIndex(9)));
        assert_eq!(replica.followed_log_end(Millis(now + 605)), known);
        assert_eq!(replica.followed_log_end(Millis(now + 606)), None);
        replica.step(Event::Tick { now: Millis(now + 606) }, &mut Vec::new());
        assert_eq!(replica.master().is_some(), disk_hangs);
        assert_eq!(replica.followed_log_end(Millis(now + 606)), None);
    }
}

/// A new master knows less as decided than its predecessor until it has decided what it inherited.
#[test]
fn end_of_the_followed_log_includes_inherited_entries() {
    let (mut replica, master, now) = follower();
    deliver(&mut replica, master, heartbeat_with(Some(LeaseTerm::Half), 3), now);
    assert_eq!(replica.followed_log_end(Millis(now)), Some((master, LogIndex(5))));
    let next = Ballot { round: 3, node: NodeId(5) };
    deliver(&mut replica, next, Body::Prepare { released: Ballot::default() }, now + 700);
    assert_eq!(replica.promised(), next);
    assert_eq!(replica.followed_log_end(Millis(now + 700)), None, "it only promised");
    replica.step(Event::PromiseSaved { ballot: next }, &mut Vec::new());
    deliver(&mut replica, next, heartbeat_with(Some(LeaseTerm::Half), 3), now + 701);
    assert_eq!(replica.followed_log_end(Millis(now + 701)), None, "it has not adopted the log");
}
