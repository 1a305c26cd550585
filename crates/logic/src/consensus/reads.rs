//! Reads: the index that each must reflect, and the condition under which a master may answer.

use super::effect::{Effect, Refusal, RefusedCall};
use super::event::ReadToken;
use super::master::Master;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{LogIndex, Millis};
use std::collections::VecDeque;

/// Most reads that wait for a majority at once.
const READS_WAITING_MAX: usize = 65_536;

/// Read that waits until a majority confirms that this replica was still master when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WaitingRead {
    token: ReadToken,
    /// Number of the heartbeat that must be answered: the first sent after the read arrived.
    beat: u64,
    /// Index that the answer must reflect.
    index: LogIndex,
}

/// Waiting reads of one reign, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReadQueue {
    waiting: VecDeque<WaitingRead>,
}

impl ReadQueue {
    /// Answers the reads that waited for this heartbeat, or for an earlier one.
    fn answer(&mut self, agreed: u64, effects: &mut Vec<Effect>) {
        while let Some(WaitingRead { token, index, .. }) =
            self.waiting.pop_front_if(|read| read.beat <= agreed)
        {
            effects.push(Effect::ReadAt { token, index });
        }
    }

    /// Refuses all reads: the reign is over.
    pub(super) fn refuse(self, effects: &mut Vec<Effect>) {
        for WaitingRead { token, .. } in self.waiting {
            let reason = Refusal::NotMaster { master: None };
            effects.push(Effect::Refused { call: RefusedCall::Read(token), reason });
        }
    }
}

/// Methods that span the master's lease, its heartbeats, and the decided index of the log.
impl Replica {
    /// Handles a read. The entries decided now may answer it if no other master can have decided
    /// more: while the lease is valid (the node checks that again after reading, with a second
    /// `Read` if it took long), or once a majority answers a heartbeat sent after the read arrived
    /// (Ongaro's thesis, 6.4).
    pub(super) fn read(&mut self, token: ReadToken, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        let index = self.log.decided;
        let master = match self.role.master() {
            Some(master) if broken(Rule::InheritedFirst) => Ok(master),
            _ => self.role.leading_master(),
        };
        let refusal = match master {
            Err(reason) => reason,
            Ok(master) if self.may_answer_by_lease(master) => {
                return effects.push(Effect::ReadAt { token, index });
            }
            Ok(master) if master.reads.waiting.len() >= READS_WAITING_MAX => Refusal::Full,
            Ok(_) => return self.confirm_with_majority(token, index, effects),
        };
        effects.push(Effect::Refused { call: RefusedCall::Read(token), reason: refusal });
    }

    /// Returns true if a read may be answered under the lease. It may not after a stop-sign,
    /// because a leader of the next configuration need not wait for a lease of this one.
    fn may_answer_by_lease(&self, master: &Master) -> bool {
        let is_sole_voter = self.membership.is_sole_voter(self.host.node);
        let is_usable = self.host.clock.allows_reads || is_sole_voter;
        let is_valid = is_usable && master.heartbeats.lease.is_valid(self.host.now);
        (is_valid && self.log.signs.is_empty()) || broken(Rule::ReadConfirmedByMajority)
    }

    fn confirm_with_majority(
        &mut self,
        token: ReadToken,
        index: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        let Some(master) = self.role.master_mut() else { return };
        // The next heartbeat, not one in flight: that may have been granted before another master
        // was elected, and decided more, before this read arrived.
        let beat = self.progress.beat + u64::from(!broken(Rule::ReadConfirmedAfterArrival));
        let was_empty = master.reads.waiting.is_empty();
        master.reads.waiting.push_back(WaitingRead { token, beat, index });
        // Reads that arrive while one round is in progress share the next.
        if was_empty {
            self.send_heartbeat(effects);
        }
    }

    /// Answers the reads that a majority has confirmed.
    pub(super) fn answer_reads(&mut self, effects: &mut Vec<Effect>) {
        let Some(master) = self.role.master_mut() else { return };
        master.reads.answer(master.heartbeats.agreed(), effects);
    }

    /// Begins the next round, if reads arrived while the last was in progress.
    pub(super) fn begin_read_round(&mut self, effects: &mut Vec<Effect>) {
        let Some(master) = self.role.master() else { return };
        let next = master.reads.waiting.front().map(|read| read.beat);
        if next.is_some_and(|beat| beat > self.progress.beat) {
            self.send_heartbeat(effects);
        }
    }
}
