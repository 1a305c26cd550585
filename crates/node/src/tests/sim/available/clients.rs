//! Clients: each has one call open at a time, calls any node, and reports to the judge.

use super::super::process;
use super::judge::{Seen, Write};
use super::node::CLUSTER;
use super::world::World;
use base::codec::checksum;
use base::dots::DotContext;
use base::{
    AvailableCall, Body, BucketName, Call, Content, Context, FetchOptions, Key, Quorum, Reason,
    Reply, Request, Result, Siblings, Store, StoreOptions,
};
use bytes::Bytes;
use sim::FaultTarget as _;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Timeout of a call, for the client and for the node that it called, in milliseconds.
const TIMEOUT_MS: u64 = 1_000;

/// Causal context of a client for one key, and the writes that the context covers.
#[derive(Clone, Default)]
struct Knows {
    context: Option<Context>,
    seen: BTreeSet<Write>,
}

/// Kind of a client's next call.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Read,
    Blind,
    Replace,
    Remove,
    RemoveUnread,
}

pub(super) fn bucket() -> BucketName {
    BucketName::new(BucketName::AVAILABLE, "b").expect("a name")
}

pub(super) fn key(number: usize) -> Key {
    Bytes::from(format!("k{number}"))
}

fn salt((bucket, key): &(BucketName, Key)) -> u64 {
    checksum(key, checksum(bucket.full().as_bytes(), CLUSTER.0))
}

pub(super) fn seen(place: &(BucketName, Key), context: &Context) -> Seen {
    DotContext::decode(&context.0, salt(place)).expect("a context reads back")
}

pub(super) fn number(value: &[u8]) -> Write {
    std::str::from_utf8(value).expect("a number").parse().expect("a number")
}

/// Calls a node. `None`: no answer came in time, or the node is down.
pub(super) async fn ask(
    world: &Rc<World>,
    nth: usize,
    bucket: BucketName,
    call: AvailableCall,
) -> Option<Result<Reply>> {
    ask_call(world, nth, bucket, Call::Available(call)).await
}

/// Calls a node, as [`ask`] does.
pub(super) async fn ask_call(
    world: &Rc<World>,
    nth: usize,
    bucket: BucketName,
    call: Call,
) -> Option<Result<Reply>> {
    let node = world.nodes.borrow()[nth].running()?.clone();
    process::ask(node, nth, Request { bucket, call, retry: None }, TIMEOUT_MS).await
}

/// Runs a client until the trouble ends.
pub(super) async fn live(world: Rc<World>) {
    let mut knows = BTreeMap::<usize, Knows>::new();
    while world.injects_faults() {
        let scheduler = &world.scheduler;
        let pause = scheduler.draw(|chance| chance.between(1_000, 120_000));
        scheduler.sleep_us(pause).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let number = scheduler.draw(|chance| chance.index(world.keys));
        let deed = match scheduler.draw(|chance| chance.below(100)) {
            0..40 => Deed::Read,
            40..55 => Deed::Blind,
            55..85 => Deed::Replace,
            85..95 => Deed::Remove,
            _ => Deed::RemoveUnread,
        };
        let known = knows.entry(number).or_default();
        let name = match deed {
            Deed::Read => read(&world, nth, number, known).await,
            _ => write(&world, (nth, number), deed, known).await,
        };
        world.journal.record((scheduler.now(), nth, number, name));
        world.journal.count(name);
    }
}

async fn read(world: &Rc<World>, nth: usize, number: usize, known: &mut Knows) -> &'static str {
    let (pr, timeout_ms) = (of_owners(world), Some(TIMEOUT_MS));
    let options = FetchOptions { pr, timeout_ms, ..FetchOptions::default() };
    let (bucket, key) = world.place(number);
    let call = AvailableCall::Fetch { key, options };
    let stands = world.judge.borrow().acknowledged(number);
    let answer = ask(world, nth, bucket, call).await;
    let Some(Ok(Reply { body: Body::Siblings(siblings), .. })) = answer else {
        return "read in vain";
    };
    let (seen, living) = shown(world, number, &siblings);
    // Without faults, writers and readers ask a majority of a key's owners.
    if world.calm {
        world.judge.borrow().check_read(number, &stands, &living);
        world.journal.count("read that must meet");
        world.journal.add("read among stragglers", world.has_stragglers.into());
    }
    *known = Knows { context: Some(siblings.context), seen };
    "read"
}

/// Returns the number of answers that must come from owners (`pr`, `pw`). Where stragglers make
/// coordinators ask fallbacks, an answer of a fallback does not ensure that the next reader meets
/// it.
fn of_owners(world: &World) -> Option<Quorum> {
    world.has_stragglers.then_some(Quorum::Quorum)
}

/// Returns the writes that a client has seen after this answer, and the answer's living values.
fn shown(world: &World, key: usize, siblings: &Siblings) -> (BTreeSet<Write>, Vec<Write>) {
    let living = siblings.without_tombstones().map(|sibling| number(&sibling.content.value));
    let tombs = siblings.values.iter().filter(|value| value.tombstone).map(|value| value.vtag);
    let (living, tombs): (Vec<_>, Vec<_>) = (living.collect(), tombs.collect());
    let seen = world.judge.borrow().shown(key, &living, &tombs);
    (seen, living)
}

async fn write(
    world: &Rc<World>,
    (which, number): (usize, usize),
    deed: Deed,
    known: &mut Knows,
) -> &'static str {
    let unread = deed == Deed::RemoveUnread;
    let (context, may) = match deed {
        Deed::Blind | Deed::RemoveUnread => (None, BTreeSet::new()),
        _ => (known.context.clone(), known.seen.clone()),
    };
    if deed == Deed::Remove && context.is_none() {
        return "nothing to remove";
    }
    let value = matches!(deed, Deed::Blind | Deed::Replace);
    let may_known = if unread { None } else { Some(may.clone()) };
    let write = world.judge.borrow_mut().start_write(number, value, may_known);
    let w = world.scheduler.draw(|chance| chance.draw_bool(200)).then_some(Quorum::One);
    let w = w.filter(|_| !world.may_lose_disk && !world.calm);
    let anywhere = world.has_stragglers && world.scheduler.draw(|chance| chance.draw_bool(300));
    if anywhere {
        world.judge.borrow_mut().mark_unowned(write);
    }
    let (pw, timeout_ms) = (of_owners(world).filter(|_| !anywhere), Some(TIMEOUT_MS));
    let options = StoreOptions { timeout_ms, w, dw: w, pw, ..StoreOptions::default() };
    let place = world.place(number);
    let (bucket, key) = place.clone();
    world.tell(|| format!("{which}: {deed:?} {write} of {number} over {may:?}"));
    let call = match value {
        true => AvailableCall::Store(Box::new(Store {
            key,
            content: Content::plain(Bytes::from(write.to_string())),
            context: context.clone(),
            options,
            condition: None,
        })),
        false => AvailableCall::Remove { key, context: context.clone(), options },
    };
    let answer = ask(world, which, bucket, call).await;
    world.tell(|| format!("{which}: {write} {}", answer.as_ref().is_some_and(Result::is_ok)));
    let now = match answer {
        Some(Ok(Reply { body: Body::Stored(now), .. })) => now,
        Some(Err(error)) if error.reason == Reason::NotFound => {
            world.judge.borrow_mut().mark_without_effect(write);
            return "nothing to remove";
        }
        _ => return "write in doubt",
    };
    let sent = match (&context, unread) {
        (_, true) => None,
        (Some(context), _) => Some(seen(&place, context)),
        (None, _) => Some(Seen::empty()),
    };
    let mut judge = world.judge.borrow_mut();
    if unread {
        judge.ends(write);
    }
    let dot = judge.stands(write, sent.as_ref(), seen(&place, &now));
    if let Some((id, count)) = dot.filter(|_| !value) {
        judge.named(vnode_rows::layout::vtag(Some((&id, count))), write);
    }
    if !unread {
        let mut seen = may;
        seen.insert(write);
        *known = Knows { context: Some(now), seen };
    }
    if value { "write" } else { "remove" }
}

impl std::fmt::Debug for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Deed::Read => "read",
            Deed::Blind => "blind",
            Deed::Replace => "replace",
            Deed::Remove => "remove",
            Deed::RemoveUnread => "remove unread",
        })
    }
}
