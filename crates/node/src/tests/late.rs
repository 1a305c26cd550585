//! Updates whose log is not written: their waiters are answered all the same.

use super::truncation::Sole;
use base::Reason;
use base::limits::DECIDED_MS_MAX;
use runtime::submit::Ticket;
use runtime::world;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const NOW_NS: u64 = 1_000_000_000_000;

fn time_passes(ms: u64) {
    world::set_time(Some(world::simulated_time().unwrap_or(NOW_NS) + ms * 1_000_000));
}

/// Result of a ticket now: `None` while it waits, then done or the reason why not.
fn told(sole: &Sole, ticket: Ticket) -> Option<Result<(), Reason>> {
    let answer = pin!(sole.group.wait_applied(ticket));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.map_err(|error| error.reason)),
        Poll::Pending => None,
    }
}

/// A sole node's disk hangs, and no other member could lead instead.
#[test]
fn update_on_hung_disk_times_out_and_may_still_apply() {
    time_passes(0);
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let (first, late) = (sole.submit(0), Some(Err(Reason::DeadlinePassed)));
    sole.turn();
    time_passes(DECIDED_MS_MAX);
    let second = sole.submit(1);
    sole.turn();
    assert_eq!((told(&sole, first), told(&sole, second)), (None, None));
    time_passes(1);
    sole.turn();
    assert_eq!((told(&sole, first), told(&sole, second)), (late, None));
    time_passes(DECIDED_MS_MAX);
    sole.turn();
    assert_eq!((told(&sole, first), told(&sole, second)), (late, late));
    // The disk answers again: what was in doubt has happened, and updates are served as ever.
    sole.settle(&mut writer);
    assert!(sole.read(0).0 && sole.read(1).0);
    let third = sole.submit(2);
    sole.turn();
    assert_eq!(told(&sole, third), None);
    sole.settle(&mut writer);
    assert_eq!(told(&sole, third), Some(Ok(())));
    world::set_time(None);
}
