//! Tests of the table of rights, and of grants against a naive filter of keys.

use super::{KeySet, Need, Operate, Rights};
use crate::access::{AccessCall, Grant, Scope, Verb, Verbs};
use crate::available::TypeChange;
use crate::datatype::TypeOperation;
use crate::index::{IndexCall, IndexReport, IndexSpec, ReportPlace, ReportedState};
use crate::range::RowContent;
use crate::request::{
    BucketPlace, ExpireWhen, Expiry, MoveStep, OnMissing, SequenceMode, TaggedSet, When,
};
use crate::{
    Absence, AvailableCall, Bound, BucketId, BucketName, Call, ClusterCall, DirectoryCall, Error,
    FeedQuery, GroupId, Key, Range, Read, ReadLevel, Reason, Request, RingCall, SessionCall,
    SessionId, Store, StoreOptions, Tags, TokenDigest, Update, Version,
};
use proptest::prelude::*;

fn bucket() -> BucketName {
    BucketName::parse("logs/web").expect("a name")
}

fn request(call: Call) -> Request {
    Request { bucket: bucket(), call, retry: None }
}

/// Returns the needs of a call as texts: the verb, and the keys or the scope.
fn needs(call: Call) -> Vec<String> {
    let mut all = Vec::new();
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let end = |bound: &Bound| match bound {
        Bound::Open => "..".into(),
        Bound::Included(key) => format!("={}", text(key)),
        Bound::Excluded(key) => format!("!{}", text(key)),
    };
    let visited = request(call).needs(&mut |need| {
        let verb = need.verb().map_or("member", Verb::name);
        all.push(match need {
            Need::Member => verb.to_string(),
            Need::Cluster(_) => format!("{verb} cluster"),
            Need::Type(_, kind) => format!("{verb} {kind}/*"),
            Need::Keys(_, name, keys) => {
                assert_eq!(*name, bucket());
                match keys {
                    KeySet::Part => format!("{verb} part"),
                    KeySet::One(key) => format!("{verb} {}", text(key)),
                    KeySet::Prefix(prefix) => format!("{verb} {}*", text(prefix)),
                    KeySet::Between(low, high) => format!("{verb} {}{}", end(low), end(high)),
                    KeySet::All => format!("{verb} all"),
                }
            }
        });
        Ok(())
    });
    assert_eq!(visited, Ok(()));
    all
}

fn update(update: Update) -> Vec<String> {
    needs(Call::Update(update))
}

fn key(text: &'static str) -> Key {
    Key::from_static(text.as_bytes())
}

fn tagged_set(key: &Key) -> Update {
    let (key, value, tags) = (key.clone(), Key::new(), Tags::default());
    let (expiry, when) = (Expiry::Default, When::Always);
    Update::SetTagged(Box::new(TaggedSet { key, value, expiry, when, tags }))
}

#[test]
fn update_needs_read_where_it_answers_a_value_and_both_ends_where_it_moves_one() {
    let (k, v, expiry) = (key("k"), key("v"), Expiry::Keep);
    let write = ["write k"];
    let both = ["write k", "read k"];
    let set = Update::Set { key: k.clone(), value: v.clone(), expiry };
    let absence = Absence { group: GroupId(1), bucket: BucketId(1), since: Version(1) };
    for (case, expected) in [
        (set.clone(), &write[..]),
        (Update::Delete { key: k.clone(), missing: OnMissing::Fail }, &write),
        (Update::Confirm { key: k.clone(), value: v.clone() }, &write),
        (Update::Append { key: k.clone(), value: v.clone() }, &write),
        (Update::SetRange { key: k.clone(), offset: 1, value: v.clone() }, &write),
        (Update::Expire { key: k.clone(), expiry, when: ExpireWhen::Always }, &write),
        (Update::SetIf { key: k.clone(), value: v.clone(), expiry, when: When::Absent }, &both),
        (tagged_set(&k), &both),
        (Update::TestAndSet { key: k.clone(), expected: None, wanted: None }, &both),
        (Update::Replace { key: k.clone(), wanted: Some(v.clone()) }, &both),
        (Update::Add { key: k.clone(), delta: 1 }, &both),
        (Update::AddFloat { key: k.clone(), delta: 1.0 }, &both),
        (Update::Assert { key: k.clone(), expected: None }, &["read k"]),
        (Update::AssertExists { key: k.clone() }, &["read k"]),
        (Update::AssertVersion { key: k.clone(), version: None }, &["read k"]),
        (Update::AssertAbsentSince { key: k.clone(), absence }, &["read k"]),
        (Update::AssertRange { prefix: k.clone(), keys: vec![key("x")] }, &["list k*"]),
        (Update::DeletePrefix { prefix: k.clone() }, &["write k*", "list k*"]),
        (
            Update::Rename { from: k.clone(), to: key("t"), when: When::Always },
            &["read k", "write k", "write t"],
        ),
        (
            Update::Copy { from: k.clone(), to: key("t"), when: When::Always },
            &["read k", "write t"],
        ),
        (Update::Nop, &["write part"]),
    ] {
        assert_eq!(update(case.clone()), expected, "{case:?}");
    }
    let sequence = |steps| Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
    assert_eq!(update(sequence(Vec::new())), ["write part"]);
    let inner = sequence(vec![Update::Replace { key: key("deep"), wanted: None }]);
    let read = Update::Read(Read::Get(key("r")));
    let nested = sequence(vec![set, sequence(vec![inner, read]), Update::Nop]);
    assert_eq!(update(nested), ["write k", "write deep", "read deep", "read r", "write part"]);
}

#[test]
fn ranges_counts_and_lists_need_list_for_the_whole_and_values_need_read() {
    let read = |read| needs(Call::Read(read, ReadLevel::Dirty));
    let range = Range {
        low: Bound::Included(key("a")),
        high: Bound::Excluded(key("c")),
        ..Range::default()
    };
    assert_eq!(read(Read::Range(range.clone())), ["list =a!c", "read =a!c"]);
    assert_eq!(read(Read::Range(Range { want: RowContent::Keys, ..range })), ["list =a!c"]);
    assert_eq!(read(Read::Range(Range::default())), ["list ....", "read ...."]);
    assert_eq!(read(Read::KeyCount), ["list all"]);
    assert_eq!(read(Read::Index(Box::default())), ["list all", "read all"]);
    let feed = |values| Read::Feed(Box::new(FeedQuery { values, ..FeedQuery::default() }));
    assert_eq!(read(feed(false)), ["list all"]);
    assert_eq!(read(feed(true)), ["list all", "read all"]);
    assert_eq!(read(Read::Get(key("k"))), ["read k"]);
    assert_eq!(read(Read::MultiGet(vec![key("a"), key("b")])), ["read a", "read b"]);
    assert_eq!(read(Read::KeyVersions(vec![key("a"), key("b")])), ["read a", "read b"]);
    assert_eq!(read(Read::KeyVersions(Vec::new())), ["read part"]);
    assert_eq!(read(Read::Exists(Vec::new())), ["read part"]);
    assert_eq!(read(Read::Assert { key: key("k"), expected: None }), ["read k"]);
    let available = |call| needs(Call::Available(call));
    let with_body = StoreOptions { return_body: true, ..StoreOptions::default() };
    let store = Store { key: key("k"), options: with_body, ..Store::default() };
    assert_eq!(available(AvailableCall::Store(Box::default())), ["write "]);
    assert_eq!(available(AvailableCall::Store(Box::new(store))), ["write k", "read k"]);
    let (k, context) = (key("k"), None);
    let remove = AvailableCall::Remove { key: k.clone(), context, options: with_body };
    assert_eq!(available(remove), ["write k", "read k"]);
    let change = TypeChange {
        key: k,
        operation: TypeOperation::Add(1),
        context: None,
        options: StoreOptions::default(),
    };
    assert_eq!(available(AvailableCall::Change(Box::new(change))), ["write k"]);
    assert_eq!(available(AvailableCall::Keys { after: None, rows_max: 1 }), ["list all"]);
    assert_eq!(available(AvailableCall::Buckets { after: None, rows_max: 1 }), ["list logs/*"]);
}

#[test]
fn directory_calls_need_own_place_secure_or_to_be_a_member() {
    let directory = |call| needs(Call::Directory(call));
    let cluster = |call| directory(DirectoryCall::Cluster(call));
    assert_eq!(directory(DirectoryCall::DropBucket), ["own all"]);
    assert_eq!(directory(DirectoryCall::ClearBucket), ["own all"]);
    assert_eq!(directory(DirectoryCall::DropType), ["own logs/*"]);
    assert_eq!(directory(DirectoryCall::ListTypes), ["list cluster"]);
    assert_eq!(directory(DirectoryCall::MoveBucket { group: GroupId(2) }), ["place cluster"]);
    let step =
        DirectoryCall::StepMove { id: BucketId(1), moving: BucketId(2), step: MoveStep::Finish };
    assert_eq!(directory(step), ["member"]);
    assert_eq!(directory(DirectoryCall::Ring(RingCall::Plan)), ["watch cluster"]);
    assert_eq!(directory(DirectoryCall::Ring(RingCall::Claim)), ["place cluster"]);
    assert_eq!(cluster(ClusterCall::Describe), ["watch cluster"]);
    assert_eq!(cluster(ClusterCall::DropGroup { group: GroupId(2) }), ["place cluster"]);
    assert_eq!(cluster(ClusterCall::MakeSecret), ["secure cluster"]);
    let digest = TokenDigest([0; TokenDigest::BYTES]);
    let call = Box::new(ClusterCall::DropGroup { group: GroupId(2) });
    let with_token = cluster(ClusterCall::WithToken { digest, call });
    assert!(with_token.is_empty(), "the directory checks the token, and which calls it admits");
    let index = |call| directory(DirectoryCall::Index(call));
    let name = || "by-name".to_string();
    assert_eq!(index(IndexCall::Create(IndexSpec::default())), ["own all"]);
    assert_eq!(index(IndexCall::Drop { name: name() }), ["own all"]);
    assert_eq!(index(IndexCall::Describe { name: name() }), ["read part"]);
    assert_eq!(index(IndexCall::List), ["read part"]);
    let (place, state) = (ReportPlace::Bucket(BucketId(1)), ReportedState::Removed);
    assert_eq!(index(IndexCall::Report(IndexReport { number: 1, place, state })), ["member"]);
    let switch = DirectoryCall::Access(AccessCall::Switch { on: false });
    assert_eq!(directory(switch), ["secure cluster"]);
    assert_eq!(needs(Call::Session(SessionCall::Close(SessionId(1)))), ["write part"]);
}

#[test]
fn change_of_the_audit_needs_secure_beside_own_and_other_properties_do_not() {
    let change = |name: &str| vec![("sync".into(), "sync".into()), (name.into(), "off".into())];
    let calls = |name: &str| {
        let place = BucketPlace::Group(GroupId(2));
        [
            (DirectoryCall::CreateBucket(change(name)), "own all"),
            (DirectoryCall::PlaceBucket { changes: change(name), place }, "own all"),
            (DirectoryCall::AlterBucket(change(name)), "own all"),
            (DirectoryCall::CreateType(change(name)), "own logs/*"),
            (DirectoryCall::AlterType(change(name)), "own logs/*"),
        ]
    };
    for (call, own) in calls("audit") {
        assert_eq!(needs(Call::Directory(call)), [own, "secure cluster"]);
    }
    for (call, own) in calls("counted") {
        assert_eq!(needs(Call::Directory(call)), [own]);
    }
    assert_eq!(needs(Call::Directory(DirectoryCall::ResetBucket)), ["own all"]);
}

#[test]
fn every_act_of_operators_needs_a_verb_of_the_cluster() {
    for act in Operate::ALL {
        assert!(act.needs().is_of_cluster() && act.needs().verb().is_some(), "{act:?}");
    }
    assert_eq!(Operate::ReadLogEntry.needs(), Need::Cluster(Verb::Secure));
}

#[test]
fn visit_of_needs_ends_with_the_first_refusal() {
    let steps = vec![Update::Nop, Update::DeletePrefix { prefix: key("p") }, Update::Nop];
    let sequence = Update::Sequence { steps, mode: SequenceMode::Batch };
    let mut visited = 0;
    let refused = request(Call::Update(sequence)).needs(&mut |need| {
        visited += 1;
        match need.verb() {
            Some(Verb::List) => Err(Error::new(Reason::Forbidden, "no")),
            _ => Ok(()),
        }
    });
    assert_eq!((refused.map_err(|error| error.reason), visited), (Err(Reason::Forbidden), 3));
}

/// Keys over a small alphabet with the lowest and the highest byte.
fn small_key(max: usize) -> impl Strategy<Value = Key> {
    let byte = prop::sample::select(&[0u8, 1, b'a', 0xFE, 0xFF][..]);
    prop::collection::vec(byte, 0..max).prop_map(Key::from)
}

/// Returns all keys of up to four such bytes.
fn universe() -> Vec<Key> {
    let mut keys = vec![Vec::new()];
    let mut begin = 0;
    for _ in 0..4 {
        let end = keys.len();
        for at in begin..end {
            // With the byte behind each, so that a range beyond a prefix holds a key.
            for byte in [0u8, 1, 2, b'a', b'b', 0xFE, 0xFF] {
                keys.push([&keys[at][..], &[byte]].concat());
            }
        }
        begin = end;
    }
    keys.into_iter().map(Key::from).collect()
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        Just(Bound::Open),
        small_key(4).prop_map(Bound::Included),
        small_key(4).prop_map(Bound::Excluded),
    ]
}

fn is_within(key: &Key, low: &Bound, high: &Bound) -> bool {
    let is_above = match low {
        Bound::Open => true,
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
    };
    is_above
        && match high {
            Bound::Open => true,
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
        }
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let bucket = || {
        prop::sample::select(&["logs/web", "logs/db", "other/web"][..])
            .prop_map(|name| BucketName::parse(name).expect("a name"))
    };
    let scope = prop_oneof![
        1 => Just(Scope::Cluster),
        1 => prop::sample::select(&["logs", "other"][..]).prop_map(|kind| Scope::Type(kind.into())),
        2 => bucket().prop_map(Scope::Bucket),
        6 => (bucket(), small_key(4)).prop_map(|(bucket, key)| Scope::of_prefix(bucket, key)),
    ];
    let verbs = prop::collection::vec(
        prop::sample::select(&[Verb::Read, Verb::Write, Verb::List, Verb::Own][..]),
        1..3,
    );
    let grant = (scope, verbs).prop_map(|(scope, verbs)| Grant { scope, verbs: Verbs::of(&verbs) });
    prop::collection::vec(grant, 0..5)
}

/// Function that tells whether a key is among those that a need names.
type KeyFilter<'a> = Box<dyn Fn(&Key) -> bool + 'a>;

/// Returns a need for each way to name keys, and whether the key is one of them.
fn key_needs<'a>(
    verb: Verb,
    (name, key): (&'a BucketName, &'a Key),
    (low, high): (&'a Bound, &'a Bound),
) -> Vec<(Need<'a>, KeyFilter<'a>)> {
    vec![
        (Need::Keys(verb, name, KeySet::One(key)), Box::new(move |other| other == key)),
        (Need::Keys(verb, name, KeySet::Prefix(key)), Box::new(move |it| it.starts_with(key))),
        (
            Need::Keys(verb, name, KeySet::Between(low, high)),
            Box::new(move |other| is_within(other, low, high)),
        ),
        (Need::Keys(verb, name, KeySet::All), Box::new(|_| true)),
    ]
}

/// Returns true if a grant allows the verb on one key, decided in the plainest way.
fn allows_key(grant: &Grant, verb: Verb, name: &BucketName, key: &Key) -> bool {
    grant.verbs.contains(verb)
        && match &grant.scope {
            Scope::Cluster => true,
            Scope::Type(kind) => kind == name.kind(),
            Scope::Bucket(bucket) => bucket == name,
            Scope::Prefix(bucket, prefix) => bucket == name && key.starts_with(prefix),
        }
}

proptest! {
    /// Law of coverage: a covered need touches no key beyond its grant, a refused one touches one,
    /// and compiled rights decide as the grants do one by one.
    #[test]
    fn grants_cover_exactly_the_key_sets_that_a_naive_filter_allows(
        grants in grants(),
        key in small_key(4),
        (low, high) in (bound(), bound()),
        verb in prop::sample::select(&[Verb::Read, Verb::Write, Verb::List, Verb::Own][..]),
    ) {
        let (rights, name, universe) = (Rights::new(&grants), bucket(), universe());
        for (need, includes) in key_needs(verb, (&name, &key), (&low, &high)) {
            let keys: Vec<_> = universe.iter().filter(|key| includes(key)).collect();
            for grant in &grants {
                let allows_all = keys.iter().all(|key| allows_key(grant, verb, &name, key));
                let covers = grant.covers(&need);
                prop_assert!(!covers || allows_all, "{grant} covers {need:?}");
                // An empty range may be refused: it names its ends.
                if !keys.is_empty() {
                    prop_assert_eq!(covers, allows_all, "{} and {:?}", grant, need);
                }
            }
            let is_empty_range = keys.is_empty();
            let by_grants = grants.iter().any(|grant| grant.covers(&need));
            let compiled = rights.cover(&need);
            prop_assert!(!compiled || by_grants);
            prop_assert!(is_empty_range || compiled == by_grants, "{need:?}");
        }
    }

    #[test]
    fn compiled_rights_decide_wider_needs_as_their_grants_do(grants in grants()) {
        let (rights, name) = (Rights::new(&grants), bucket());
        for verb in Verb::ALL {
            for need in [
                Need::Member,
                Need::Cluster(verb),
                Need::Type(verb, "logs"),
                Need::Keys(verb, &name, KeySet::Part),
                Need::Keys(verb, &name, KeySet::All),
            ] {
                let by_grants = grants.iter().any(|grant| grant.covers(&need));
                prop_assert_eq!(rights.cover(&need), by_grants, "{:?}", need);
            }
            let all = Need::Keys(verb, &name, KeySet::All);
            prop_assert_eq!(rights.on_bucket(&name).contains(verb), rights.cover(&all));
        }
        let part = |verb| rights.cover(&Need::Keys(verb, &name, KeySet::Part));
        let includes = Verb::ALL.into_iter().filter(|verb| !verb.is_of_cluster()).any(part);
        prop_assert_eq!(rights.include_bucket(&name), includes);
    }
}
