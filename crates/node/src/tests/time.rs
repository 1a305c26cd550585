//! Time to live, by group time.

use super::{Place, bytes, get, read, request, set, update};
use crate::{Flow, SubmitResult};
use base::request::{ExpireWhen, Expiry, OnMissing, When};
use base::{Body, Call, Outcome, Principal, Range, Read, Reason, Reply, Update};
use std::time::Duration;

fn set_for(key: &str, ms: u64) -> Update {
    Update::Set { key: bytes(key), value: bytes("v"), expiry: Expiry::After(ms) }
}

async fn gone(node: &crate::Node, key: &str) {
    for _ in 0..500 {
        if get(node, key).await.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{key} is still there");
}

#[tokio::test]
async fn expired_row_is_invisible_to_reads_updates_ranges_and_counts() {
    let place = Place::new();
    let node = place.start().await;
    update(&node, set_for("short", 30)).await.expect("a set");
    update(&node, set_for("long", 3_600_000)).await.expect("a set");
    update(&node, set_for("kept", 30)).await.expect("a set");
    update(&node, set("kept", "for ever")).await.expect("a set");
    gone(&node, "short").await;
    let wins = Update::SetIf {
        key: bytes("short"),
        value: bytes("w"),
        expiry: Expiry::Default,
        when: When::Absent,
    };
    let won = update(&node, wins).await;
    assert_eq!(won, Ok(Outcome::Swapped { written: true, old: None }));
    let count = read(&node, Read::KeyCount).await.expect("a count").body;
    assert_eq!(count, Body::Count(3));
    let Body::Page(page) = read(&node, Read::Range(Range::default())).await.expect("a page").body
    else {
        panic!("a page")
    };
    let remaining: Vec<_> = page.entries.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!(remaining, [bytes("kept"), bytes("long"), bytes("short")]);
    let long = page.entries[1].row.as_ref().and_then(|row| row.expires_in_ms);
    assert!(long.is_some_and(|ms| ms > 3_000_000), "{long:?}");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn expiry_is_set_preserved_compared_and_removed() {
    let place = Place::new();
    let node = place.start().await;
    let expire = |expiry, when| Update::Expire { key: bytes("k"), expiry, when };
    let absent = update(&node, expire(Expiry::After(9), ExpireWhen::Always)).await;
    assert_eq!(absent, Ok(Outcome::Applied(false)));
    update(&node, set("k", "1")).await.expect("a set");
    for (expiry, when, applied) in [
        (Expiry::After(100_000), ExpireWhen::HasOne, false),
        (Expiry::After(100_000), ExpireWhen::Later, false),
        (Expiry::After(100_000), ExpireWhen::HasLater, false),
        (Expiry::After(100_000), ExpireWhen::HasNone, true),
        (Expiry::After(50_000), ExpireWhen::Later, false),
        (Expiry::After(50_000), ExpireWhen::Sooner, true),
        (Expiry::After(60_000), ExpireWhen::HasLater, false),
        (Expiry::After(40_000), ExpireWhen::HasLater, true),
        (Expiry::Never, ExpireWhen::Always, true),
        (Expiry::Never, ExpireWhen::Always, false),
        (Expiry::After(100_000), ExpireWhen::Always, true),
    ] {
        let outcome = update(&node, expire(expiry, when)).await;
        assert_eq!(outcome, Ok(Outcome::Applied(applied)), "{expiry:?} {when:?}");
    }
    update(&node, Update::Add { key: bytes("k"), delta: 1 }).await.expect("adds");
    let Body::Row(Some(row)) = read(&node, Read::Get(bytes("k"))).await.expect("a get").body else {
        panic!("the row is there")
    };
    assert!(row.expires_in_ms.is_some(), "a counter keeps its expiry");
    update(&node, expire(Expiry::After(0), ExpireWhen::Always)).await.expect("expires");
    assert_eq!(get(&node, "k").await, None);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn group_time_does_not_go_back_when_the_node_restarts() {
    let place = Place::new();
    let mut node = place.start().await;
    update(&node, set_for("k", 40)).await.expect("a set");
    gone(&node, "k").await;
    node.stop().await.expect("it stops");
    node = place.start().await;
    assert_eq!(get(&node, "k").await, None, "what is gone stays gone");
    node.stop().await.expect("it stops");
}

/// Kinds of updates of a key whose value was `5`, each with its outcome once the key has expired.
/// All but the last write nothing then.
fn updates_of_expired(key: &str) -> Vec<(Update, Result<Outcome, Reason>)> {
    let key = || bytes(key);
    let set_present = Update::SetIf {
        key: key(),
        value: bytes("w"),
        expiry: Expiry::Default,
        when: When::Present,
    };
    let expire = Update::Expire { key: key(), expiry: Expiry::Never, when: ExpireWhen::Always };
    let (expected, wanted) = (Some(bytes("5")), Some(bytes("w")));
    vec![
        (Update::AssertExists { key: key() }, Err(Reason::AssertionFailed)),
        (Update::AssertVersion { key: key(), version: None }, Ok(Outcome::Done)),
        (Update::TestAndSet { key: key(), expected, wanted }, Ok(Outcome::Old(None))),
        (set_present, Ok(Outcome::Swapped { written: false, old: None })),
        (expire, Ok(Outcome::Applied(false))),
        (Update::Delete { key: key(), missing: OnMissing::Skip }, Ok(Outcome::Existed(false))),
        (Update::Add { key: key(), delta: 1 }, Ok(Outcome::Number(1))),
    ]
}

fn outcome_of(answer: base::Result<Reply>) -> Result<Outcome, Reason> {
    match answer.map_err(|error| error.reason)?.body {
        Body::Updated(outcome) => Ok(outcome),
        other => panic!("an update is answered with an outcome, not {other:?}"),
    }
}

/// A row that an update has seen expired does not come back under another master, whose time
/// continues from the last entry's.
#[tokio::test]
async fn answer_based_on_expiry_waits_for_its_time_in_the_log() {
    for number in 0..updates_of_expired("").len() {
        let place = Place::new();
        let node = place.start().await;
        let submit = |key| {
            let (update, expected) = updates_of_expired(key).swap_remove(number);
            let request = request(Call::Update(update.clone()));
            (node.submit(&mut Flow::of(Principal::Node), request), expected, update)
        };
        let (key, expiry) = (bytes("k"), Expiry::After(100));
        let short = Update::Set { key, value: bytes("5"), expiry };
        update(&node, short).await.expect("it is written");
        // The control: an update of a key that never was, which writes nothing, waits for nothing.
        if number + 1 < updates_of_expired("").len() {
            let (SubmitResult::Ready(answer), expected, change) = submit("never written") else {
                panic!("update {number} saw no expired row")
            };
            assert_eq!(outcome_of(answer), expected, "{change:?}");
        }
        // The driver has no turn meanwhile, and sweeps no row: this test has one thread.
        std::thread::sleep(Duration::from_millis(120));
        let status = node.status();
        let (SubmitResult::Pending(ticket, answer), expected, change) = submit("k") else {
            panic!("what update {number} saw waits until its time is in the log")
        };
        assert_eq!(outcome_of(answer), expected, "{change:?}");
        let applied = status.groups.iter().find(|one| one.id == ticket.group);
        let applied = applied.expect("it has this group").applied;
        assert!(ticket.index > applied, "a value of its own carries the time: {change:?}");
        node.stop().await.expect("it stops");
    }
}
