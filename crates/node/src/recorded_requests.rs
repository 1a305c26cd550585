//! Requests, acts and logins on their way through the node and into the audit log.

use crate::Node;
use crate::act_recorder::{PendingRecord, RecordedAct};
use crate::flow::Flow;
use crate::route::Router;
use base::access::Login;
use base::rights::{Need, Operate};
use base::{GroupId, Principal, Reason, Reply, Request, Result};
use runtime::submit::{LaterReply, SubmitResult};
use std::net::IpAddr;
use std::sync::Arc;

impl Router {
    /// Submits a request of a client. A call to the directory is recorded if it is to be; of
    /// operations on keys that shows once their bucket is looked up.
    #[inline]
    pub(crate) fn submit_recorded(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
    ) -> SubmitResult {
        match self.recorder.recorded(flow.principal(), &request) {
            None => self.submit(flow, request),
            Some(recorded) => self.submit_act(flow, request, recorded),
        }
    }

    #[cold]
    fn submit_act(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        recorded: RecordedAct,
    ) -> SubmitResult {
        // It is recorded where it is refused.
        if self.access.check_request(flow, &request).is_err() {
            recorded.withdraw();
            return self.submit(flow, request);
        }
        if recorded.is_secure() {
            return self.submit_secure(flow, request, recorded);
        }
        let submitted = self.submit(flow, request);
        self.follow(recorded, submitted)
    }

    /// Records the outcome of a submitted request once it is known. Nobody waits for that.
    #[cold]
    pub(crate) fn follow(
        self: &Arc<Router>,
        recorded: RecordedAct,
        submitted: SubmitResult,
    ) -> SubmitResult {
        match submitted {
            SubmitResult::Ready(reply) => {
                recorded.finish(&reply);
                SubmitResult::Ready(reply)
            }
            SubmitResult::Pending(ticket, reply) => {
                let answer = reply.as_ref().map(drop).map_err(Clone::clone);
                // Its connection waits for the last of many tickets, and never says what became of
                // this one.
                if self.pending_records.push(PendingRecord { ticket, recorded, answer }) {
                    let finish = self.clone().finish_pending(ticket.group);
                    self.lifecycle.tasks.records.spawn_short(finish);
                }
                SubmitResult::Pending(ticket, reply)
            }
            SubmitResult::Later(reply) => SubmitResult::Later(finish_later(recorded, reply)),
            SubmitResult::Independent(key, reply) => {
                SubmitResult::Independent(key, finish_later(recorded, reply))
            }
        }
    }

    /// Records the outcomes of a group's updates as they are decided, until none waits.
    async fn finish_pending(self: Arc<Router>, group: GroupId) {
        while let Some(next) = self.pending_records.take(group) {
            let PendingRecord { ticket, recorded, answer } = next;
            let decided = self.wait_applied(Some(ticket)).await;
            recorded.finish(&decided.and(answer));
        }
    }

    /// Submits an act that needs `secure`, once its line is on disk.
    fn submit_secure(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        mut recorded: RecordedAct,
    ) -> SubmitResult {
        let (router, caller, previous) = (self.clone(), flow.caller(), flow.last.take());
        SubmitResult::Later(Box::pin(async move {
            let trail = &router.recorder.trail;
            if let Some(allowed) = recorded.announcement()
                && let Err(error) = trail.confirm(allowed).await
            {
                // If it was only late, it must not seem to be done.
                let refused = Err(error);
                recorded.finish(&refused);
                return refused;
            }
            let mut flow = Flow::internal(caller);
            flow.last = previous;
            let submitted = router.submit(&mut flow, request);
            let reply = router.wait_reply(submitted).await;
            recorded.finish(&reply);
            // Who did what is on disk already. What became of it is written as soon as it can be.
            let _ = trail.sync().await;
            reply
        }))
    }
}

fn finish_later(recorded: RecordedAct, reply: LaterReply) -> LaterReply {
    Box::pin(async move {
        let reply: Result<Reply> = reply.await;
        recorded.finish(&reply);
        reply
    })
}

impl Node {
    /// Decides about an act of an operator. What is returned takes its outcome, for the audit log.
    /// Errors: `Forbidden`, `Unauthenticated`; `OutOfSpace`, if it must not be done unrecorded.
    pub fn authorize(&self, principal: &Principal, act: Operate) -> Result<RecordedAct> {
        let decided = self.router.access.check_act(principal, act);
        self.router.recorder.on_act(principal, act, decided)
    }

    /// Decides about a request that is answered without being submitted, and records a refusal.
    /// Errors: `Forbidden`, `Unauthenticated`.
    pub fn authorize_request(&self, flow: &mut Flow, request: &Request) -> Result<()> {
        let Router { access, recorder, .. } = &*self.router;
        let decided = access.check_request(flow, request);
        if let Err(error) = &decided {
            recorder.on_refusal(flow.principal(), request, error);
        }
        decided
    }

    /// Decides whether the principal of a flow is allowed at least one of these needs, before its
    /// request is known, and records a refusal under the name of the operation (`None`: only the
    /// request's body says it). No need at all is granted. Errors: as for the first.
    pub fn authorize_any<'n>(
        &self,
        flow: &mut Flow,
        operation: Option<&'static str>,
        needs: impl IntoIterator<Item = Need<'n>>,
    ) -> Result<()> {
        let mut refusal = None;
        for need in needs {
            match self.router.access.check_flow(flow, &need) {
                Ok(()) => return Ok(()),
                Err(error) => refusal = refusal.or(Some((need, error))),
            }
        }
        let Some((need, error)) = refusal else { return Ok(()) };
        self.router.recorder.on_need_refused(flow.principal(), operation, &need, &error);
        Err(error)
    }

    /// Records that a front-end refused what never became a request: its sender has not logged in,
    /// or has no right in the bucket that a connection is about. `scope`: empty, if it is about
    /// nothing in particular.
    pub fn record_refusal(
        &self,
        principal: &Principal,
        operation: &'static str,
        scope: String,
        reason: Reason,
    ) {
        self.router.recorder.on_front_end_refusal(principal, operation, scope, reason);
    }

    /// Returns true if a principal may do an act. For answers that omit something otherwise.
    pub fn may(&self, principal: &Principal, act: Operate) -> bool {
        self.router.access.check_act(principal, act).is_ok()
    }

    /// Resolves when everything that was recorded so far is in the audit log, on disk. Errors:
    /// `OutOfSpace`.
    pub async fn sync_audit_log(&self) -> Result<()> {
        self.router.recorder.trail.sync().await
    }

    /// Records a login, right or wrong. `presented`: the name that the caller presented.
    pub fn record_login(
        &self,
        presented: &[u8],
        address: Option<IpAddr>,
        login: &Result<Arc<Login>>,
    ) {
        self.router.recorder.on_login(presented, address, login);
    }
}
