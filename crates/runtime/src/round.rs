//! Rounds of loops: marks by which code tells the watchdog where the loop that runs it stands.
//!
//! A loop rests while it has no work, and is in a round otherwise. The marks are notes on the
//! thread that polls the loop; its parent takes them after each poll (`tasks.rs`). So code far
//! below a loop marks its waits without a handle of the beat. In a task that is no loop nobody
//! takes them.
//!
//! Promises: a mark costs a store to the thread's memory; one that belongs to a wait that has ended
//! is gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

/// Marks of one poll of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollMarks {
    /// True if the loop came round, or made progress.
    pub came_round: bool,
    /// Wait in which the poll ended. `None`: it is not marked.
    pub place: Option<LoopWait>,
}

/// Wait of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopWait {
    /// The loop waits for work, or for its next turn.
    Rest,
    /// The loop waits for this in the middle of a round.
    Wait(&'static str),
}

thread_local! {
    static MARKS: Cell<PollMarks> =
        const { Cell::new(PollMarks { came_round: false, place: None }) };
}

/// Waits for the next work of a loop: until then the loop rests. The round before ends with this
/// call.
pub fn rest<F: Future>(work: F) -> impl Future<Output = F::Output> {
    progress();
    mark_while_pending(LoopWait::Rest, work)
}

/// Waits for an event in the middle of a round. `place`: what for, as a noun, for operators.
pub fn wait<F: Future>(place: &'static str, event: F) -> impl Future<Output = F::Output> {
    mark_while_pending(LoopWait::Wait(place), event)
}

/// Notes that a long round made progress.
#[inline]
pub fn progress() {
    MARKS.set(PollMarks { came_round: true, ..MARKS.get() });
}

/// Runs one poll of a loop. Returns its marks, too.
pub(crate) fn observe_poll<T>(poll: impl FnOnce() -> T) -> (T, PollMarks) {
    // A loop may be polled within another one.
    let outer = MARKS.replace(PollMarks::default());
    let polled = poll();
    (polled, MARKS.replace(outer))
}

async fn mark_while_pending<F: Future>(place: LoopWait, event: F) -> F::Output {
    // Dropped behind `event`, which may have marks of its own, also if the wait is given up.
    let _clearing = ClearWait;
    let mut event = pin!(event);
    poll_fn(|context| {
        let polled = event.as_mut().poll(context);
        if polled.is_pending() {
            set_place(place);
        }
        polled
    })
    .await
}

fn set_place(place: LoopWait) {
    let marks = MARKS.get();
    // A loop that waits for work beside something else rests; of other waits the innermost counts.
    if place == LoopWait::Rest || marks.place.is_none() {
        MARKS.set(PollMarks { place: Some(place), ..marks });
    }
}

/// Guard of a marked wait: its end removes the mark.
struct ClearWait;

impl Drop for ClearWait {
    fn drop(&mut self) {
        MARKS.set(PollMarks { place: None, ..MARKS.get() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    fn marks_of(task: impl Future<Output = ()>) -> PollMarks {
        let mut task = pin!(task);
        let mut context = Context::from_waker(Waker::noop());
        observe_poll(|| task.as_mut().poll(&mut context)).1
    }

    #[test]
    fn poll_ends_in_the_wait_that_is_pending() {
        let waits = Some(LoopWait::Wait("a reply"));
        assert_eq!(marks_of(wait("a reply", pending())).place, waits);
        assert_eq!(marks_of(wait("a call", wait("a reply", pending()))).place, waits);
        assert_eq!(marks_of(async { wait("a reply", ready(())).await }).place, None);
        let rests = PollMarks { came_round: true, place: Some(LoopWait::Rest) };
        assert_eq!(marks_of(async { rest(pending()).await }), rests);
    }

    #[test]
    fn given_up_rest_leaves_no_mark() {
        let wakes = async {
            tokio::select! {
                biased;
                () = rest(pending()) => {}
                () = ready(()) => {}
            }
            // In the middle of the next round.
            pending().await
        };
        assert_eq!(marks_of(wakes), PollMarks { came_round: true, place: None });
    }

    #[test]
    fn rest_beside_another_wait_is_a_rest() {
        let waits = async {
            tokio::select! {
                biased;
                () = wait("a reply", pending()) => {}
                () = rest(pending()) => {}
                () = wait("a call", pending()) => {}
            }
        };
        assert_eq!(marks_of(waits).place, Some(LoopWait::Rest));
    }

    #[test]
    fn loop_within_another_one_keeps_its_marks_to_itself() {
        let outer = async {
            marks_of(async { rest(pending()).await });
            pending().await
        };
        assert_eq!(marks_of(outer), PollMarks::default());
    }
}
