//! Forwarding of a request for a group whose master is another node: it is passed on once, and
//! answered here in the master's words.
//!
//! On the node that was asked, `client.rs` finds the master, waits for one during an election, and
//! distinguishes what was not executed (it may try again) from what may have been (it may not,
//! unless the request has a retry id). On the master `server.rs` evaluates the request as if it had
//! been received there. `docs/inside/life-of-a-forwarded-request.md` describes it from beginning to
//! end.
//!
//! Promises: a request is passed on to one node at a time, and never by a node that got it from
//! another (for a group without a replica here a member is asked, then the node that it names). A
//! request that may have been executed is sent again only if its retry id makes it apply once, or
//! if it changes nothing. Every wait is bounded, and so is the number of requests taken from other
//! nodes.
//! Never: answers a consistent read from this node's own rows (that is `route.rs`, under a lease);
//! keeps an order among requests: those of one connection wait for each other in their front-end.
//! Read next: `client.rs`, then `server.rs`.

mod client;
mod directory;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod message;
mod moved;
mod propagation;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use server::on_forwarded_request;

use crate::flow::{Caller, Elsewhere, Flow};
use crate::route::Router;
use base::limits::{FORWARD_MS_MAX, MASTER_WAIT_MS_MAX};
use base::{Call, Error, Principal, Properties, Reason, Reply, Request, Result, check};
use client::{ForwardedRequest, RetryKind};
use replica_host::GroupRef;
use runtime::metrics::Metrics;
use runtime::submit::{SubmitResult, Ticket};
use runtime::world::{self, timeout};
use std::sync::Arc;
use std::time::Duration;

impl Router {
    /// Forwards a request to the group's master. `previous`: last ticket of the connection.
    pub(crate) fn submit_forwarded(
        self: &Arc<Router>,
        group_ref: GroupRef,
        previous: Option<Ticket>,
        caller: Caller,
        request: Request,
    ) -> SubmitResult {
        let router = self.clone();
        SubmitResult::Later(Box::pin(async move {
            let (principal, forwarded) = (&caller.principal, request.clone());
            let answer = router.forward(&group_ref, previous, principal, forwarded).await;
            router.unless_moving(answer, caller, request).await
        }))
    }

    /// Forwards a request and returns its answer.
    pub(crate) async fn forward(
        self: &Arc<Router>,
        group_ref: &GroupRef,
        previous: Option<Ticket>,
        principal: &Principal,
        request: Request,
    ) -> Result<Reply> {
        let began_ms = world::milliseconds();
        let wait_max = Duration::from_millis(FORWARD_MS_MAX);
        // Only the order matters: the outcomes of earlier requests were sent already.
        if timeout(wait_max, self.wait_applied(previous)).await.is_none() {
            return Err(Error::new(
                Reason::NoQuorum,
                "earlier requests of this connection are still undecided: this one was not \
                 executed; try again",
            ));
        }
        let forwarded = ForwardedRequest {
            node: self.locator.links.node,
            group: group_ref.id(),
            payload: self.encode(principal, &request)?,
            retry_kind: RetryKind::of(&request),
            began_ms,
            timeout_ms: FORWARD_MS_MAX,
            master_wait_ms: MASTER_WAIT_MS_MAX,
        };
        Metrics::count(&self.metrics.forwarded_out);
        let answer_locally = || self.answer_locally(principal.clone(), request.clone());
        let locator = &self.locator;
        let group = || locator.refreshed(group_ref).watch_leadership();
        let next_node = |target, error: &Error| {
            locator.on_call_failure(&locator.refreshed(group_ref), target, error)
        };
        let reply =
            forwarded.run(locator.links.peers.get(), group, answer_locally, next_node).await;
        let reply =
            reply.map_err(|error| self.readiness.explain_no_master(group_ref.id(), error))?;
        if let Call::Directory(_) = &request.call {
            // The client's next request must find the bucket as changed, or as described. If this
            // node can't catch up soon, the answer is valid nevertheless.
            let _ = self.wait_directory_applied(reply.index, MASTER_WAIT_MS_MAX).await;
        }
        Ok(reply)
    }

    /// Answers a request here, without forwarding it.
    async fn answer_locally(
        self: &Arc<Router>,
        principal: Principal,
        request: Request,
    ) -> Result<Reply> {
        let elsewhere = Elsewhere { named: true, told_of_moves: true };
        let mut flow = Flow::forwarded(Caller { principal, elsewhere });
        let submitted = self.submit(&mut flow, request);
        self.wait_reply(submitted).await
    }

    /// Encodes the request. Refuses requests that exceed the limits of every bucket; the bucket's
    /// own limits are checked by its master, whose directory is not behind.
    fn encode(&self, principal: &Principal, request: &Request) -> Result<bytes::Bytes> {
        let forwardable = self.locator.check_forwardable(&request.call);
        // A node that knows nothing of the cluster takes it for one of the first level.
        forwardable.map_err(|error| self.unless_caught_up(error))?;
        let defaults = Properties::default();
        match &request.call {
            Call::Update(update) => check::update(update, &defaults)?,
            Call::Read(read, _) => check::read(read, &defaults)?,
            Call::Directory(_) | Call::Session(_) | Call::Available(_) => {}
        }
        // While access is off, the message is as nodes of earlier versions read it.
        let principal = self.access.is_on().then_some(principal);
        message::write(self.directory.group.applied.visible_index(), principal, request)
    }
}
