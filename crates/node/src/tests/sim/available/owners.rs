//! A write that asks for owners (`pw`) is either kept by the owners after a handoff of the
//! partition, or not acknowledged.

use super::clients::ask;
use super::strays::Story;
use base::mutants::MutantList as _;
use base::{
    AvailableCall, Body, Content, FetchOptions, Kind, Quorum, Reply, Result, Store, StoreOptions,
};
use runtime::mutants::Mutant;
use std::cell::RefCell;
use std::rc::Rc;

/// Timeout of a client, in milliseconds.
const TIMEOUT_MS: u64 = 500;

fn asks(story: &Story, nth: usize, call: AvailableCall) -> Result<Reply> {
    let (world, bucket) = (Rc::clone(&story.world), story.place.0.clone());
    let result = Rc::new(RefCell::new(None));
    let result_cell = Rc::clone(&result);
    story.world.scheduler.spawn(None, async move {
        let answer = ask(&world, nth, bucket, call).await.expect("in time");
        result_cell.replace(Some(answer));
    });
    story.world.scheduler.run(TIMEOUT_MS * 1_000 + 100_000);
    result.take().expect("in time")
}

/// Writes at the former owner of a key's only copy, which has been handed over. The former owner
/// has not heard of that and can't reach the new owner. Returns the outcome of the write, and the
/// number of values that a read at the new owner finds.
fn write_during_handoff(pw: Quorum) -> (Result<Reply>, usize) {
    let story = Story::begin(|world| world.lag_us > 1_000_000);
    let Story { world, place: (_, key), old, new } = &story;
    story.replace_owner();
    let partition = story.partition();
    while world.decision().ring.owners(partition, 1) != [*new] {
        world.scheduler.run(100);
    }
    let (from, to) = (story.at(*old), story.at(*new));
    assert_eq!(story.owner_by_ring_of(*old), *old, "it has not heard");
    world.network.cut(from, to);
    world.network.cut(to, from);
    let options =
        StoreOptions { pw: Some(pw), timeout_ms: Some(TIMEOUT_MS), ..StoreOptions::default() };
    let (key, content) = (key.clone(), Content::plain("v".into()));
    let store = Store { key: key.clone(), content, options, ..Store::default() };
    let stored = asks(&story, from, AvailableCall::Store(Box::new(store)));
    let options = FetchOptions { pr: Some(Quorum::Quorum), ..FetchOptions::default() };
    let read = asks(&story, to, AvailableCall::Fetch { key, options });
    let read = match read.expect("its owner is there").body {
        Body::Siblings(siblings) => siblings.without_tombstones().count(),
        other => panic!("{other:?}"),
    };
    world.scheduler.uninstall();
    (stored, read)
}

#[test]
fn write_with_pw_fails_if_new_owner_lacks_the_row() {
    let (stored, read) = write_during_handoff(Quorum::Quorum);
    let error = stored.expect_err("who owns the key now has it not");
    assert_eq!((error.kind(), read), (Kind::Unknown, 0), "{}", error.text());
    assert!(error.text().starts_with("pw 0/1"), "{}", error.text());
    // A write that asks for no owner is kept, and delivered once the owner is reachable.
    let (stored, read) = write_during_handoff(Quorum::Number(0));
    assert!(stored.is_ok() && read == 0);
    let (stored, read) =
        Mutant::CountCurrentOwnersOnly.while_active(|| write_during_handoff(Quorum::Quorum));
    assert!(stored.is_ok() && read == 0, "the rule is what makes the difference");
}
