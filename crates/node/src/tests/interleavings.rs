//! Small cases of log writer, maintenance, and a driver with its client as threads, in many
//! interleavings: the product's own loops, of which one runs at a time
//! (`sync/thread_scheduler.rs`).

use super::truncation::{Sole, place};
use base::mutants::activate_on_thread;
use base::{Reason, SessionId, UserDigest};
use replica_host::flush::FlushStep;
use replica_state::layout::StoredSession;
use replication::overlay::Overlay;
use replication::session_counts::{SessionCounts, SessionOwner};
use runtime::mutants::Mutant;
use runtime::sync::{ThreadScheduler, point};
use runtime::world;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Interleavings in every run.
const SEEDS: u64 = 1_500;
/// Values of a case: three fill a segment.
const VALUES: usize = 9;
/// Maximum number of points before maintenance begins.
const BEGINS_MAX: u64 = 150;
/// One seed is one interleaving: time passes with the driver's turns alone, which may leave a value
/// open for a while.
const NOW_NS: u64 = 1_000_000_000_000;
const TURN_NS: u64 = 100_000;
/// Interleavings of cases with sessions, which have few points.
const SESSION_SEEDS: u64 = 300;
/// Maximum number of the user's sessions, and attempts of each of two clients to open one.
const SESSIONS_MAX: u32 = 3;
const OPENED: usize = 2;
/// User whose sessions are counted.
const USER: UserDigest = UserDigest(1);

/// Sets the clock of this thread, and breaks a rule on it.
fn begin(mutant: Option<Mutant>) {
    world::set_time(Some(NOW_NS));
    activate_on_thread(mutant);
}

/// Values are written, decided and acknowledged while the log is truncated; then the process is
/// killed. The next start must find all of them. The result names those that are lost.
fn acknowledged_while_truncated(seed: u64, mutant: Option<Mutant>) -> Result<(), String> {
    let here = || begin(mutant);
    here();
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let (sole, writer, maintained) = (&sole, &mut writer, &AtomicBool::new(false));
    let log_writer = move || {
        here();
        let log_writer = sole.node.housekeeper.disk.log_writer.clone();
        log_writer.run(writer, &sole.post).expect("a disk without faults");
        log_writer.mark_stopped();
    };
    // A client with several values under way, and their driver.
    let driver = move || {
        here();
        let mut tickets = Vec::new();
        for turn in 0.. {
            world::set_time(Some(NOW_NS + turn * TURN_NS));
            if tickets.len() < VALUES {
                tickets.push(sole.submit(tickets.len()));
            }
            sole.turn();
            let acknowledged = tickets.iter().filter(|ticket| sole.has(**ticket)).count();
            if acknowledged == VALUES && maintained.load(Ordering::Acquire) {
                break;
            }
            point();
        }
        sole.node.housekeeper.disk.log_writer.stop();
    };
    let maintenance = move || {
        here();
        (0..seed % BEGINS_MAX).for_each(|_| point());
        let mut flush = sole.flush();
        while flush.step().expect("memory") != FlushStep::Finished {
            point();
        }
        maintained.store(true, Ordering::Release);
    };
    ThreadScheduler::run(seed, vec![Box::new(log_writer), Box::new(driver), Box::new(maintenance)]);
    let found = sole.starts_again().map_err(|error| format!("a start fails: {error}"))?;
    let applied = sole.group.applied.index();
    if found == applied { Ok(()) } else { Err(format!("applied: {applied:?}, found: {found:?}")) }
}

/// Several values are applied in one turn, one after the other, while others read. The index of an
/// answer must not lie before the value whose row it shows: a client that carries it to another
/// node would be shown an older row.
fn read_while_applied(seed: u64, mutant: Option<Mutant>) -> Result<(), String> {
    let here = || begin(mutant);
    here();
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    // All are decided, and none is applied.
    let (sole, indexes) = (&sole, sole.decided(&mut writer, VALUES));
    let early = &Mutex::new(Ok(()));
    let driver = move || {
        here();
        sole.turn();
    };
    let reader = move || {
        here();
        for (at, index) in indexes.into_iter().enumerate() {
            let (is_there, told) = sole.read(at);
            if is_there && told < index {
                *early.lock().expect("nobody panics") =
                    Err(format!("the row of {index} is shown as of {told}"));
            }
            point();
        }
    };
    ThreadScheduler::run(seed, vec![Box::new(driver), Box::new(reader)]);
    early.lock().expect("nobody panics").clone()
}

/// A session arrives with a bucket that moves here, and its user closes it as soon as it is there.
/// What is counted must be what is open. `counted_late`: it is counted in a step of its own, not
/// under the lock that it is written under.
fn session_received_and_closed(seed: u64, counted_late: bool) -> Result<(), String> {
    begin(None);
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let (group, (bucket, _), session) = (&sole.group, &place(0), SessionId(7));
    let receiver = move || {
        begin(None);
        let write = |overlay: &mut Overlay| {
            let (used, bucket) = (overlay.open.time, Some(bucket.digest));
            let stored = StoredSession { used, highest: 0, bucket, user: Some(USER) };
            overlay.put_session(session, stored);
            overlay.put_session_expiry(session, stored.expires());
            Ok(())
        };
        if counted_late {
            group.write_bookkeeping(0, write, |_| {}).expect("it is master");
            group.state().master.sessions.add_all([Some(USER)]);
        } else {
            let count = |sessions: &mut _| SessionCounts::add_all(sessions, [Some(USER)]);
            let written = group.write_bookkeeping(0, write, |master| count(&mut master.sessions));
            written.expect("it is master");
        }
    };
    let closer = move || {
        begin(None);
        for _ in 0..4 {
            group.close_session(bucket, session, Some(USER)).expect("it is master");
        }
    };
    ThreadScheduler::run(seed, vec![Box::new(receiver), Box::new(closer)]);
    group.close_session(bucket, session, Some(USER)).expect("it is master");
    match group.state().master.sessions.total() {
        0 => Ok(()),
        counted => Err(format!("none is open, and {counted} counted")),
    }
}

/// Two clients of a user open sessions at the same time: together as many as its quota.
fn sessions_opened_at_once(seed: u64) {
    begin(None);
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let (group, (bucket, _), opened) = (&sole.group, &place(0), &Mutex::new(Vec::new()));
    let opener = move || {
        begin(None);
        for _ in 0..OPENED {
            let owner = Some(SessionOwner { user: USER, sessions_max: SESSIONS_MAX });
            let told = group.open_session(bucket, owner).map_err(|error| error.reason);
            opened.lock().expect("nobody panics").push(told.map(|(_, session)| session));
        }
    };
    ThreadScheduler::run(seed, vec![Box::new(opener), Box::new(opener)]);
    let opened = opened.lock().expect("nobody panics").clone();
    let sessions: Vec<_> = opened.iter().flatten().copied().collect();
    let refused: Vec<_> = opened.iter().filter_map(|told| told.err()).collect();
    assert_eq!((sessions.len(), refused), (SESSIONS_MAX as usize, vec![Reason::Quota]), "{seed}");
    for session in sessions {
        group.close_session(bucket, session, Some(USER)).expect("it is master");
    }
    assert_eq!(group.state().master.sessions.total(), 0, "{seed}");
}

/// A case, in one interleaving.
type Case = fn(u64, Option<Mutant>) -> Result<(), String>;

/// Checks that no interleaving finds a fault.
fn holds(case: Case) {
    for seed in 0..SEEDS {
        let said = case(seed, None);
        assert_eq!(said, Ok(()), "interleaving {seed}");
    }
    clean_up();
}

/// Checks that some interleaving shows that this rule is broken.
fn notices(case: Case, mutant: Mutant) {
    let seen = (0..SEEDS).find_map(|seed| Some((seed, case(seed, Some(mutant)).err()?)));
    clean_up();
    println!("{mutant:?}: {seen:?}");
    assert!(seen.is_some(), "a broken rule is not noticed: {mutant:?}");
}

fn clean_up() {
    world::set_time(None);
    activate_on_thread::<Mutant>(None);
}

#[test]
fn acknowledged_values_survive_truncation_in_every_interleaving() {
    holds(acknowledged_while_truncated);
}

#[test]
fn answer_index_is_never_older_than_the_rows_returned() {
    holds(read_while_applied);
    notices(read_while_applied, Mutant::ReturnStaleIndex);
}

#[test]
fn truncation_past_unprocessed_records_is_detected() {
    notices(acknowledged_while_truncated, Mutant::TruncateUnprocessedRecords);
}

#[test]
fn received_session_is_counted_before_anyone_can_close_it() {
    for seed in 0..SESSION_SEEDS {
        assert_eq!(session_received_and_closed(seed, false), Ok(()), "interleaving {seed}");
    }
    let is_noticed = |seed: u64| session_received_and_closed(seed, true).is_err();
    assert!((0..SESSION_SEEDS).any(is_noticed), "the case can't fail");
    clean_up();
}

#[test]
fn clients_that_open_sessions_at_once_share_the_quota_of_their_user() {
    (0..SESSION_SEEDS).for_each(sessions_opened_at_once);
    clean_up();
}
