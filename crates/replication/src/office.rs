//! Mastership as the node lives it: when this replica takes office, what becomes of its clients'
//! updates when it leaves, and who may be answered meanwhile.
//!
//! A *term* of this node goes from taking office to leaving it. A replica that only moves on to its
//! next configuration leaves office with nothing in flight: then what waits to be proposed waits
//! on, and is proposed once it leads again.

use super::group::Group;
use super::leadership::{Leadership, not_master};
use super::state::GroupState;
use base::{Error, Millis, NodeId, Reason, Result};
use logic::consensus::{Configuration, Event, Member, Progress, Refusal, Role};
use runtime::mutants::{Flaw, flawed};
use runtime::submit::Ticket;
use runtime::world;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

impl Group {
    /// Who leads, and every change of that.
    pub fn standing(&self) -> watch::Receiver<Leadership> {
        self.standing.subscribe()
    }

    /// Consensus says that this replica's part changed.
    pub(super) fn role_changed(&self, state: &mut GroupState, role: Role, master: Option<NodeId>) {
        let (group, node) = (self.id.0, self.shared.node);
        tracing::debug!(target: "consensus", group, ?role, ?master, "role");
        if role == Role::Master {
            state.office.waits_for = Some(state.replica.decided());
            return;
        }
        let master = master.filter(|master| *master != node);
        if master.is_none() && flawed(Flaw::MasterWithoutLease) {
            return;
        }
        self.leave_office(state, role);
        self.tell_standing(Some(role), master);
    }

    fn tell_standing(&self, role: Option<Role>, master: Option<NodeId>) {
        self.standing.send_if_modified(|standing| {
            let since_ms = match master == standing.master {
                true => standing.since_ms,
                false => world::milliseconds(),
            };
            let news = Leadership { role, master, since_ms, ..*standing };
            std::mem::replace(standing, news) != news
        });
    }

    /// The group goes on without this node.
    pub(super) fn dismissed(&self) {
        self.standing
            .send_if_modified(|standing| !std::mem::replace(&mut standing.dismissed, true));
        let group = self.id.0;
        tracing::info!(target: "consensus", group, "no part in this group, yet or any more");
    }

    /// Where a simulation stands in for the group's other members: who is its master.
    pub fn follows(&self, master: NodeId) {
        self.tell_standing(Some(Role::Follower), Some(master));
    }

    /// Other members are in force. Whoever dismissed this node spoke of these, or of earlier ones.
    pub(super) fn reconfigured(&self, state: &GroupState) {
        let member = state.replica.configuration().part(self.shared.node).is_some();
        self.member.store(member, Ordering::Release);
        self.standing.send_modify(|standing| standing.dismissed = false);
    }

    /// Returns true if this node is a member of the group. One that was away while it was taken out
    /// learns that from the others.
    pub fn has_part(&self) -> bool {
        self.member.load(Ordering::Acquire) && !self.standing.borrow().dismissed
    }

    /// From here on updates are evaluated here, if everything before is applied.
    pub(super) fn take_office(&self, state: &mut GroupState) -> Result<()> {
        if !state.office.is_due(self.applied.index()) || state.replica.role() != Role::Master {
            return Ok(());
        }
        state.office.waits_for = None;
        let goes_on = state.queue.unproposed() == Some(state.replica.next());
        if !goes_on {
            state.end_term(&self.applied);
            state.queue.restart(state.progress.mark);
            state.master.load(self.id, &*self.shared.trees, self.seals.all().sealed)?;
        }
        state.office.held = true;
        self.publish_lease(state);
        self.offices.fetch_add(1, Ordering::AcqRel);
        self.master.store(!state.life.is_retiring(), Ordering::Release);
        self.driver.wake();
        tracing::info!(target: "consensus", group = self.id.0, "this node is master");
        self.tell_standing(Some(Role::Master), Some(self.shared.node));
        Ok(())
    }

    /// This node is not master, or no longer.
    pub(super) fn leave_office(&self, state: &mut GroupState, role: Role) {
        state.office.waits_for = None;
        self.lease_until.store(0, Ordering::Release);
        self.master.store(false, Ordering::Release);
        if std::mem::take(&mut state.office.held) {
            tracing::info!(target: "consensus", group = self.id.0, "this node is master no longer");
        }
        // A candidate may lead again with nobody in between: it keeps what it has not proposed.
        if role != Role::Candidate || state.queue.has_in_flight(state.replica.decided()) {
            state.end_term(&self.applied);
        }
    }

    /// What the lease allows, after every step.
    pub(super) fn publish_lease(&self, state: &GroupState) {
        let until = state.replica.lease_until().filter(|_| state.office.held);
        self.lease_until.store(until.map_or(0, |until| until.0), Ordering::Release);
    }

    /// Returns true if this node may answer a consistent read from what it has applied. True before
    /// the read *and* after it: then the answer is as good as one of that moment.
    #[inline]
    pub fn readable(&self) -> bool {
        if flawed(Flaw::ReadWithoutLease) || flawed(Flaw::MasterWithoutLease) {
            return self.master.load(Ordering::Acquire);
        }
        match self.lease_until.load(Ordering::Acquire) {
            u64::MAX => true,
            // A part of a millisecond counts as a whole one that has passed.
            until => world::milliseconds() + 1 < until,
        }
    }

    /// The group's time now, as far as this node keeps it.
    pub fn now(&self) -> u64 {
        self.state().queue.clock.now()
    }

    /// The group's members, as they are in force.
    pub fn configuration(&self) -> Configuration {
        self.state().replica.configuration().clone()
    }

    /// Returns true if this group has one member.
    pub fn is_alone(&self) -> bool {
        self.state().is_alone()
    }

    /// How far each member has come; only the master knows of the others.
    pub fn progress(&self) -> Vec<Progress> {
        self.state().replica.progress()
    }

    /// Has other members agree from here on, of which so many save a value (none: a majority): a
    /// stop-sign behind everything taken so far.
    pub fn reconfigure(&self, members: Vec<Member>, quorum: Option<u8>) -> Result<Ticket> {
        let mut guard = self.state();
        let state = &mut *guard;
        self.admit(state)?;
        if state.queue.has_sign() || state.replica.reconfigures() {
            let text = "the group's members are being changed already: repeat when that is done";
            return Err(Error::new(Reason::Changed, text));
        }
        let id = base::ConfigurationId(state.replica.configuration().id().0 + 1);
        let configuration = Configuration::new(id, members)
            .and_then(|configuration| configuration.with_quorum(quorum))
            .map_err(|error| Error::new(Reason::Malformed, error.to_string()))?;
        let index = state.queue.lay_out_sign(&state.replica, configuration);
        self.driver.wake();
        Ok(Ticket { group: self.id, index, term: self.applied.term() })
    }

    /// Gives mastership to another voter, once it has everything.
    pub fn hand_over(&self, to: NodeId) -> Result<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.office.refused = None;
        let now = Millis(world::milliseconds());
        self.step(state, Event::HandOver { to, now }, &[]);
        self.driver.wake();
        match state.office.refused.take() {
            Some(Refusal::NotMaster { master }) => Err(not_master(master)),
            Some(Refusal::Unheard) => {
                let text = format!("node {to} does not answer now: nothing was done, try again");
                Err(Error::new(Refusal::Unheard.reason(), text))
            }
            Some(refusal) => {
                let text = format!("node {to} can't become master of group {}", self.id);
                Err(Error::new(refusal.reason(), text))
            }
            None => Ok(()),
        }
    }

    /// Waits until a ticket's value is decided and applied here.
    pub async fn settled(&self, ticket: Ticket) -> Result<()> {
        self.applied.settled(ticket.term, ticket.index).await
    }

    /// Resolves when another node is known to be master.
    pub async fn led_elsewhere(&self) {
        let mut standing = self.standing();
        let other = |master: NodeId| master != self.shared.node;
        // The sender lives as long as the group.
        let _ = standing.wait_for(|now| now.dismissed || now.master.is_some_and(other)).await;
    }
}
