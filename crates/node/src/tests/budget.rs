//! Budget of one request, all its steps together.

use super::{Place, bytes, get, reason, request, set, update};
use crate::{EmptyPrefixCursor, EmptyPrefixProgress, Flow, Node, SubmitResult};
use base::limits::{ANSWER_BYTES_MAX, EVALUATION_ROWS_MAX, SEQUENCE_ROWS_MAX};
use base::request::SequenceMode;
use base::{Body, BucketName, Call, GroupId, Outcome, Range, Read, ReadLevel, Reason, Update};
use replication::group::Group;
use replication::read::BYTES_AT_ONCE;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Longest wait for what must come about, however much else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

fn sequence(steps: Vec<Update>) -> Update {
    Update::Sequence { steps, mode: SequenceMode::EachAlone }
}

fn group(node: &Node) -> Arc<Group> {
    node.router.locator.groups.find(GroupId::DEFAULT).expect("it is there")
}

async fn fill(node: &Node, prefix: &str, rows: usize) {
    for first in (0..rows).step_by(5_000) {
        let keys = first..rows.min(first + 5_000);
        let steps = keys.map(|row| set(&format!("{prefix}{row:06}"), "v")).collect();
        update(node, sequence(steps)).await.expect("it fits");
    }
}

#[tokio::test]
async fn sequence_answer_bytes_are_bounded_in_total() {
    let place = Place::new();
    let node = place.start().await;
    let mebibyte = "v".repeat(1 << 20);
    update(&node, set("large", &mebibyte)).await.expect("it fits");
    let limit = ANSWER_BYTES_MAX / (1 << 20) - 1;
    let reads = |count| {
        let read = Update::Read(Read::MultiGet(vec![bytes("large")]));
        sequence(vec![read; count])
    };
    let answer = update(&node, reads(limit)).await.expect("so many fit");
    assert!(matches!(answer, Outcome::Steps(steps) if steps.len() == limit));
    assert_eq!(reason(update(&node, reads(limit + 1)).await), Reason::TooLarge);
    // Where one of the steps writes, it is evaluated in another way, and nothing of it happens.
    let Update::Sequence { mut steps, mode } = reads(limit + 1) else { unreachable!() };
    steps.insert(0, set("small", "written"));
    assert_eq!(reason(update(&node, Update::Sequence { steps, mode }).await), Reason::TooLarge);
    assert_eq!(get(&node, "small").await, None);
    // Values that are replaced are told as well.
    let replace = Update::Replace { key: bytes("large"), wanted: Some(bytes(&mebibyte)) };
    assert_eq!(reason(update(&node, sequence(vec![replace; limit + 1])).await), Reason::TooLarge);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn delete_prefix_over_row_budget_deletes_nothing() {
    let place = Place::new();
    let node = place.start().await;
    fill(&node, "p", EVALUATION_ROWS_MAX + 1).await;
    let delete = Update::DeletePrefix { prefix: bytes("p") };
    let error = update(&node, delete).await.expect_err("it is one row too many");
    assert_eq!(error.reason, Reason::TooLarge);
    assert!(error.text().contains("nothing was deleted"), "{error}");
    assert!(error.text().contains("empty-prefix"), "it names what to do: {error}");
    assert_eq!(get(&node, "p000000").await, Some(bytes("v")));
    // To begin a walk costs some rows, too.
    let fit = EVALUATION_ROWS_MAX - 100;
    fill(&node, "q", fit).await;
    let delete = Update::DeletePrefix { prefix: bytes("q") };
    let deleted = update(&node, delete).await.expect("it fits");
    assert_eq!(deleted, Outcome::Count(fit as u64));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn row_budget_covers_all_steps_of_a_sequence_even_undone_ones() {
    let place = Place::new();
    let node = place.start().await;
    fill(&node, "r", 1_000).await;
    let exists = || Update::Read(Read::Exists(vec![bytes("r000001"); 1_000]));
    let steps = |exists: Update, count| [vec![set("w", "v")], vec![exists; count]].concat();
    let fit = EVALUATION_ROWS_MAX / 1_000;
    update(&node, sequence(steps(exists(), fit))).await.expect("so many fit");
    let more = update(&node, sequence(steps(exists(), fit + 1))).await;
    assert_eq!(reason(more), Reason::TooLarge);
    // A sequence that only reads is evaluated away from the lock, and may look at more.
    let reads = |count| sequence(vec![exists(); count]);
    update(&node, reads(fit + 1)).await.expect("nobody waits for it");
    let more = update(&node, reads(SEQUENCE_ROWS_MAX / 1_000 + 1)).await;
    assert_eq!(reason(more), Reason::TooLarge);
    // Every inner sequence writes a mebibyte, fails, and is undone.
    let far = Update::SetRange { key: bytes("far"), offset: 1 << 20, value: bytes("x") };
    let fails = Update::AssertExists { key: bytes("nowhere") };
    let inner = Update::Sequence { steps: vec![far, fails], mode: SequenceMode::AllOrNothing };
    update(&node, sequence(vec![inner.clone(); 10])).await.expect("each fails alone");
    assert_eq!(reason(update(&node, sequence(vec![inner; 60])).await), Reason::TooLarge);
    // Walks count, and so does what lies undecided over the rows.
    let range = Range { rows_max: Some(100), ..Range::prefix(bytes("r")) };
    let walks = vec![Update::Read(Read::Range(range)); EVALUATION_ROWS_MAX / 100];
    let walks = [vec![set("w", "v")], walks].concat();
    assert_eq!(reason(update(&node, sequence(walks)).await), Reason::TooLarge);
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequence_of_reads_does_not_wait_for_group_lock() {
    let place = Place::new();
    let node = place.start().await;
    update(&node, set("k", "v")).await.expect("it is written");
    let (here, (told, heard)) = (group(&node), mpsc::channel());
    let held = here.state();
    let asking = node.clone();
    std::thread::spawn(move || {
        let get = Update::Read(Read::Get(bytes("k")));
        let reads = Call::Update(sequence(vec![get.clone(), get]));
        let _ = told.send(asking.submit(&mut Flow::of(base::Principal::Node), request(reads)));
    });
    let answer = heard.recv_timeout(PATIENCE).expect("it is answered while the lock is held");
    drop(held);
    let SubmitResult::Ready(Ok(reply)) = answer else { panic!("it is answered at once") };
    assert!(matches!(reply.body, Body::Updated(Outcome::Steps(steps)) if steps.len() == 2));
    node.stop().await.expect("it stops");
}

/// One thread: the write is not decided before somebody is awaited.
#[tokio::test]
async fn large_read_after_own_undecided_write_runs_outside_the_lock() {
    let place = Place::new();
    let node = place.start().await;
    let large = "v".repeat(BYTES_AT_ONCE / 2);
    let keys = ["a", "b", "c"];
    for key in keys {
        update(&node, set(key, &large)).await.expect("it is written");
    }
    let mut flow = Flow::of(base::Principal::Node);
    let mut submit = |call| node.submit(&mut flow, request(call));
    let written = submit(Call::Update(set("c", "own")));
    assert!(matches!(written, SubmitResult::Pending(..)), "it is undecided");
    let read = |keys: &[&str]| {
        let keys = keys.iter().map(|key| bytes(key)).collect();
        Call::Read(Read::MultiGet(keys), ReadLevel::Consistent)
    };
    let few = submit(read(&["a", "c"]));
    assert!(matches!(few, SubmitResult::Pending(..)), "it is evaluated at once");
    let one = submit(Call::Read(Read::Get(bytes("a")), ReadLevel::Consistent));
    assert!(matches!(one, SubmitResult::Pending(..)), "one value is never too large");
    let SubmitResult::Later(all) = submit(read(&["a", "b", "a", "c"])) else {
        panic!("it is gathered under the lock")
    };
    let reply = all.await.expect("an answer");
    let Body::Rows(rows) = reply.body else { panic!("{:?}", reply.body) };
    let sizes: Vec<_> = rows.into_iter().map(|row| row.map(|row| row.value.len())).collect();
    assert_eq!(sizes, [large.len(), large.len(), large.len(), 3].map(Some));
    let mut submit = |call| node.submit(&mut flow, request(call));
    let written = submit(Call::Update(set("c", "another")));
    assert!(matches!(written, SubmitResult::Pending(..)), "it is undecided");
    let gets = |keys: &[&str]| {
        let get = |key: &&str| Update::Read(Read::Get(bytes(key)));
        Call::Update(sequence(keys.iter().map(get).collect()))
    };
    assert!(
        matches!(submit(gets(&["a", "c"])), SubmitResult::Pending(..)),
        "it is evaluated at once"
    );
    let SubmitResult::Later(all) = submit(gets(&["a", "b", "a", "c"])) else {
        panic!("it is gathered under the lock")
    };
    let reply = all.await.expect("an answer");
    assert!(matches!(reply.body, Body::Updated(Outcome::Steps(steps)) if steps.len() == 4));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn heavy_updates_run_one_at_a_time_without_blocking_light_ones() {
    let place = Place::new();
    let node = place.start().await;
    fill(&node, "a", 2_000).await;
    fill(&node, "b", 2_000).await;
    let heavy = |prefix: &str| update(&node, Update::DeletePrefix { prefix: bytes(prefix) });
    let turn = group(&node);
    let turn = turn.heavy.turn().await.expect("nobody is in line");
    let (mut first, mut second) = (Box::pin(heavy("a")), Box::pin(heavy("a")));
    let waits = tokio::time::timeout(Duration::from_millis(50), async {
        tokio::select! { biased; ended = &mut first => ended, ended = &mut second => ended }
    });
    assert!(waits.await.is_err(), "both wait for the turn that is taken");
    assert_eq!(get(&node, "a000000").await, Some(bytes("v")), "others go on");
    update(&node, set("light", "v")).await.expect("others go on");
    drop(turn);
    let (first, second) = tokio::join!(first, second);
    let mut counts = [first.expect("its turn"), second.expect("its turn")];
    counts.sort_by_key(|count| *count == Outcome::Count(0));
    assert_eq!(counts, [Outcome::Count(2_000), Outcome::Count(0)], "one of them found the rows");
    assert_eq!(heavy("b").await.expect("its turn"), Outcome::Count(2_000));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn prefix_of_any_size_is_emptied_in_parts_from_its_cursor() {
    let place = Place::new();
    let node = place.start().await;
    let (bucket, prefix) = (BucketName::default(), bytes("p"));
    fill(&node, "o", 10).await;
    fill(&node, "p", EVALUATION_ROWS_MAX + 2_000).await;
    fill(&node, "q", 10).await;
    let end = bytes(&format!("p{:06}", EVALUATION_ROWS_MAX + 1_999));
    // From a cursor on: what lies before it, and beyond its end, stays.
    let from = |after, until| Some(EmptyPrefixCursor { after: bytes(after), until: bytes(until) });
    let some = node
        .empty_prefix(&base::Principal::Node, &bucket, &prefix, from("p000009", "p000019"))
        .await;
    assert_eq!(some, Ok(EmptyPrefixProgress { removed: 10, next: None }));
    assert_eq!(get(&node, "p000009").await, Some(bytes("v")));
    assert_eq!(get(&node, "p000020").await, Some(bytes("v")));
    let (mut removed, mut cursor) = (0, None);
    loop {
        let before = node.status().groups.iter().map(|group| group.applied.0).sum::<u64>();
        let done = node
            .empty_prefix(&base::Principal::Node, &bucket, &prefix, cursor)
            .await
            .expect("it is emptied");
        let after = node.status().groups.iter().map(|group| group.applied.0).sum::<u64>();
        assert!(after - before >= done.removed / 1_000, "a part has a thousand keys at most");
        removed += done.removed;
        // Its end was fixed when it began.
        update(&node, set("pz", "added")).await.expect("it is written");
        match done.next {
            Some(next) => {
                assert_eq!(next.until, end);
                assert!(next.after.starts_with(b"p"));
                cursor = Some(next);
            }
            None => break,
        }
    }
    assert_eq!(removed, EVALUATION_ROWS_MAX as u64 + 1_990);
    assert_eq!(get(&node, "pz").await, Some(bytes("added")));
    for other in ["o", "q"] {
        let retained = Read::Range(Range { rows_max: Some(100), ..Range::prefix(bytes(other)) });
        let Body::Page(page) = super::read(&node, retained).await.expect("a page").body else {
            panic!("a range is answered with a page");
        };
        assert_eq!(page.entries.len(), 10);
    }
    let nothing = node.empty_prefix(&base::Principal::Node, &bucket, &bytes("nowhere"), None).await;
    assert_eq!(nothing, Ok(EmptyPrefixProgress { removed: 0, next: None }));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn empty_prefix_removes_large_values_that_delete_prefix_refuses() {
    let place = Place::new();
    let node = place.start().await;
    let large = "v".repeat(4 << 20);
    for key in 0..110 {
        update(&node, set(&format!("p{key:03}"), &large)).await.expect("it fits");
    }
    let delete = Update::DeletePrefix { prefix: bytes("p") };
    assert_eq!(reason(update(&node, delete).await), Reason::TooLarge, "more than is looked at");
    let (mut removed, mut cursor) = (0, None);
    loop {
        let bucket = BucketName::default();
        let done = node
            .empty_prefix(&base::Principal::Node, &bucket, &bytes("p"), cursor)
            .await
            .expect("it is emptied");
        removed += done.removed;
        cursor = done.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(removed, 110);
    node.stop().await.expect("it stops");
}
