//! Examples: configurations, what may be restored, what a replay refuses.

use super::machine::NODE;
use crate::consensus::{
    Body, Configuration, ConfigurationError, Effect, EntrySize, Event, LeaseClock, LogSummary,
    MEMBERS_MAX, Member, Message, Replay, ReplayError, Replica, RestoreError, RestoredState, Role,
    VOTERS_MAX,
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

fn restored(configuration: Configuration) -> RestoredState {
    RestoredState {
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
fn configuration_reports_voters_and_member_parts() {
    let mixed = [member(3, Part::Witness), member(1, Part::Voter), member(2, Part::Learner)];
    let mixed = configuration(&mixed).expect("sound");
    assert_eq!(mixed.voters().collect::<Vec<_>>(), [NodeId(1), NodeId(3)]);
    assert_eq!(mixed.part(NodeId(2)), Some(Part::Learner));
    assert_eq!(mixed.part(NodeId(4)), None);
    assert_eq!(mixed.members().len(), 3);
    assert_eq!(mixed.id(), ConfigurationId(1));
}

#[test]
fn invalid_configuration_is_rejected() {
    assert_eq!(configuration(&[]), Err(ConfigurationError::NoLeader));
    let witness = [member(1, Part::Witness), member(2, Part::Learner)];
    assert_eq!(configuration(&witness), Err(ConfigurationError::NoLeader));
    let twice = [member(1, Part::Voter), member(1, Part::Learner)];
    assert_eq!(configuration(&twice), Err(ConfigurationError::Duplicate(NodeId(1))));
    assert_eq!(configuration(&[member(0, Part::Voter)]), Err(ConfigurationError::NodeZero));
    let many = |count: usize, part| -> Vec<Member> {
        let rest = (2..=count as u64).map(|node| member(node, part));
        rest.chain([member(1, Part::Voter)]).collect()
    };
    assert!(configuration(&many(VOTERS_MAX, Part::Voter)).is_ok());
    let result = configuration(&many(VOTERS_MAX + 1, Part::Witness));
    assert_eq!(result, Err(ConfigurationError::TooManyVoters(VOTERS_MAX + 1)));
    assert!(configuration(&many(MEMBERS_MAX, Part::Learner)).is_ok());
    let result = configuration(&many(MEMBERS_MAX + 1, Part::Learner));
    assert_eq!(result, Err(ConfigurationError::TooManyMembers(MEMBERS_MAX + 1)));
}

#[test]
fn contradictory_restored_state_is_rejected() {
    let sole_member = Configuration::single_member(ConfigurationId(1), NODE).expect("sound");
    assert!(Replica::restore(restored(sole_member.clone())).is_ok());
    let mut ahead = restored(sole_member.clone());
    ahead.decided = LogIndex(6);
    assert!(matches!(Replica::restore(ahead), Err(RestoreError::Contradiction(_))));
    let mut with_sign = restored(sole_member.clone());
    with_sign.signs = vec![(LogIndex(5), sole_member.clone())];
    assert!(matches!(Replica::restore(with_sign), Err(RestoreError::Contradiction(_))));
    let mut unpromised = restored(sole_member);
    unpromised.accepted_ballot = ballot(3);
    assert!(matches!(Replica::restore(unpromised), Err(RestoreError::Contradiction(_))));
}

#[test]
fn tick_with_older_time_changes_nothing() {
    let sole_member = Configuration::single_member(ConfigurationId(1), NODE).expect("sound");
    let mut replica = Replica::restore(restored(sole_member)).expect("sound");
    let mut effects = Vec::new();
    replica.step(Event::Started { now: Millis(100) }, &mut effects);
    let before = replica.clone();
    replica.step(Event::Tick { now: Millis(40) }, &mut effects);
    assert_eq!(replica, before, "an event that overtook another brings no older time");
    replica.step(Event::Tick { now: Millis(101) }, &mut effects);
    assert_ne!(replica, before);
}

#[test]
fn replay_yields_decided_values_and_keeps_undecided_tail() {
    let mut replay = Replay::new(LogIndex(2));
    replay.replay_promise(ballot(1));
    replay.replay_adoption(ballot(1), LogIndex(0), LogIndex(0)).expect("sound");
    for index in 1..=6 {
        let decided = LogIndex(index - 1).min(LogIndex(4));
        replay.replay_accepted(LogIndex(index), ballot(1), decided, index * 10).expect("sound");
    }
    assert_eq!(replay.next_decided(), Some((LogIndex(3), 30)), "1 and 2 are in the store");
    assert_eq!(replay.next_decided(), Some((LogIndex(4), 40)));
    assert_eq!(replay.next_decided(), None, "5 and 6 are not known to be decided");
    let found = replay.finish().expect("sound");
    assert_eq!((found.decided, found.last), (LogIndex(4), LogIndex(6)));
    assert_eq!(found.tail.into_values().collect::<Vec<_>>(), [50, 60]);
}

#[test]
fn log_behind_store_replays_without_error() {
    // Entries that were applied before they were synced (policy `interval`) may be in the store
    // only.
    let mut replay = Replay::new(LogIndex(9));
    replay.replay_accepted(LogIndex(7), ballot(1), LogIndex(6), ()).expect("sound");
    let found = replay.finish().expect("sound");
    assert_eq!((found.decided, found.last), (LogIndex(9), LogIndex(9)));
    assert_eq!(found.promised, ballot(1), "who accepts has promised");
}

#[test]
fn replay_rejects_inconsistent_records() {
    let fell =
        |replay: &mut Replay<()>| replay.replay_adoption(ballot(1), LogIndex(3), LogIndex(3));
    let mut replay = Replay::new(LogIndex(0));
    replay.replay_accepted(LogIndex(1), ballot(2), LogIndex(0), ()).expect("sound");
    let refused = fell(&mut replay).expect_err("unsound");
    assert_eq!(refused, ReplayError::BallotDecreased { found: ballot(1), before: ballot(2) });

    let mut replay = Replay::new(LogIndex(0));
    replay.replay_accepted(LogIndex(1), ballot(1), LogIndex(0), ()).expect("sound");
    replay.replay_decided(LogIndex(1));
    let refused = replay.replay_adoption(ballot(2), LogIndex(0), LogIndex(0)).expect_err("unsound");
    let (kept, decided) = (LogIndex(0), LogIndex(1));
    assert_eq!(refused, ReplayError::DecidedVoided { kept, decided });

    let mut replay = Replay::new(LogIndex(4));
    replay.replay_accepted(LogIndex(5), ballot(1), LogIndex(4), ()).expect("sound");
    replay.replay_accepted(LogIndex(7), ballot(1), LogIndex(4), ()).expect("sound");
    assert_eq!(replay.finish(), Err(ReplayError::Missing(LogIndex(6))));

    let mut replay = Replay::<()>::new(LogIndex(4));
    replay.replay_promise(ballot(1));
    replay.replay_decided(LogIndex(5));
    assert_eq!(replay.finish(), Err(ReplayError::Missing(LogIndex(5))));

    // A log was adopted of which not all was staged.
    for staged in [&[2_u64, 4][..], &[2, 3], &[3, 4]] {
        let mut replay = Replay::new(LogIndex(0));
        replay.replay_accepted(LogIndex(1), ballot(1), LogIndex(0), ()).expect("sound");
        staged.iter().for_each(|index| replay.replay_staged(LogIndex(*index), ballot(2), ()));
        let refused =
            replay.replay_adoption(ballot(2), LogIndex(1), LogIndex(4)).expect_err("unsound");
        let missing = (2..).find(|index| !staged.contains(index)).map(LogIndex);
        assert_eq!(Some(refused), missing.map(ReplayError::Missing));
    }

    assert_eq!(Replay::<()>::new(LogIndex(4)).finish(), Err(ReplayError::NoPromise));
    assert!(Replay::<()>::new(LogIndex(0)).finish().is_ok(), "a first life remembers nothing");
}

/// Another master led, and truncated the log, while this master's machine was paused.
#[test]
fn master_steps_down_on_installed_snapshot() {
    let sole_member = Configuration::single_member(ConfigurationId(1), NODE).expect("sound");
    let mut replica = Replica::restore(restored(sole_member.clone())).expect("sound");
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
    step(Event::Saved { ballot, last: LogIndex(5) });
    step(Event::Propose { size: EntrySize { bytes: 1, updates: 1 } });
    let last = LogIndex(8);
    let effects = step(Event::Installed { last, configuration: (LogIndex(0), sole_member) });
    let follows = Effect::Role { role: Role::Follower, ballot, master: None };
    assert!(effects.contains(&follows), "{effects:?}");
    assert!(effects.contains(&Effect::Decided { last }), "{effects:?}");
}

/// Returns the replica's answers to this message of a later configuration.
fn receive(replica: &mut Replica, body: Body, now: u64) -> Vec<Body> {
    let message = Message { configuration: ConfigurationId(7), ballot: Ballot::default(), body };
    let (from, now) = (NodeId(9), Millis(now));
    let mut effects = Vec::new();
    replica.step(Event::Received { from, message, signs: Vec::new(), now }, &mut effects);
    let replies = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { message, .. } => Some(message.body),
        _ => None,
    });
    replies.collect()
}

/// A new member once repeated its request upon each message of a later configuration, and each
/// answer caused the next request: within seconds the same entries arrived ten times, and their
/// sender had no time left to lead.
#[test]
fn catch_up_requests_each_log_part_once_unless_lost() {
    let joiner = configuration(&[member(9, Part::Voter)]).expect("sound");
    let zero = LogIndex(0);
    let mut replica = Replica::restore(RestoredState {
        promised: Ballot::default(),
        accepted_ballot: Ballot::default(),
        last: zero,
        decided: zero,
        ..restored(joiner)
    })
    .expect("sound");
    replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
    let straggling = |decided| vec![Body::Straggling { decided: LogIndex(decided) }];
    let outdated = || Body::Outdated;
    let part = |after: u64, end| Body::Learn {
        after: LogIndex(after),
        last: LogIndex(after + 10),
        end: LogIndex(end),
    };
    assert_eq!(receive(&mut replica, outdated(), 1_000), straggling(0));
    assert_eq!(receive(&mut replica, part(0, 40), 1_010), straggling(10));
    // The next part is not requested twice while it is in flight, whatever arrives meanwhile.
    assert_eq!(receive(&mut replica, outdated(), 1_070), vec![]);
    assert_eq!(receive(&mut replica, part(0, 40), 1_080), vec![]);
    // The part seems lost: it is requested again, without the entries received already.
    assert_eq!(receive(&mut replica, outdated(), 1_700), straggling(10));
    assert_eq!(receive(&mut replica, part(10, 40), 1_710), straggling(20));
    assert_eq!(receive(&mut replica, part(10, 40), 1_711), vec![]);
    // The group has decided more: received entries stay, and more will follow.
    assert_eq!(receive(&mut replica, part(20, 50), 1_720), straggling(30));
    assert_eq!(receive(&mut replica, part(30, 40), 1_730), straggling(40));
    assert_eq!(receive(&mut replica, part(40, 50), 1_740), vec![]);
}

/// Entries of an ended configuration are decided. Entries that its last master sends to a member
/// with a promise and without its log need not be, and must not be mixed with them (seed 57432 of
/// the cluster).
#[test]
fn accept_before_adopt_is_not_staged_after_learned_entries() {
    let master = NodeId(9);
    let promised = Ballot { round: 3, node: master };
    let both = configuration(&[member(9, Part::Voter), member(1, Part::Voter)]).expect("sound");
    let accepted_ballot = Ballot { round: 1, node: master };
    let restored = RestoredState { promised, accepted_ballot, ..restored(both) };
    let deliver = |replica: &mut Replica, body, now| {
        let message = Message { configuration: ConfigurationId(1), ballot: promised, body };
        let (signs, now, mut effects) = (Vec::new(), Millis(now), Vec::new());
        replica.step(Event::Received { from: master, message, signs, now }, &mut effects);
        effects
    };
    let (from, last) = (LogIndex(5), LogIndex(10));
    let accept = Body::Accept { after: from, last, decided: from };
    let learn = |end| Body::Learn { after: from, last: LogIndex(end), end: last };
    for end in [5, 7] {
        let mut replica = Replica::restore(restored.clone()).expect("sound");
        replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
        receive(&mut replica, learn(end), 1_000);
        // The message before these was lost.
        let effects = deliver(&mut replica, accept, 1_001);
        let stages = |effect: &Effect| matches!(effect, Effect::Stage { .. });
        assert!(!effects.iter().any(stages), "{effects:?}");
        deliver(&mut replica, Body::Adopt { from, last }, 1_002);
        let effects = deliver(&mut replica, accept, 1_003);
        let adopted = effects.iter().find_map(|effect| match effect {
            Effect::Adopt { ballot, .. } => Some(*ballot),
            _ => None,
        });
        assert_eq!(adopted, Some(promised), "{effects:?}");
    }
}

/// A log is being adopted when a record of the previous one reaches the disk, and shows that more
/// of that one is decided: a decided entry stays, and the master restarts after it (seed 37000 of
/// the node).
#[test]
fn entry_decided_during_adoption_is_not_replaced() {
    let both = configuration(&[member(9, Part::Voter), member(1, Part::Voter)]).expect("sound");
    let master = |round| Ballot { round, node: NodeId(9) };
    let (first, second) = (master(1), master(3));
    let restored = RestoredState { promised: first, accepted_ballot: first, ..restored(both) };
    let mut replica = Replica::restore(restored).expect("sound");
    let mut step = |event| {
        let mut effects = Vec::new();
        replica.step(event, &mut effects);
        effects
    };
    let received = |ballot, body| Event::Received {
        from: NodeId(9),
        message: Message { configuration: ConfigurationId(1), ballot, body },
        signs: Vec::new(),
        now: Millis(1_000),
    };
    let accept = |after, last, decided| {
        let [after, last, decided] = [after, last, decided].map(LogIndex);
        Body::Accept { after, last, decided }
    };
    step(Event::Started { now: Millis(0) });
    step(received(first, accept(5, 7, 5)));
    step(received(first, Body::Decide { last: LogIndex(6) }));
    step(received(second, Body::Prepare { released: Ballot::default() }));
    step(Event::PromiseSaved { ballot: second });
    step(received(second, Body::Adopt { from: LogIndex(5), last: LogIndex(8) }));
    let effects = step(Event::Saved { ballot: first, last: LogIndex(7) });
    assert!(effects.contains(&Effect::Decided { last: LogIndex(6) }), "{effects:?}");
    let is_expected = |log: LogSummary| log.decided == LogIndex(6) && log.last == LogIndex(7);
    let is_promise = |effect: &Effect| match effect {
        Effect::Send { message, .. } => match message.body {
            Body::Promise { log } => is_expected(log),
            _ => false,
        },
        _ => false,
    };
    assert!(effects.iter().any(is_promise), "its master hears of it: {effects:?}");
    // Entries sent before that are void.
    let effects = step(received(second, accept(5, 8, 5)));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Adopt { .. })), "{effects:?}");
    step(received(second, Body::Adopt { from: LogIndex(6), last: LogIndex(8) }));
    let effects = step(received(second, accept(6, 8, 6)));
    let (from, last) = (LogIndex(6), LogIndex(8));
    assert!(effects.contains(&Effect::Adopt { ballot: second, from, last }), "{effects:?}");
}

#[test]
fn empty_member_far_behind_needs_snapshot_instead_of_log() {
    let both = configuration(&[member(3, Part::Voter), member(9, Part::Voter)]).expect("sound");
    for (base, decided, expected) in [
        (5_000, 0, Body::Behind),
        (5_000, 7, Body::Learn { after: LogIndex(7), last: LogIndex(71), end: LogIndex(5_000) }),
        (60, 0, Body::Learn { after: LogIndex(0), last: LogIndex(60), end: LogIndex(60) }),
    ] {
        let base = LogIndex(base);
        let mut replica = Replica::restore(RestoredState {
            node: NodeId(3),
            base,
            last: base,
            decided: base,
            promised: Ballot::default(),
            accepted_ballot: Ballot::default(),
            ..restored(both.clone())
        })
        .expect("sound");
        replica.step(Event::Started { now: Millis(0) }, &mut Vec::new());
        let body = Body::Straggling { decided: LogIndex(decided) };
        let configuration = ConfigurationId(0);
        let message = Message { configuration, ballot: Ballot::default(), body };
        let (from, now) = (NodeId(9), Millis(5_000));
        let mut effects = Vec::new();
        replica.step(Event::Received { from, message, signs: Vec::new(), now }, &mut effects);
        let reply = effects.iter().find_map(|effect| match effect {
            Effect::Send { message, .. } => Some(message.body),
            _ => None,
        });
        assert_eq!(reply, Some(expected));
    }
}
