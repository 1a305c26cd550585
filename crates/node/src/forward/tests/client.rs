//! Retries of a forwarded request: which errors are retried, and which the client gets.

use super::fakes::{Script, Will};
use crate::forward::client::{ForwardedRequest, Repeat};
use crate::forward::message;
use base::{Body, Error, GroupId, Kind, LogIndex, NodeId, Reason, Reply, Result};
use bytes::Bytes;
use logic::consensus::Role;
use replication::group::Leadership;
use runtime::world;
use tokio::sync::watch;

const ME: u64 = 1;
const LONG_MS: u64 = 60_000;

fn errand(repeat: Repeat) -> ForwardedRequest {
    ForwardedRequest {
        me: NodeId(ME),
        group: GroupId(1),
        letter: Bytes::from_static(b"letter"),
        repeat,
        began_ms: world::milliseconds(),
        within_ms: LONG_MS,
        patience_ms: LONG_MS,
    }
}

fn standing(master: u64) -> Leadership {
    let master = (master > 0).then_some(NodeId(master));
    Leadership { role: Some(Role::Follower), master, since_ms: 0, dismissed: false }
}

fn done() -> Reply {
    Reply::new(LogIndex(9), Body::Done)
}

fn fails(reason: Reason) -> Will {
    Will::Answer(Err(Error::new(reason, "words")))
}

fn nobody(_: NodeId, _: &Error) -> Option<NodeId> {
    None
}

async fn nowhere() -> Result<Reply> {
    panic!("this node is not master")
}

/// Sends an errand to node 2 and its script.
async fn try_one(errand: ForwardedRequest, script: &std::sync::Arc<Script>) -> Result<Reply> {
    let group = watch::Sender::new(standing(2));
    errand.run(Some(&script.peers()), || group.subscribe(), nowhere, nobody).await
}

#[tokio::test]
async fn the_master_is_asked_once_and_its_words_are_the_answer() {
    for reason in [Reason::AssertionFailed, Reason::Overloaded, Reason::NoSuchBucket] {
        let script = Script::of([(2, fails(reason)), (2, Will::Answer(Ok(done())))]);
        let told = try_one(errand(Repeat::Once), &script).await.expect_err("it is told");
        assert_eq!((told.reason, script.asked().len()), (reason, 1));
    }
    let script = Script::of([(2, Will::Answer(Ok(done())))]);
    assert_eq!(try_one(errand(Repeat::Never), &script).await, Ok(done()));
    // It declined because it is busy: the same client may wait as well as this node.
    let script = Script::of([(2, Will::Decline), (2, Will::Answer(Ok(done())))]);
    let told = try_one(errand(Repeat::Never), &script).await.expect_err("it is told");
    assert_eq!((told.reason, script.asked().len()), (Reason::Overloaded, 1));
}

/// A node of the version before declines a message of an unknown kind.
#[tokio::test]
async fn an_older_master_is_asked_again_as_it_understands() {
    let update = crate::tests::request(base::Call::Update(crate::tests::set("k", "v")));
    let asking = || {
        let letter = message::write(LogIndex(1), &update).expect("small");
        ForwardedRequest { letter, ..errand(Repeat::Never) }
    };
    let script = Script::of([(2, Will::Decline), (2, Will::Answer(Ok(done())))]);
    assert_eq!(try_one(asking(), &script).await, Ok(done()));
    assert_eq!(script.asked(), [2, 2]);
    // A busy one declines both, and is not asked a third time.
    let script = Script::of([(2, Will::Decline), (2, Will::Decline)]);
    let told = try_one(asking(), &script).await.expect_err("it is told");
    assert_eq!((told.reason, script.asked().len()), (Reason::Overloaded, 2));
}

#[tokio::test]
async fn what_did_not_happen_is_asked_of_whoever_is_master_then() {
    let script = Script::of([
        (2, fails(Reason::NotMaster)),
        (3, fails(Reason::ShuttingDown)),
        (4, Will::NoLink),
        (4, Will::Answer(Ok(done()))),
    ]);
    let group = watch::Sender::new(standing(0));
    let peers = script.peers();
    let errand = errand(Repeat::Never);
    let asking = errand.run(Some(&peers), || group.subscribe(), nowhere, nobody);
    let moving = async {
        for master in [2, 3, 4] {
            let before = script.asked().len();
            group.send_replace(standing(master));
            while script.asked().len() == before {
                tokio::task::yield_now().await;
            }
        }
    };
    let (answer, ()) = tokio::join!(asking, moving);
    assert_eq!(answer, Ok(done()));
    let mut asked = script.asked();
    asked.dedup();
    assert_eq!(asked, [2, 3, 4]);
}

#[tokio::test]
async fn this_node_answers_when_it_has_become_master_itself() {
    let script = Script::of([(2, fails(Reason::NotMaster))]);
    let group = watch::Sender::new(standing(2));
    let here = || {
        assert_eq!(script.asked(), [2], "the other was asked before");
        async { Ok(done()) }
    };
    let peers = script.peers();
    let errand = errand(Repeat::Never);
    let asking = errand.run(Some(&peers), || group.subscribe(), here, nobody);
    let moving = async {
        while script.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        group.send_replace(standing(ME));
    };
    let (answer, ()) = tokio::join!(asking, moving);
    assert_eq!(answer, Ok(done()));
}

#[tokio::test]
async fn a_request_that_waits_in_a_group_that_dismisses_the_node_goes_to_a_member() {
    let script = Script::of([(3, Will::Answer(Ok(done())))]);
    let (own, others) = (watch::Sender::new(standing(0)), watch::Sender::new(standing(3)));
    let group = || if own.borrow().dismissed { others.subscribe() } else { own.subscribe() };
    let (peers, errand) = (script.peers(), errand(Repeat::Never));
    let asking = errand.run(Some(&peers), group, nowhere, nobody);
    let dismissing = async {
        own.send_modify(|standing| standing.dismissed = true);
    };
    let (answer, ()) = tokio::join!(asking, dismissing);
    assert_eq!((answer, script.asked()), (Ok(done()), vec![3]));
}

#[tokio::test]
async fn what_may_have_happened_is_told_and_not_tried_again() {
    for will in [Will::Break, Will::Say(b"\xff"), fails(Reason::DeadlinePassed)] {
        let script = Script::of([(2, will), (2, Will::Answer(Ok(done())))]);
        let told = try_one(errand(Repeat::Never), &script).await.expect_err("in doubt");
        assert_eq!((told.kind(), script.asked().len()), (Kind::Unknown, 1), "{told}");
    }
    let hurried = ForwardedRequest { within_ms: 30, ..errand(Repeat::Never) };
    let told = try_one(hurried, &Script::of([(2, Will::Silence)])).await.expect_err("in doubt");
    assert_eq!(told.reason, Reason::DeadlinePassed);
}

#[tokio::test]
async fn a_named_attempt_is_asked_again_until_it_is_answered() {
    let script = Script::of([
        (2, Will::Break),
        (2, Will::NoLink),
        (2, fails(Reason::NoLongerMaster)),
        (2, Will::Answer(Ok(done()))),
    ]);
    // Not even a patience of nothing ends a doubt.
    let errand = ForwardedRequest { patience_ms: 0, ..errand(Repeat::Once) };
    assert_eq!(try_one(errand, &script).await, Ok(done()));
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn a_doubt_that_was_never_answered_stays_a_doubt() {
    let script = Script::of([(2, Will::Break), (2, fails(Reason::Overloaded))]);
    let told = try_one(errand(Repeat::Once), &script).await.expect_err("in doubt");
    assert_eq!(told.kind(), Kind::Unknown, "the first attempt may have happened: {told}");
    let hurried = ForwardedRequest { within_ms: 120, ..errand(Repeat::Once) };
    let told = try_one(hurried, &Script::of([(2, Will::Break)])).await.expect_err("in doubt");
    assert_eq!(told.kind(), Kind::Unknown, "then nobody was reached: {told}");
    // But an answer is one.
    let script = Script::of([(2, Will::Break), (2, fails(Reason::AssertionFailed))]);
    let told = try_one(errand(Repeat::Once), &script).await.expect_err("it is told");
    assert_eq!(told.reason, Reason::AssertionFailed);
}

#[tokio::test]
async fn a_read_is_asked_again_and_nobody_is_told_that_it_may_have_happened() {
    let script = Script::of([(2, Will::Break), (2, Will::Answer(Ok(done())))]);
    assert_eq!(try_one(errand(Repeat::Harmless), &script).await, Ok(done()));
    let hurried = ForwardedRequest { within_ms: 30, ..errand(Repeat::Harmless) };
    let told = try_one(hurried, &Script::of([(2, Will::Silence)])).await.expect_err("late");
    assert_eq!(told.reason, Reason::NoQuorum);
}

#[tokio::test]
async fn without_a_master_patience_ends_with_a_remedy() {
    let script = Script::of([]);
    let group = watch::Sender::new(standing(0));
    let errand = ForwardedRequest { patience_ms: 120, ..errand(Repeat::Never) };
    let told = errand.run(Some(&script.peers()), || group.subscribe(), nowhere, nobody).await;
    let told = told.expect_err("there is none");
    assert_eq!((told.reason, told.kind()), (Reason::NoQuorum, Kind::Unavailable));
    assert!(told.text().contains("majority"), "{told}");
    // Nor is a client sent to a master that says it is none.
    let script = Script::of((0..1_000).map(|_| (2, fails(Reason::NotMaster))));
    let errand = ForwardedRequest { patience_ms: 120, ..errand };
    let told = try_one(errand, &script).await.expect_err("there is none");
    assert_eq!(told.reason, Reason::NoQuorum);
}
