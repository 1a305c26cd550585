//! Members of a group and their parts: queries, changes, and transfer of mastership.

use super::group::Group;
use super::mastership::not_master;
use base::{Error, Millis, NodeId, Reason, Result};
use logic::consensus::{Configuration, Event, Member, Progress, Refusal};
use runtime::submit::Ticket;
use runtime::world;

impl Group {
    /// The group's members, as they are in force.
    pub fn configuration(&self) -> Configuration {
        self.state().replica.configuration().clone()
    }

    /// Returns true if this group has one member.
    pub fn is_alone(&self) -> bool {
        self.state().is_alone()
    }

    /// Progress of each member; only the master knows it of the others.
    pub fn progress(&self) -> Vec<Progress> {
        self.state().replica.progress()
    }

    /// Proposes a stop-sign behind everything taken so far, with the next members and their save
    /// quorum. `None`: a majority. Returns the ticket of the stop-sign. `Changed`: another change
    /// is under way.
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
        Ok(Ticket { group: self.id, index, epoch: self.applied.epoch() })
    }

    /// Gives mastership to another voter, once it has everything.
    pub fn hand_over(&self, to: NodeId) -> Result<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.mastership.refused = None;
        let now = Millis(world::milliseconds());
        self.step(state, Event::HandOver { to, now }, &[]);
        self.driver.wake();
        match state.mastership.refused.take() {
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
}
