//! Requests for a bucket that moves between groups: they wait a little, and begin anew at its new
//! group.

use crate::flow::{Caller, Elsewhere, Flow};
use crate::route::Router;
use base::limits::FORWARD_MS_MAX;
use base::{Reason, Reply, Request, Result};
use runtime::submit::{SubmitResult, Ticket};
use runtime::world::{self, sleep};
use std::sync::Arc;
use std::time::Duration;

/// First pause between two attempts. Most moves are short; the pause doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl Router {
    /// Answers a request once its bucket's move has ended.
    pub(crate) fn after_move(
        self: &Arc<Router>,
        previous: Option<Ticket>,
        caller: Caller,
        request: Request,
    ) -> SubmitResult {
        let router = self.clone();
        SubmitResult::Later(Box::pin(async move {
            // Only the order matters: the outcomes of earlier requests were sent already.
            let _ = router.wait_applied(previous).await;
            router.retry_until_moved(caller, request).await
        }))
    }

    /// Returns an answer, or retries the request if the answer is `Moved`.
    pub(crate) async fn unless_moving(
        self: &Arc<Router>,
        answer: Result<Reply>,
        caller: Caller,
        request: Request,
    ) -> Result<Reply> {
        match answer {
            Err(error) if error.reason == Reason::Moved && !caller.elsewhere.told_of_moves => {
                self.retry_until_moved(caller, request).await
            }
            answer => answer,
        }
    }

    /// Retries until the move has ended. Nothing was executed yet, and an attempt during the move
    /// executes nothing either.
    async fn retry_until_moved(
        self: &Arc<Router>,
        caller: Caller,
        request: Request,
    ) -> Result<Reply> {
        let deadline_ms = world::milliseconds() + FORWARD_MS_MAX;
        let elsewhere = Elsewhere { told_of_moves: true, ..caller.elsewhere };
        let caller = Caller { elsewhere, ..caller };
        let mut pause = PAUSE;
        loop {
            sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
            let mut flow = Flow::internal(caller.clone());
            let submitted = self.submit(&mut flow, request.clone());
            match self.wait_reply(submitted).await {
                Err(error)
                    if error.reason == Reason::Moved && world::milliseconds() < deadline_ms => {}
                answer => return answer,
            }
        }
    }
}
