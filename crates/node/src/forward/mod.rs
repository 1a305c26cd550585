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
mod message;
mod moved;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use server::answer;

use crate::flow::{Elsewhere, Flow};
use crate::group_ref::GroupRef;
use crate::route::Router;
use base::limits::{FORWARD_MS_MAX, MASTER_WAIT_MS_MAX};
use base::{Call, Error, Properties, Reason, Reply, Request, Result, check};
use client::{ForwardedRequest, Repeat};
use runtime::metrics::Metrics;
use runtime::submit::{Submitted, Ticket};
use runtime::world::{self, timeout};
use std::sync::Arc;
use std::time::Duration;

impl Router {
    /// Passes a request on to the group's master; `before` is what the connection waits for.
    pub(crate) fn pass_on(
        self: &Arc<Router>,
        group_ref: GroupRef,
        before: Option<Ticket>,
        elsewhere: Elsewhere,
        request: Request,
    ) -> Submitted {
        let router = self.clone();
        Submitted::Later(Box::pin(async move {
            let there = router.carry(&group_ref, before, request.clone()).await;
            router.unless_away(there, elsewhere, request).await
        }))
    }

    /// Passes a request on, and resolves to the answer.
    pub(crate) async fn carry(
        self: &Arc<Router>,
        group_ref: &GroupRef,
        before: Option<Ticket>,
        request: Request,
    ) -> Result<Reply> {
        let began_ms = world::milliseconds();
        let within = Duration::from_millis(FORWARD_MS_MAX);
        // The outcomes of earlier requests were sent already; here only the order counts.
        if timeout(within, self.settled(before)).await.is_none() {
            return Err(Error::new(
                Reason::NoQuorum,
                "earlier requests of this connection are still undecided: nothing was done with \
                 this one; try again",
            ));
        }
        let errand = ForwardedRequest {
            me: self.locator.links.node,
            group: group_ref.id(),
            letter: self.letter(&request)?,
            repeat: Repeat::of(&request),
            began_ms,
            within_ms: FORWARD_MS_MAX,
            patience_ms: MASTER_WAIT_MS_MAX,
        };
        Metrics::count(&self.metrics.forwarded_out);
        let here = || self.here(request.clone());
        let locator = &self.locator;
        let group = || locator.whom_now(group_ref).standing();
        let onward = |asked, error: &Error| {
            locator.asked_in_vain(&locator.whom_now(group_ref), asked, error)
        };
        let reply = errand.run(locator.links.peers.get(), group, here, onward).await;
        let reply = reply.map_err(|error| self.readiness.with_missing(group_ref.id(), error))?;
        if let Call::Directory(_) = &request.call {
            // The next request of this client finds the bucket as it left it. If this node can't
            // keep up, the change is no less true.
            let left = within.saturating_sub(client::since(began_ms));
            let _ = timeout(left, self.directory.group.applied.reached(reply.index)).await;
        }
        Ok(reply)
    }

    /// Answers a request here or not at all.
    async fn here(self: &Arc<Router>, request: Request) -> Result<Reply> {
        let elsewhere = Elsewhere { named: true, told_of_moves: true };
        let submitted = self.submit(&mut Flow::passing(elsewhere), request);
        self.answered(submitted).await
    }

    /// Encodes the request. Refuses in words what no node would take. The bucket's own limits are
    /// checked by its master, whose directory is not behind.
    fn letter(&self, request: &Request) -> Result<bytes::Bytes> {
        let defaults = Properties::default();
        match &request.call {
            Call::Update(update) => check::update(update, &defaults)?,
            Call::Read(read, _) => check::read(read, &defaults)?,
            Call::Directory(_) | Call::Session(_) | Call::Available(_) => {}
        }
        message::write(self.directory.group.applied.shown(), request)
    }
}
