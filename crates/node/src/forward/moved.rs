//! Requests for a bucket that moves between groups: they wait a little, and begin anew at its new
//! group.

use crate::flow::{Elsewhere, Flow};
use crate::route::Router;
use base::limits::FORWARD_MS_MAX;
use base::{Reason, Reply, Request, Result};
use runtime::submit::{Submitted, Ticket};
use runtime::world::{self, sleep};
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts: a short time at first, since most moves are short, longer with each.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl Router {
    /// Answers a request once its bucket has moved, or stays.
    pub(crate) fn after_move(
        self: &Arc<Router>,
        before: Option<Ticket>,
        elsewhere: Elsewhere,
        request: Request,
    ) -> Submitted {
        let router = self.clone();
        Submitted::Later(Box::pin(async move {
            // The outcomes of earlier requests were sent already; here only the order counts.
            let _ = router.settled(before).await;
            router.until_moved(elsewhere, request).await
        }))
    }

    /// Returns an answer, or retries the request if the answer says that the bucket moves.
    pub(crate) async fn unless_away(
        self: &Arc<Router>,
        answer: Result<Reply>,
        elsewhere: Elsewhere,
        request: Request,
    ) -> Result<Reply> {
        match answer {
            Err(error) if error.reason == Reason::Moved && !elsewhere.told_of_moves => {
                self.until_moved(elsewhere, request).await
            }
            answer => answer,
        }
    }

    /// Retries until the bucket has moved. Nothing was executed yet, and an attempt during the move
    /// executes nothing either.
    async fn until_moved(
        self: &Arc<Router>,
        elsewhere: Elsewhere,
        request: Request,
    ) -> Result<Reply> {
        let until_ms = world::milliseconds() + FORWARD_MS_MAX;
        let elsewhere = Elsewhere { told_of_moves: true, ..elsewhere };
        let mut pause = PAUSE;
        loop {
            sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
            let mut flow = Flow::passing(elsewhere);
            let submitted = self.submit(&mut flow, request.clone());
            match self.answered(submitted).await {
                Err(error) if error.reason == Reason::Moved && world::milliseconds() < until_ms => {
                }
                answer => return answer,
            }
        }
    }
}
