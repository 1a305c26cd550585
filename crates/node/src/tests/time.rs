//! Time to live, by group time.

use super::{Place, bytes, get, read, request, set, update};
use crate::{Flow, SubmitResult};
use base::request::{ExpireWhen, Expiry, When};
use base::{Body, Call, Outcome, Range, Read, Update};
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

/// A row that an update has seen expired does not come back under another master, whose time
/// continues from the last entry's.
#[tokio::test]
async fn answer_based_on_expiry_waits_for_its_time_in_the_log() {
    let place = Place::new();
    let node = place.start().await;
    let key = || bytes("k");
    let short = Update::Set { key: key(), value: bytes("v"), expiry: Expiry::After(20) };
    update(&node, short).await.expect("it is written");
    // The driver has no turn meanwhile: this test has one thread.
    std::thread::sleep(std::time::Duration::from_millis(40));
    let status = node.status();
    let exists = Call::Update(Update::AssertExists { key: key() });
    let told = node.submit(&mut Flow::of(base::Principal::Node), request(exists));
    let SubmitResult::Pending(ticket, Err(error)) = told else {
        panic!("what it saw waits until its time is in the log")
    };
    assert_eq!(error.reason, base::Reason::AssertionFailed);
    let applied = status.groups.iter().find(|one| one.id == ticket.group);
    let applied = applied.expect("it has this group").applied;
    assert!(ticket.index > applied, "a value of its own carries the time");
    node.stop().await.expect("it stops");
}
