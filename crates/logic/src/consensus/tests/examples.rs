//! Examples: configurations, leases, what may be restored, what a replay refuses.

use super::machine::NODE;
use crate::consensus::lease::Lease;
use crate::consensus::{
    Accepted, Body, Configuration, ConfigurationError, Effect, Event, LeaseClock, MEMBERS_MAX,
    Member, Message, Replay, ReplayError, Replica, RestoreError, Restored, Role, VOTERS_MAX,
    ValueHandle,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};

fn member(node: u64, part: Part) -> Member {
    Member { node: NodeId(node), part }
}

fn configuration(members: &[Member]) -> Result<Configuration, ConfigurationError> {
    Configuration::new(ConfigurationId(1), members.to_vec())
}

fn ballot(round: u64) -> Ballot {
    Ballot { round, node: NODE }
}

fn remembered(configuration: Configuration) -> Restored {
    Restored {
        node: NODE,
        configuration,
        base: LogIndex(0),
        signs: Vec::new(),
        promised: ballot(2),
        accepted_ballot: ballot(2),
        last: LogIndex(5),
        decided: LogIndex(5),
        tear: None,
        lease: LeaseClock::default(),
    }
}

#[test]
fn a_configuration_knows_who_votes_and_who_may_lead() {
    let mixed = [member(3, Part::Witness), member(1, Part::Voter), member(2, Part::Learner)];
    let mixed = configuration(&mixed).expect("sound");
    assert_eq!(mixed.voters().collect::<Vec<_>>(), [NodeId(1), NodeId(3)]);
    assert_eq!(mixed.part(NodeId(2)), Some(Part::Learner));
    assert_eq!(mixed.part(NodeId(4)), None);
    assert_eq!(mixed.members().len(), 3);
    assert_eq!(mixed.id(), ConfigurationId(1));
}

#[test]
fn a_configuration_that_could_not_work_is_none() {
    assert_eq!(configuration(&[]), Err(ConfigurationError::NoLeader));
    let witness = [member(1, Part::Witness), member(2, Part::Learner)];
    assert_eq!(configuration(&witness), Err(ConfigurationError::NoLeader));
    let twice = [member(1, Part::Voter), member(1, Part::Learner)];
    assert_eq!(configuration(&twice), Err(ConfigurationError::Twice(NodeId(1))));
    assert_eq!(configuration(&[member(0, Part::Voter)]), Err(ConfigurationError::NodeZero));
    let many = |count: usize, part| -> Vec<Member> {
        let rest = (2..=count as u64).map(|node| member(node, part));
        rest.chain([member(1, Part::Voter)]).collect()
    };
    assert!(configuration(&many(VOTERS_MAX, Part::Voter)).is_ok());
    let crowd = configuration(&many(VOTERS_MAX + 1, Part::Witness));
    assert_eq!(crowd, Err(ConfigurationError::TooManyVoters(VOTERS_MAX + 1)));
    assert!(configuration(&many(MEMBERS_MAX, Part::Learner)).is_ok());
    let crowd = configuration(&many(MEMBERS_MAX + 1, Part::Learner));
    assert_eq!(crowd, Err(ConfigurationError::TooManyMembers(MEMBERS_MAX + 1)));
}

#[test]
fn a_memory_that_contradicts_itself_is_refused() {
    let alone = Configuration::alone(ConfigurationId(1), NODE).expect("sound");
    assert!(Replica::restore(remembered(alone.clone())).is_ok());
    let mut ahead = remembered(alone.clone());
    ahead.decided = LogIndex(6);
    assert!(matches!(Replica::restore(ahead), Err(RestoreError::Contradiction(_))));
    let mut signed = remembered(alone.clone());
    signed.signs = vec![(LogIndex(5), alone.clone())];
    assert!(matches!(Replica::restore(signed), Err(RestoreError::Contradiction(_))));
    let mut unpromised = remembered(alone);
    unpromised.accepted_ballot = ballot(3);
    assert!(matches!(Replica::restore(unpromised), Err(RestoreError::Contradiction(_))));
}

#[test]
fn time_never_runs_backwards() {
    let alone = Configuration::alone(ConfigurationId(1), NODE).expect("sound");
    let mut replica = Replica::restore(remembered(alone)).expect("sound");
    let mut effects = Vec::new();
    replica.step(Event::Started { now: Millis(100) }, &mut effects);
    let before = replica.clone();
    replica.step(Event::Tick { now: Millis(40) }, &mut effects);
    assert_eq!(replica, before, "an event that overtook another brings no older time");
    replica.step(Event::Tick { now: Millis(101) }, &mut effects);
    assert_ne!(replica, before);
}

#[test]
fn a_lease_ends_early_on_the_masters_clock_and_needs_a_majority() {
    let clock = LeaseClock { length: Millis(1_000), drift_ppm: 10_000, reads: true };
    let mut lease = Lease::new(clock, (1..=3).map(NodeId), 2);
    lease.grant(NodeId(1), Millis(100));
    assert!(!lease.holds(Millis(100)), "one of three is no majority");
    lease.grant(NodeId(2), Millis(50));
    assert!(lease.holds(Millis(50 + 989)), "990 ms from when the second heartbeat was sent");
    assert!(!lease.holds(Millis(50 + 990)));
    lease.grant(NodeId(2), Millis(20));
    assert!(lease.holds(Millis(50 + 989)), "an older grant takes nothing back");
}

#[test]
fn a_lease_can_be_as_long_as_time_but_never_longer_than_asked() {
    let forever = LeaseClock { length: Millis(u64::MAX), drift_ppm: 0, reads: true };
    let mut lease = Lease::new(forever, [NODE].into_iter(), 1);
    lease.grant(NODE, Millis(5));
    assert!(lease.holds(Millis(u64::MAX - 1)));
    let drifting = LeaseClock { length: Millis(1_000), drift_ppm: 2_000_000, reads: true };
    let mut lease = Lease::new(drifting, [NODE].into_iter(), 1);
    lease.grant(NODE, Millis(5));
    assert!(!lease.holds(Millis(5)), "clocks that drift without bound leave no lease");
}

#[test]
fn a_replay_gives_out_decided_values_early_and_keeps_the_tail() {
    let mut replay = Replay::new(LogIndex(2));
    replay.promised(ballot(1));
    replay.adopted(ballot(1), LogIndex(0), LogIndex(0)).expect("sound");
    for index in 1..=6 {
        let decided = LogIndex(index - 1).min(LogIndex(4));
        replay.accepted(LogIndex(index), ballot(1), decided, index * 10).expect("sound");
    }
    assert_eq!(replay.next_decided(), Some((LogIndex(3), 30)), "1 and 2 are in the store");
    assert_eq!(replay.next_decided(), Some((LogIndex(4), 40)));
    assert_eq!(replay.next_decided(), None, "5 and 6 are not known to be decided");
    let found = replay.finish().expect("sound");
    assert_eq!((found.decided, found.last), (LogIndex(4), LogIndex(6)));
    assert_eq!(found.tail.into_values().collect::<Vec<_>>(), [50, 60]);
}

#[test]
fn a_log_behind_its_store_is_no_damage() {
    // Entries that were applied before they were synced (policy `interval`) may be in the store
    // only.
    let mut replay = Replay::new(LogIndex(9));
    replay.accepted(LogIndex(7), ballot(1), LogIndex(6), ()).expect("sound");
    let found = replay.finish().expect("sound");
    assert_eq!((found.decided, found.last), (LogIndex(9), LogIndex(9)));
    assert_eq!(found.promised, ballot(1), "who accepts has promised");
}

#[test]
fn a_replay_refuses_what_no_replica_writes() {
    let fell = |replay: &mut Replay<()>| replay.adopted(ballot(1), LogIndex(3), LogIndex(3));
    let mut replay = Replay::new(LogIndex(0));
    replay.accepted(LogIndex(1), ballot(2), LogIndex(0), ()).expect("sound");
    let refused = fell(&mut replay).expect_err("unsound");
    assert_eq!(refused, ReplayError::BallotFell { found: ballot(1), before: ballot(2) });

    let mut replay = Replay::new(LogIndex(0));
    replay.accepted(LogIndex(1), ballot(1), LogIndex(0), ()).expect("sound");
    replay.decided(LogIndex(1));
    let refused = replay.adopted(ballot(2), LogIndex(0), LogIndex(0)).expect_err("unsound");
    let (kept, decided) = (LogIndex(0), LogIndex(1));
    assert_eq!(refused, ReplayError::DecidedVoided { kept, decided });

    let mut replay = Replay::new(LogIndex(4));
    replay.accepted(LogIndex(5), ballot(1), LogIndex(4), ()).expect("sound");
    replay.accepted(LogIndex(7), ballot(1), LogIndex(4), ()).expect("sound");
    assert_eq!(replay.finish(), Err(ReplayError::Missing(LogIndex(6))));

    let mut replay = Replay::<()>::new(LogIndex(4));
    replay.promised(ballot(1));
    replay.decided(LogIndex(5));
    assert_eq!(replay.finish(), Err(ReplayError::Missing(LogIndex(5))));

    // A log was adopted of which not all was staged.
    for staged in [&[2_u64, 4][..], &[2, 3], &[3, 4]] {
        let mut replay = Replay::new(LogIndex(0));
        replay.accepted(LogIndex(1), ballot(1), LogIndex(0), ()).expect("sound");
        staged.iter().for_each(|index| replay.staged(LogIndex(*index), ballot(2), ()));
        let refused = replay.adopted(ballot(2), LogIndex(1), LogIndex(4)).expect_err("unsound");
        let missing = (2..).find(|index| !staged.contains(index)).map(LogIndex);
        assert_eq!(Some(refused), missing.map(ReplayError::Missing));
    }

    assert_eq!(Replay::<()>::new(LogIndex(4)).finish(), Err(ReplayError::NoPromise));
    assert!(Replay::<()>::new(LogIndex(0)).finish().is_ok(), "a first life remembers nothing");
}

/// Others led, and truncated the log, while a master's machine stood still.
#[test]
fn a_master_that_gets_a_snapshot_leads_no_more() {
    let alone = Configuration::alone(ConfigurationId(1), NODE).expect("sound");
    let mut replica = Replica::restore(remembered(alone.clone())).expect("sound");
    let mut step = |event| {
        let mut effects = Vec::new();
        replica.step(event, &mut effects);
        effects
    };
    let effects = step(Event::Started { now: Millis(0) });
    let ballot = effects.iter().find_map(|effect| match effect {
        Effect::SavePromise { ballot } => Some(*ballot),
        _ => None,
    });
    let ballot = ballot.expect("it stands");
    step(Event::PromiseSaved { ballot });
    step(Event::Saved { ballot, upto: LogIndex(5) });
    step(Event::Propose { value: ValueHandle { bytes: 1, updates: 1 } });
    let upto = LogIndex(8);
    let effects = step(Event::Installed { upto, configuration: (LogIndex(0), alone) });
    let follows = Effect::Role { role: Role::Follower, ballot, master: None };
    assert!(effects.contains(&follows), "{effects:?}");
    assert!(effects.contains(&Effect::Decided { upto }), "{effects:?}");
}

/// Returns the replica's answers to this message of a later configuration.
fn hears(replica: &mut Replica, body: Body, now: u64) -> Vec<Body> {
    let message = Message { configuration: ConfigurationId(7), ballot: Ballot::default(), body };
    let (from, now) = (NodeId(9), Millis(now));
    let mut effects = Vec::new();
    replica.step(Event::Received { from, message, signs: Vec::new(), now }, &mut effects);
    let said = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { message, .. } => Some(message.body),
        _ => None,
    });
    said.collect()
}

/// A new member used to ask again whenever it heard of a later configuration, and each answer made
/// it ask on: within seconds the same entries came ten times over, and their sender had no time
/// left to lead.
#[test]
fn who_learns_what_is_over_asks_for_each_part_once() {
    let joiner = configuration(&[member(9, Part::Voter)]).expect("sound");
    let zero = LogIndex(0);
    let mut replica = Replica::restore(Restored {
        promised: Ballot::default(),
        accepted_ballot: Ballot::default(),
        last: zero,
        decided: zero,
        ..remembered(joiner)
    })
    .expect("sound");
    replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
    let straggling = |decided| vec![Body::Straggling { decided: LogIndex(decided) }];
    let beat = || Body::Outdated;
    let part = |after: u64, end| Body::Learn {
        after: LogIndex(after),
        upto: LogIndex(after + 10),
        end: LogIndex(end),
    };
    assert_eq!(hears(&mut replica, beat(), 1_000), straggling(0));
    assert_eq!(hears(&mut replica, part(0, 40), 1_010), straggling(10));
    // Whatever else arrives while the next part is in flight, it is not requested twice.
    assert_eq!(hears(&mut replica, beat(), 1_070), vec![]);
    assert_eq!(hears(&mut replica, part(0, 40), 1_080), vec![]);
    // The part seems lost: it is requested again, without what is here already.
    assert_eq!(hears(&mut replica, beat(), 1_700), straggling(10));
    assert_eq!(hears(&mut replica, part(10, 40), 1_710), straggling(20));
    assert_eq!(hears(&mut replica, part(10, 40), 1_711), vec![]);
    // The group went on: what is here stays, and more is to come.
    assert_eq!(hears(&mut replica, part(20, 50), 1_720), straggling(30));
    assert_eq!(hears(&mut replica, part(30, 40), 1_730), straggling(40));
    assert_eq!(hears(&mut replica, part(40, 50), 1_740), vec![]);
}

/// Entries of an ended configuration are decided. Those that its last master sends to a member that
/// has promised it, and has not adopted its log yet, need not be, and must not be mixed with them
/// (seed 57432 of the cluster).
#[test]
fn what_a_master_sends_is_never_taken_for_what_is_learnt() {
    let master = NodeId(9);
    let promised = Ballot { round: 3, node: master };
    let both = configuration(&[member(9, Part::Voter), member(1, Part::Voter)]).expect("sound");
    let accepted_ballot = Ballot { round: 1, node: master };
    let remembered = Restored { promised, accepted_ballot, ..remembered(both) };
    let says = |replica: &mut Replica, body, now| {
        let message = Message { configuration: ConfigurationId(1), ballot: promised, body };
        let (signs, now, mut effects) = (Vec::new(), Millis(now), Vec::new());
        replica.step(Event::Received { from: master, message, signs, now }, &mut effects);
        effects
    };
    let (from, upto) = (LogIndex(5), LogIndex(10));
    let accept = Body::Accept { after: from, upto, decided: from };
    let brings = |end| Body::Learn { after: from, upto: LogIndex(end), end: upto };
    for end in [5, 7] {
        let mut replica = Replica::restore(remembered.clone()).expect("sound");
        replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
        hears(&mut replica, brings(end), 1_000);
        // The message before these was lost.
        let effects = says(&mut replica, accept, 1_001);
        let stages = |effect: &Effect| matches!(effect, Effect::Stage { .. });
        assert!(!effects.iter().any(stages), "{effects:?}");
        says(&mut replica, Body::Adopt { from, upto }, 1_002);
        let effects = says(&mut replica, accept, 1_003);
        let adopted = effects.iter().find_map(|effect| match effect {
            Effect::Adopt { ballot, .. } => Some(*ballot),
            _ => None,
        });
        assert_eq!(adopted, Some(promised), "{effects:?}");
    }
}

/// A log is being adopted when a record of the previous one reaches the disk, and shows that more
/// of that one is decided: a decided entry stays, and the master begins anew after it (seed 37000
/// of the node).
#[test]
fn what_is_decided_late_is_not_replaced_by_what_is_being_adopted() {
    let both = configuration(&[member(9, Part::Voter), member(1, Part::Voter)]).expect("sound");
    let master = |round| Ballot { round, node: NodeId(9) };
    let (first, second) = (master(1), master(3));
    let remembered = Restored { promised: first, accepted_ballot: first, ..remembered(both) };
    let mut replica = Replica::restore(remembered).expect("sound");
    let mut step = |event| {
        let mut effects = Vec::new();
        replica.step(event, &mut effects);
        effects
    };
    let says = |ballot, body| Event::Received {
        from: NodeId(9),
        message: Message { configuration: ConfigurationId(1), ballot, body },
        signs: Vec::new(),
        now: Millis(1_000),
    };
    let accept = |after, upto, decided| {
        let [after, upto, decided] = [after, upto, decided].map(LogIndex);
        Body::Accept { after, upto, decided }
    };
    step(Event::Started { now: Millis(0) });
    step(says(first, accept(5, 7, 5)));
    step(says(first, Body::Decide { upto: LogIndex(6) }));
    step(says(second, Body::Prepare { released: Ballot::default() }));
    step(Event::PromiseSaved { ballot: second });
    step(says(second, Body::Adopt { from: LogIndex(5), upto: LogIndex(8) }));
    let effects = step(Event::Saved { ballot: first, upto: LogIndex(7) });
    assert!(effects.contains(&Effect::Decided { upto: LogIndex(6) }), "{effects:?}");
    let tells = |log: Accepted| log.decided == LogIndex(6) && log.last == LogIndex(7);
    let told = |effect: &Effect| match effect {
        Effect::Send { message, .. } => match message.body {
            Body::Promise { log } => tells(log),
            _ => false,
        },
        _ => false,
    };
    assert!(effects.iter().any(told), "its master hears of it: {effects:?}");
    // Entries sent before that have no place any more.
    let effects = step(says(second, accept(5, 8, 5)));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Adopt { .. })), "{effects:?}");
    step(says(second, Body::Adopt { from: LogIndex(6), upto: LogIndex(8) }));
    let effects = step(says(second, accept(6, 8, 6)));
    let (from, upto) = (LogIndex(6), LogIndex(8));
    assert!(effects.contains(&Effect::Adopt { ballot: second, from, upto }), "{effects:?}");
}

#[test]
fn who_has_nothing_gets_rows_instead_of_a_long_history() {
    let both = configuration(&[member(3, Part::Voter), member(9, Part::Voter)]).expect("sound");
    for (base, decided, wanted) in [
        (5_000, 0, Body::Behind),
        (5_000, 7, Body::Learn { after: LogIndex(7), upto: LogIndex(71), end: LogIndex(5_000) }),
        (60, 0, Body::Learn { after: LogIndex(0), upto: LogIndex(60), end: LogIndex(60) }),
    ] {
        let base = LogIndex(base);
        let mut replica = Replica::restore(Restored {
            node: NodeId(3),
            base,
            last: base,
            decided: base,
            promised: Ballot::default(),
            accepted_ballot: Ballot::default(),
            ..remembered(both.clone())
        })
        .expect("sound");
        replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
        let body = Body::Straggling { decided: LogIndex(decided) };
        let configuration = ConfigurationId(0);
        let message = Message { configuration, ballot: Ballot::default(), body };
        let (from, now) = (NodeId(9), Millis(5_000));
        let mut effects = Vec::new();
        replica.step(Event::Received { from, message, signs: Vec::new(), now }, &mut effects);
        let said = effects.iter().find_map(|effect| match effect {
            Effect::Send { message, .. } => Some(message.body),
            _ => None,
        });
        assert_eq!(said, Some(wanted));
    }
}
