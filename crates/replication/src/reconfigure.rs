//! Members of a group and their parts: queries, changes, and transfer of mastership.

use super::group::Group;
use super::mastership::not_master_error;
use base::{Error, Millis, NodeId, Reason, Result};
use logic::consensus::{Configuration, Event, Member, Progress, Refusal};
use runtime::submit::Ticket;
use runtime::world;

impl Group {
    /// Returns the group's configuration in force.
    pub fn configuration(&self) -> Configuration {
        self.state().replica.configuration().clone()
    }

    /// Returns true if this group has one member.
    pub fn is_sole_member(&self) -> bool {
        self.state().is_alone()
    }

    /// Returns the progress of each member. Only the master has it for the other members.
    pub fn progress(&self) -> Vec<Progress> {
        self.state().replica.progress()
    }

    /// Proposes a stop-sign behind all accepted updates, with the next members and their save
    /// quorum. `None`: a majority. Returns the ticket of the stop-sign. `Changed`: another change
    /// is under way.
    pub fn reconfigure(&self, members: Vec<Member>, quorum: Option<u8>) -> Result<Ticket> {
        let mut guard = self.state();
        let state = &mut *guard;
        self.admit(state)?;
        if state.queue.has_sign() || state.replica.is_reconfiguring() {
            let text = "the group's members are being changed already: try again when that change \
                        is complete";
            return Err(Error::new(Reason::Changed, text));
        }
        let id = base::ConfigurationId(state.replica.configuration().id().0 + 1);
        let configuration = Configuration::new(id, members)
            .and_then(|configuration| configuration.with_quorum(quorum))
            .map_err(|error| Error::new(Reason::Malformed, error.to_string()))?;
        let index = state.queue.append_sign(&state.replica, configuration);
        self.driver.wake();
        Ok(Ticket { group: self.id, index, epoch: self.applied.epoch() })
    }

    /// Hands mastership over to another voter, once it has all entries.
    pub fn hand_over(&self, to: NodeId) -> Result<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.mastership.refusal = None;
        let now = Millis(world::milliseconds());
        self.step(state, Event::HandOver { to, now }, &[]);
        self.driver.wake();
        match state.mastership.refusal.take() {
            Some(Refusal::NotMaster { master }) => Err(not_master_error(master)),
            Some(Refusal::Unresponsive) => {
                let text = format!("node {to} does not answer: nothing was done, try again");
                Err(Error::new(Refusal::Unresponsive.reason(), text))
            }
            Some(refusal) => {
                let text = format!("node {to} can't become master of group {}", self.id);
                Err(Error::new(refusal.reason(), text))
            }
            None => Ok(()),
        }
    }
}
