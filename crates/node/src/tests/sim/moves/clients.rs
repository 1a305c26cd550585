//! Clients: each has one call open at a time, calls any node, and reports to the judge.

use super::super::process;
use super::judge::Fate;
use super::world::World;
use base::request::Expiry;
use base::{
    Body, BucketName, Call, Error, Kind, Outcome, Read, ReadLevel, Reply, Request, Result, RetryId,
    SessionCall, Update,
};
use bytes::Bytes;
use std::rc::Rc;

/// Timeout of a call, in milliseconds.
const TIMEOUT_MS: u64 = 1_500;
/// Number of keys of each bucket that clients read and write.
pub(super) const KEYS: u64 = 3;

/// Calls a node. `None`: no answer came in time; the call may still take effect.
pub(super) async fn ask(
    world: &Rc<World>,
    nth: usize,
    bucket: &BucketName,
    call: Call,
    retry: Option<RetryId>,
) -> Option<Result<Reply>> {
    let request = Request { bucket: bucket.clone(), call, retry };
    process::ask(world.running(nth)?, nth, request, TIMEOUT_MS).await
}

/// Returns the number that a get found. 0: the key is absent.
pub(super) fn found(reply: Reply) -> u64 {
    let Body::Row(row) = reply.body else { panic!("a get is answered with a row") };
    row.map_or(0, |row| {
        let text = std::str::from_utf8(&row.value).expect("a number");
        text.parse().expect("a number")
    })
}

pub(super) fn get(key: &Bytes) -> Call {
    Call::Read(Read::Get(key.clone()), ReadLevel::Consistent)
}

/// Returns true if an error guarantees that the call had no effect.
fn refused(error: &Error) -> bool {
    error.kind() == Kind::Unavailable
}

/// Reads and writes until the history is over.
pub(super) async fn live(world: Rc<World>) {
    while !world.is_over.get() {
        let scheduler = &world.scheduler;
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(500, 50_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let key = scheduler.draw(|chance| chance.below(KEYS));
        if world.running(nth).is_none() {
            continue;
        }
        let name = match scheduler.draw(|chance| chance.draw_bool(500)) {
            true => write(&world, nth, place, key).await,
            false => read(&world, nth, place, key).await,
        };
        world.journal.record((scheduler.now(), nth, place, key, name));
        world.journal.count(name);
    }
}

async fn write(world: &Rc<World>, which: usize, place: usize, key: u64) -> &'static str {
    let bytes = Bytes::from(format!("k{key}"));
    let began = world.scheduler.now();
    let number = world.judge.borrow_mut().writes((place, key), began);
    let value = Bytes::from(number.to_string());
    let update = Update::Set { key: bytes, value, expiry: Expiry::Default };
    let answer = ask(world, which, &world.buckets[place], Call::Update(update), None).await;
    let (fate, name) = match answer {
        Some(Ok(_)) => (Fate::Stands(world.scheduler.now()), "wrote"),
        Some(Err(error)) if refused(&error) => (Fate::Refused, "refused"),
        Some(Err(error)) if error.kind() == Kind::Corrupt => panic!("{error}"),
        _ => (Fate::InDoubt, "in doubt"),
    };
    world.tell(|| format!("key {key} of {place}: {number} {name} at {which} since {began}"));
    world.judge.borrow_mut().wrote((place, key), number, fate);
    name
}

async fn read(world: &Rc<World>, which: usize, place: usize, key: u64) -> &'static str {
    let began = world.scheduler.now();
    let call = get(&Bytes::from(format!("k{key}")));
    match ask(world, which, &world.buckets[place], call, None).await {
        Some(Ok(reply)) => {
            let (value, ended) = (found(reply), world.scheduler.now());
            world.tell(|| format!("key {key} of {place}: {value} read at {which} since {began}"));
            world.judge.borrow_mut().read((place, key), value, began, ended);
            "read"
        }
        Some(Err(error)) if error.kind() == Kind::Corrupt => panic!("{error}"),
        _ => "read in vain",
    }
}

/// Repeats a call that may be repeated until it is answered. `None`: the history is over.
async fn insist(world: &Rc<World>, call: Call, retry: Option<RetryId>) -> Option<Reply> {
    while !world.is_over.get() {
        let nth = world.scheduler.draw(|chance| chance.index(world.count));
        match ask(world, nth, &world.buckets[0], call.clone(), retry).await {
            Some(Ok(reply)) => return Some(reply),
            Some(Err(error)) => {
                let again = matches!(error.kind(), Kind::Unavailable | Kind::Unknown);
                assert!(again, "{call:?}: {error}");
            }
            None => {}
        }
        world.scheduler.sleep_us(5_000).await;
    }
    None
}

/// Increments a counter in a session: each attempt must apply once, wherever the bucket is.
pub(super) async fn count(world: Rc<World>, which: usize) {
    let key = Bytes::from(format!("count{which}"));
    let open = Call::Session(SessionCall::Open);
    let Some(Reply { body: Body::Session(session), .. }) = insist(&world, open, None).await else {
        return;
    };
    for number in 1.. {
        let call = Call::Update(Update::Add { key: key.clone(), delta: 1 });
        let retry = Some(RetryId { session, number });
        let Some(reply) = insist(&world, call, retry).await else { return };
        let expected = Body::Updated(Outcome::Number(number as i64));
        assert_eq!(reply.body, expected, "an attempt was lost, or applied twice");
        world.journal.add("counted", 1);
        world.scheduler.sleep_us(world.scheduler.draw(|chance| chance.between(500, 100_000))).await;
    }
}
