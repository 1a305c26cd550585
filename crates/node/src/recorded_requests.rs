//! Requests, acts and logins on their way through the node and into the audit log.

use crate::Node;
use crate::act_recorder::RecordedRequest;
use crate::flow::Flow;
use crate::route::Router;
use audit_log::{AuditOutcome, AuditRecord};
use base::access::{Login, Verb};
use base::rights::{AuditClass, Need, Operate};
use base::{Principal, Request, Result};
use runtime::submit::SubmitResult;
use std::net::IpAddr;
use std::sync::Arc;

impl Router {
    /// Submits a request of a client, and records it if it is to be.
    #[inline]
    pub(crate) fn submit_recorded(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
    ) -> SubmitResult {
        match self.recorder.recorded(flow.principal(), &request) {
            None => self.submit(flow, request),
            Some(recorded) => self.submit_and_record(flow, request, recorded),
        }
    }

    #[cold]
    fn submit_and_record(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        recorded: RecordedRequest,
    ) -> SubmitResult {
        // It is recorded where it is refused.
        if self.access.check_request(flow, &request).is_err() {
            return self.submit(flow, request);
        }
        if recorded.class == AuditClass::Secure {
            return self.submit_secure(flow, request, recorded);
        }
        let (router, recorder) = (self.clone(), self.recorder.clone());
        match self.submit(flow, request) {
            SubmitResult::Ready(reply) => {
                recorder.finish(recorded, &reply);
                SubmitResult::Ready(reply)
            }
            SubmitResult::Independent(key, reply) => {
                let reply = async move {
                    let reply = reply.await;
                    recorder.finish(recorded, &reply);
                    reply
                };
                SubmitResult::Independent(key, Box::pin(reply))
            }
            submitted => SubmitResult::Later(Box::pin(async move {
                let reply = router.wait_reply(submitted).await;
                recorder.finish(recorded, &reply);
                reply
            })),
        }
    }

    /// Submits an act that needs `secure`, once its line is on disk.
    fn submit_secure(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        recorded: RecordedRequest,
    ) -> SubmitResult {
        let (router, caller, previous) = (self.clone(), flow.caller(), flow.last.take());
        SubmitResult::Later(Box::pin(async move {
            let recorder = &router.recorder;
            let allowed = AuditRecord { outcome: AuditOutcome::Allowed, ..recorded.record.clone() };
            if let Err(error) = recorder.trail.confirm(allowed).await {
                // If it was only late, it must not seem to be done.
                recorder.finish(recorded, &Err(error.clone()));
                return Err(error);
            }
            let mut flow = Flow::internal(caller);
            flow.last = previous;
            let submitted = router.submit(&mut flow, request);
            let reply = router.wait_reply(submitted).await;
            recorder.finish(recorded, &reply);
            // Who did what is on disk already. What became of it is written as soon as it can be.
            let _ = recorder.trail.sync().await;
            reply
        }))
    }
}

impl Node {
    /// Decides about an act of an operator, and records it. Errors: `Forbidden`, `Unauthenticated`;
    /// `OutOfSpace`, if it must not be done unrecorded.
    pub fn authorize(&self, principal: &Principal, act: Operate) -> Result<()> {
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
    /// request is known, and records a refusal. No need at all is granted. Errors: as for the
    /// first.
    pub fn authorize_any<'n>(
        &self,
        flow: &mut Flow,
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
        self.router.recorder.on_need_refused(flow.principal(), &need, &error);
        Err(error)
    }

    /// Returns true if a principal may do an act. For answers that omit something otherwise.
    pub fn may(&self, principal: &Principal, act: Operate) -> bool {
        self.router.access.check_act(principal, act).is_ok()
    }

    /// Resolves when an act that was decided may be done: one that needs `secure` is in the audit
    /// log then. Errors: `OutOfSpace`, with the remedy.
    pub async fn confirm_act(&self, act: Operate) -> Result<()> {
        match act.needs().verb() {
            Some(Verb::Secure) => self.router.recorder.trail.sync().await,
            _ => Ok(()),
        }
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
