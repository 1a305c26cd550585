//! Users, roles and rights: which changes the directory accepts, and the matrix of what a role
//! allows.

use super::{Place, bytes, reason, request, set};
use crate::{Flow, Node, SubmitResult};
use base::access::{
    Grant, ListenerRights, Login, PasswordHash, Scope, Verb, Verbs, built_in_grants,
};
use base::limits::{API_TOKEN_MS_MAX, GRANTS_PER_ROLE_MAX, ROLES_PER_USER_MAX};
use base::range::{Bound, RowContent};
use base::request::{Expiry, OnMissing, SequenceMode, When};
use base::rights::Operate;
use base::{
    AccessCall, Body, BucketName, Call, ClusterCall, DirectoryCall, GroupId, NodeId, Partition,
    Principal, Range, Read, ReadLevel, Reason, Reply, Request, Result, RingCall, SessionCall,
    TokenDigest, Update,
};
use std::sync::Arc;

/// Role whose grants the matrix changes, and the user that has it.
pub(super) const ROLE: &str = "tried";
const USER: &str = "ada";

/// A hash that no password has.
fn hash() -> PasswordHash {
    let text = format!("{}{}${}", PasswordHash::PREFIX, "c".repeat(22), "H".repeat(43));
    PasswordHash::parse(&text).expect("it has the form")
}

pub(crate) async fn change(node: &Node, call: AccessCall) -> Result<()> {
    let call = Call::Directory(DirectoryCall::Access(call));
    node.handle(&Principal::Node, request(call)).await.map(|_| ())
}

pub(super) fn user(name: &str, roles: &[&str]) -> AccessCall {
    let roles = roles.iter().map(|role| String::from(*role)).collect();
    AccessCall::AddUser { name: name.into(), password: Some(hash()), roles }
}

pub(crate) fn role(name: &str, grants: &[&str]) -> AccessCall {
    let grants = grants.iter().map(|text| Grant::parse(text).expect("a grant")).collect();
    AccessCall::SetRole { name: name.into(), grants }
}

fn token(user: &str, role: &str, lifetime_ms: Option<u64>) -> AccessCall {
    let (label, roles) = ("ci".into(), vec![role.into()]);
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    AccessCall::AddApiToken { digest, user: user.into(), label, roles, lifetime_ms }
}

pub(super) fn principal(node: &Node, user: &str) -> Principal {
    let since = node.user_account(user).expect("a user").since;
    let login = Login { user: user.into(), since, token: None };
    Principal::User(Arc::new(login), ListenerRights::default())
}

/// Starts a node with access on, one administrator, and one user with an empty role.
pub(crate) async fn with_access(place: &Place) -> (Node, Principal) {
    let node = place.start().await;
    let principal = turn_on(&node).await;
    (node, principal)
}

/// Turns access on, with one administrator, and one user with an empty role, which it returns.
pub(super) async fn turn_on(node: &Node) -> Principal {
    change(node, AccessCall::Init { password: hash() }).await.expect("turned on");
    change(node, role(ROLE, &[])).await.expect("made");
    change(node, user(USER, &[ROLE])).await.expect("made");
    principal(node, USER)
}

#[tokio::test]
async fn invalid_changes_of_users_roles_and_tokens_are_refused() {
    let place = Place::new();
    let node = place.start().await;
    let on = || AccessCall::Switch { on: true };
    assert_eq!(reason(change(&node, on()).await), Reason::Changed, "nobody could log in");
    change(&node, role("web", &["read:logs/*"])).await.expect("made");
    change(&node, user("ada", &["web", "monitor"])).await.expect("made");
    assert_eq!(reason(change(&node, on()).await), Reason::Changed, "nobody could turn it off");
    let too_many_roles = vec!["web"; ROLES_PER_USER_MAX + 1];
    for (call, refusal) in [
        (user("a/b", &["web"]), Reason::Malformed),
        (user("bob", &["none"]), Reason::NotFound),
        (user("bob", &too_many_roles), Reason::TooLarge),
        (user("ada", &["web"]), Reason::AlreadyExists),
        (role("reader", &["read:logs/*"]), Reason::NotSupported),
        (role("a b", &["read:logs/*"]), Reason::Malformed),
        (role("web", &["read:logs/*"; GRANTS_PER_ROLE_MAX + 1]), Reason::TooLarge),
        (AccessCall::RemoveRole { name: "web".into() }, Reason::Changed),
        (AccessCall::RemoveRole { name: "none".into() }, Reason::NotFound),
        (AccessCall::RemoveRole { name: "admin".into() }, Reason::NotSupported),
        (AccessCall::RemoveUser { name: "bob".into() }, Reason::NotFound),
        (AccessCall::SetPassword { name: "bob".into(), password: None }, Reason::NotFound),
        (token("bob", "web", None), Reason::NotFound),
        (token("ada", "admin", None), Reason::Malformed),
        (token("ada", "web", Some(0)), Reason::Malformed),
        (token("ada", "web", Some(API_TOKEN_MS_MAX + 1)), Reason::Malformed),
        (AccessCall::RevokeApiToken { user: "ada".into(), label: "ci".into() }, Reason::NotFound),
    ] {
        assert_eq!(reason(change(&node, call.clone()).await), refusal, "{call:?}");
    }
    let largest = ["read:logs/*"; GRANTS_PER_ROLE_MAX];
    change(&node, role("web", &largest)).await.expect("as many as may be");
    change(&node, user("bob", &vec!["web"; ROLES_PER_USER_MAX])).await.expect("as many as may be");
    change(&node, token("ada", "web", Some(API_TOKEN_MS_MAX))).await.expect("as long as may be");
    let again = change(&node, token("ada", "web", None)).await;
    assert_eq!(reason(again), Reason::AlreadyExists);
    change(&node, AccessCall::Init { password: hash() }).await.expect("turned on");
    let again = change(&node, AccessCall::Init { password: hash() }).await;
    assert_eq!(reason(again), Reason::AlreadyExists);
    assert!(node.is_access_on());
    change(&node, AccessCall::RemoveUser { name: "ada".into() }).await.expect("removed");
    assert!(node.api_tokens_of("ada").is_empty(), "they go with their user");
    let version = node.access_version();
    node.stop().await.expect("it stops");
    let node = place.start().await;
    assert!(node.is_access_on() && node.access_version() == version, "it is on after a restart");
    let names: Vec<_> = node.user_accounts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["admin", "bob"]);
    change(&node, AccessCall::Switch { on: false }).await.expect("turned off");
    assert!(!node.is_access_on());
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn nobody_is_served_without_a_valid_login_while_access_is_on() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    let get = || request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent));
    let listener = ListenerRights { operates: true, ..ListenerRights::default() };
    let anonymous = Principal::Anonymous(listener);
    let refused = node.handle(&anonymous, get()).await;
    assert_eq!(reason(refused), Reason::Unauthenticated);
    let refused = node.authorize(&anonymous, Operate::ShowStatus);
    assert_eq!(reason(refused), Reason::Unauthenticated);
    assert_eq!(reason(node.handle(&user, get()).await), Reason::Forbidden);
    change(&node, role(ROLE, &["read:cluster"])).await.expect("changed");
    let mut flow = Flow::of(user.clone());
    let SubmitResult::Ready(Ok(_)) = node.submit(&mut flow, get()) else { panic!("it may read") };
    // A login that was served ends with its password.
    change(&node, AccessCall::SetPassword { name: USER.into(), password: None })
        .await
        .expect("set");
    let SubmitResult::Ready(Err(ended)) = node.submit(&mut flow, get()) else {
        panic!("it is refused at once")
    };
    assert_eq!(ended.reason, Reason::Unauthenticated);
    // Off: the listener decides, and data are open.
    change(&node, AccessCall::Switch { on: false }).await.expect("turned off");
    let anonymous = Principal::Anonymous(ListenerRights::default());
    node.handle(&anonymous, get()).await.expect("everybody may read");
    assert_eq!(reason(node.authorize(&anonymous, Operate::ShowStatus)), Reason::Forbidden);
    node.stop().await.expect("it stops");
}

/// Smallest scope that a need is within. A grant of a larger one covers it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Within {
    Prefix,
    Bucket,
    Type,
    Cluster,
    /// Only nodes may.
    Nodes,
}

type Operation = (Call, Vec<(Verb, Within)>);

fn range(low: Bound, high: Bound, want: RowContent) -> Call {
    let range = Range { low, high, want, ..Range::prefix(bytes("")) };
    Call::Read(Read::Range(range), ReadLevel::Consistent)
}

fn reads() -> Vec<Operation> {
    use Verb::{List, Read as See};
    use Within::{Bucket, Prefix};
    let read = |read| Call::Read(read, ReadLevel::Consistent);
    let (from, to) = (|| Bound::Included(bytes("p/a")), || Bound::Excluded(bytes("p/z")));
    let beyond = || Bound::Included(bytes("q"));
    vec![
        (read(Read::Get(bytes("p/k"))), vec![(See, Prefix)]),
        (read(Read::Get(bytes("q"))), vec![(See, Bucket)]),
        (read(Read::Exists(vec![bytes("p/k"), bytes("p/l")])), vec![(See, Prefix)]),
        (read(Read::MultiGet(vec![bytes("p/k"), bytes("q")])), vec![(See, Bucket)]),
        (read(Read::KeyCount), vec![(List, Bucket)]),
        (range(from(), to(), RowContent::Keys), vec![(List, Prefix)]),
        (range(from(), to(), RowContent::Entries), vec![(List, Prefix), (See, Prefix)]),
        (range(from(), beyond(), RowContent::Keys), vec![(List, Bucket)]),
        (range(from(), Bound::Open, RowContent::Keys), vec![(List, Bucket)]),
        (range(Bound::Open, to(), RowContent::Keys), vec![(List, Bucket)]),
    ]
}

fn updates() -> Vec<Operation> {
    use Verb::{List, Read as See, Write};
    use Within::{Bucket, Prefix};
    let key = || bytes("p/k");
    let sequence = |steps| Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
    let nested = sequence(vec![
        set("p/k", "v"),
        sequence(vec![Update::Nop, Update::Read(Read::Get(bytes("q")))]),
    ]);
    let set_if =
        Update::SetIf { key: key(), value: key(), expiry: Expiry::Default, when: When::Always };
    let rename = Update::Rename { from: key(), to: bytes("p/l"), when: When::Always };
    let copy = Update::Copy { from: key(), to: bytes("q"), when: When::Always };
    [
        (set("p/k", "v"), vec![(Write, Prefix)]),
        (set("q", "v"), vec![(Write, Bucket)]),
        (set_if, vec![(Write, Prefix), (See, Prefix)]),
        (Update::Add { key: key(), delta: 1 }, vec![(Write, Prefix), (See, Prefix)]),
        (Update::Delete { key: key(), missing: OnMissing::Skip }, vec![(Write, Prefix)]),
        (Update::Assert { key: key(), expected: None }, vec![(See, Prefix)]),
        (rename, vec![(See, Prefix), (Write, Prefix)]),
        (copy, vec![(See, Prefix), (Write, Bucket)]),
        (Update::DeletePrefix { prefix: bytes("p/") }, vec![(Write, Prefix), (List, Prefix)]),
        (Update::DeletePrefix { prefix: bytes("p") }, vec![(Write, Bucket), (List, Bucket)]),
        (nested, vec![(Write, Prefix), (See, Bucket)]),
    ]
    .into_iter()
    .map(|(update, needs)| (Call::Update(update), needs))
    .collect()
}

fn others() -> Vec<Operation> {
    use Verb::{List, Own, Place as Move, Read as See, Secure, Watch, Write};
    use Within::{Bucket, Cluster, Nodes, Prefix, Type};
    let since = 1;
    let received = RingCall::Received { since, partition: Partition(0), node: NodeId(9) };
    let remove = ClusterCall::RemoveMember { name: "nobody".into() };
    let list = DirectoryCall::ListBuckets { after: None, rows_max: 10 };
    let directory = [
        (DirectoryCall::DescribeBucket, vec![(See, Prefix)]),
        (DirectoryCall::AlterBucket(Vec::new()), vec![(Own, Bucket)]),
        (DirectoryCall::AlterType(Vec::new()), vec![(Own, Type)]),
        (list, vec![(List, Cluster)]),
        (DirectoryCall::ListTypes, vec![(List, Cluster)]),
        (DirectoryCall::MoveBucket { group: GroupId(99) }, vec![(Move, Cluster)]),
        (DirectoryCall::Cluster(ClusterCall::Describe), vec![(Watch, Cluster)]),
        (DirectoryCall::Cluster(remove), vec![(Move, Cluster)]),
        (DirectoryCall::Cluster(ClusterCall::RevokeTokens), vec![(Secure, Cluster)]),
        (DirectoryCall::Ring(RingCall::Describe), vec![(Watch, Cluster)]),
        (DirectoryCall::Ring(RingCall::Clear), vec![(Move, Cluster)]),
        (DirectoryCall::Ring(received), vec![(Own, Nodes)]),
        (DirectoryCall::Access(AccessCall::Switch { on: true }), vec![(Secure, Cluster)]),
    ];
    let directory = directory.into_iter().map(|(call, needs)| (Call::Directory(call), needs));
    let session = (Call::Session(SessionCall::Open), vec![(Write, Prefix)]);
    directory.chain([session]).collect()
}

/// Returns the grants that the matrix tries: each set of verbs of data on each scope, one on
/// another bucket, each verb of the cluster, and those of the built-in roles.
fn tried() -> Vec<Vec<Grant>> {
    let bucket = BucketName::default();
    let elsewhere = BucketName::new(bucket.kind(), "elsewhere").expect("a name");
    let scopes = [
        Scope::of_prefix(bucket.clone(), bytes("p/")),
        Scope::Bucket(bucket.clone()),
        Scope::Type(bucket.kind().into()),
        Scope::Cluster,
        Scope::Bucket(elsewhere),
    ];
    let data: Vec<_> = Verb::ALL.into_iter().filter(|verb| !verb.is_of_cluster()).collect();
    let mut tried = vec![Vec::new()];
    for scope in &scopes {
        for set in 1..1_u32 << data.len() {
            let verbs = data.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            let verbs: Vec<_> = verbs.map(|(_, verb)| *verb).collect();
            tried.push(vec![Grant { scope: scope.clone(), verbs: Verbs::of(&verbs) }]);
        }
    }
    let of_cluster = Verb::ALL.into_iter().filter(|verb| verb.is_of_cluster());
    let one = |verb| vec![Grant { scope: Scope::Cluster, verbs: Verbs::of(&[verb]) }];
    tried.extend(of_cluster.map(one));
    tried.extend(
        ["admin", "operator", "reader", "writer"].iter().filter_map(|it| built_in_grants(it)),
    );
    tried
}

/// Returns true if a single grant covers a need, by the sizes of their scopes.
fn covers(grant: &Grant, (verb, within): (Verb, Within)) -> bool {
    let bucket = BucketName::default();
    let size = match &grant.scope {
        Scope::Prefix(..) => Within::Prefix,
        Scope::Bucket(name) if *name == bucket => Within::Bucket,
        Scope::Bucket(_) => return false,
        Scope::Type(_) => Within::Type,
        Scope::Cluster => Within::Cluster,
    };
    grant.verbs.contains(verb) && size >= within
}

/// Submits every operation with every set of grants, and checks that exactly those are refused
/// that the grants don't cover. `ask` submits a request for the user, by the way that is tried.
pub(crate) async fn check_matrix(node: &Node, ask: impl AsyncFn(&Request) -> Result<Reply>) {
    let operations = [reads(), updates(), others()].concat();
    let (mut allowed, mut refused) = (0, 0);
    for grants in tried() {
        let name = ROLE.into();
        change(node, AccessCall::SetRole { name, grants: grants.clone() }).await.expect("set");
        for (call, needs) in &operations {
            let answer = ask(&request(call.clone())).await;
            let is_allowed =
                needs.iter().all(|need| grants.iter().any(|grant| covers(grant, *need)));
            match is_allowed {
                true => allowed += 1,
                false => refused += 1,
            }
            let is_refused = answer.as_ref().is_err_and(|error| error.reason == Reason::Forbidden);
            assert_eq!(is_refused, !is_allowed, "{call:?} with {grants:?}: {answer:?}");
        }
    }
    assert!(allowed > 500 && refused > 2_000, "{allowed} allowed, {refused} refused");
}

#[tokio::test]
async fn requests_are_refused_exactly_where_grants_do_not_cover_their_needs() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    check_matrix(&node, async |request| node.handle(&user, request.clone()).await).await;
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn acts_of_operators_are_refused_exactly_without_their_verb() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    for verb in Verb::ALL {
        change(&node, role(ROLE, &[&format!("{}:cluster", verb.name())])).await.expect("set");
        for act in Operate::ALL {
            let is_allowed = act.needs().verb() == Some(verb);
            assert_eq!(node.authorize(&user, act).is_ok(), is_allowed, "{act:?} with {verb:?}");
            assert!(node.authorize(&Principal::LocalOperator, act).is_ok());
        }
    }
    let open = request(Call::Session(SessionCall::Open));
    let opened = node.handle(&Principal::LocalOperator, open).await.expect("it may do anything");
    assert!(matches!(opened.body, Body::Session(_)));
    node.stop().await.expect("it stops");
}
