//! Tears of a log's tail: which report of a master mends one.

use super::machine::NODE;
use crate::consensus::rules::Rule;
use crate::consensus::tear::Tear;
use crate::consensus::{
    Body, Configuration, Event, LeaseClock, Member, Message, Replica, RestoredState,
};
use base::mutants::MutantList;
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};

const MASTER: NodeId = NodeId(9);
const BALLOT: Ballot = Ballot { round: 2, node: MASTER };
/// The log was torn at this position; before, it was torn at a lower one.
const TEAR: Tear = Tear(700);

/// A follower of `MASTER` whose log was torn at `TEAR`, behind index 5.
fn torn() -> Replica {
    let members = [NODE, MASTER].map(|node| Member { node, part: Part::Voter });
    let configuration = Configuration::new(ConfigurationId(0), members.to_vec()).expect("sound");
    let mut replica = Replica::restore(RestoredState {
        node: NODE,
        configuration,
        base: LogIndex(0),
        signs: Vec::new(),
        promised: BALLOT,
        accepted_ballot: BALLOT,
        last: LogIndex(5),
        decided: LogIndex(5),
        tear: Some(TEAR),
        lease: LeaseClock::default(),
    })
    .expect("sound");
    replica.step(Event::Started { now: Millis(100) }, &mut Vec::new());
    replica
}

/// Returns true if a report that a log which lacks nothing ends at 5, given for `tear`, mends the
/// log.
fn mends(tear: Tear) -> bool {
    let mut replica = torn();
    let body = Body::LogEnd { tear, last: LogIndex(5) };
    let message = Message { configuration: ConfigurationId(0), ballot: BALLOT, body };
    let (signs, now) = (Vec::new(), Millis(200));
    replica.step(Event::Received { from: MASTER, message, signs, now }, &mut Vec::new());
    replica.tear().is_none()
}

/// The earlier report does not cover entries that were accepted after it and torn off since.
#[test]
fn level_report_for_earlier_tear_does_not_mend_log() {
    assert_eq!(torn().tear(), Some(TEAR));
    assert!(mends(TEAR));
    assert!(!mends(Tear(300)));
    Rule::LogEndOfThisTear.while_active(|| {
        assert!(mends(Tear(300)), "nothing but the rule forbids it");
    });
}
