//! Completeness of the matrix: each operation that a protocol offers, and each request and act that
//! the product knows, has a row.
//!
//! The matches have no wildcard: a new variant does not compile before it names its row.

use super::{Row, arakoon, http, pbc, resp};
use base::rights::Operate;
use base::{
    AccessCall, AvailableCall, Call, ClusterCall, DirectoryCall, Read, RingCall, SessionCall,
    Update,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use systest::client::{Http, Resp, RespReply};

/// Row of an operation that only members send to each other: no client's protocol has a form of it.
/// `docs/inside/peers.md`.
const MEMBERS: &str = "(members only)";

/// Defines a function from each variant of a type to its row, and the list of all these rows.
macro_rules! rows_of {
    ($function:ident, $list:ident, $kind:ty, { $($pattern:pat => $row:expr,)* }) => {
        const $list: &[&str] = &[$($row),*];

        fn $function(value: &$kind) -> &'static str {
            match value { $($pattern => $row,)* }
        }
    };
}

rows_of!(update_row, UPDATES, Update, {
    Update::Set { .. } => r#""op":"set","#,
    Update::SetIf { .. } => r#""op":"set_if","#,
    // A client of Riak writes tags; its request becomes this at the node that takes it.
    Update::SetTagged(_) => MEMBERS,
    Update::Delete { .. } => r#""op":"delete","#,
    Update::TestAndSet { .. } => r#""op":"test_and_set","#,
    Update::Replace { .. } => r#""op":"replace","#,
    Update::Confirm { .. } => r#""op":"confirm","#,
    Update::Assert { .. } => r#"/update {"op":"assert","#,
    Update::AssertExists { .. } => r#"/update {"op":"assert_exists","#,
    Update::AssertRange { .. } => r#""op":"assert_range","#,
    Update::AssertVersion { .. } => r#""op":"assert_version","#,
    // Its version comes from a read of the key: who may not read it can't name one.
    Update::AssertAbsentSince { .. } => "!WATCH $k; UNWATCH",
    Update::DeletePrefix { .. } => r#""op":"delete_prefix","#,
    Update::Add { .. } => r#""op":"add","#,
    Update::AddFloat { .. } => r#""op":"add_float","#,
    Update::Append { .. } => r#""op":"append","#,
    Update::SetRange { .. } => r#""op":"set_range","#,
    Update::Rename { .. } => r#""op":"rename","#,
    Update::Copy { .. } => r#""op":"copy","#,
    Update::Expire { .. } => r#""op":"expire","#,
    Update::Read(_) => r#"/update {"op":"get","#,
    Update::Nop => r#""op":"nop"}"#,
    Update::Sequence { .. } => r#""op":"sequence","#,
});

rows_of!(read_row, READS, Read, {
    Read::Get(_) => r#"/read {"op":"get","#,
    Read::Exists(_) => r#"/read {"op":"exists","#,
    Read::MultiGet(_) => "/multi_get ",
    Read::MultiGetAll(_) => r#""require_all":true"#,
    Read::Range(_) => r#"/read {"op":"range","#,
    Read::KeyCount => r#"/read {"op":"key_count"}"#,
    Read::Assert { .. } => r#"/read {"op":"assert","#,
    Read::AssertExists(_) => r#"/read {"op":"assert_exists","#,
    Read::Index(_) => "GET /v1/buckets/$b/index/missing?",
    Read::Feed(_) => "GET /v1/buckets/$b/feed",
    Read::KeyVersions(_) => "!WATCH $k; UNWATCH",
});

rows_of!(session_row, SESSIONS, SessionCall, {
    SessionCall::Open => "POST /v1/sessions/",
    SessionCall::Close(_) => "DELETE /v1/sessions/",
});

rows_of!(available_row, AVAILABLE, AvailableCall, {
    AvailableCall::Fetch { .. } => "GET /v1/buckets/$b/siblings/",
    AvailableCall::Store(_) => "PUT /v1/buckets/$b/siblings/",
    AvailableCall::Remove { .. } => "DELETE /v1/buckets/$b/siblings/",
    AvailableCall::Keys { .. } => "GET /v1/buckets/$b/keys",
    AvailableCall::Buckets { .. } => "GET /buckets?buckets=true",
    AvailableCall::Change(_) => "POST /v1/buckets/$b/datatypes/",
    AvailableCall::FetchType { .. } => "GET /v1/buckets/$b/datatypes/",
    AvailableCall::Owners { .. } => "/preflist",
});

rows_of!(directory_row, DIRECTORY, DirectoryCall, {
    DirectoryCall::CreateBucket(_) => "PUT /v1/buckets/$b",
    DirectoryCall::AlterBucket(_) => "PATCH /v1/buckets/$b",
    DirectoryCall::DropBucket => "DELETE /v1/buckets/default/dropped",
    DirectoryCall::ClearBucket => "POST /v1/buckets/$b/clear",
    DirectoryCall::DescribeBucket => "GET /v1/buckets/$b",
    DirectoryCall::ListBuckets { .. } => "GET /v1/buckets",
    DirectoryCall::CreateType(_) => "PUT /v1/types/",
    DirectoryCall::AlterType(_) => "PATCH /v1/types/",
    DirectoryCall::DropType => "DELETE /v1/types/",
    DirectoryCall::ListTypes => "GET /v1/types",
    DirectoryCall::Cluster(_) => "GET /v1/cluster/members",
    // The same route and the same need as a bucket without a chosen group.
    DirectoryCall::PlaceBucket { .. } => "PUT /v1/buckets/$b",
    DirectoryCall::MoveBucket { .. } => "POST /v1/buckets/default/default/move",
    DirectoryCall::CancelMove => "DELETE /v1/buckets/default/default/move",
    DirectoryCall::StepMove { .. } => MEMBERS,
    DirectoryCall::Ring(_) => "GET /v1/cluster/ring",
    DirectoryCall::ResetBucket => "DELETE /v1/buckets/$b/properties",
    DirectoryCall::Access(_) => "PUT /v1/access",
    DirectoryCall::Index(_) => "DELETE /v1/buckets/$b/indexes/",
});

rows_of!(cluster_row, MEMBERSHIP, ClusterCall, {
    ClusterCall::Describe => "GET /v1/cluster/members",
    ClusterCall::AddMember { .. } => "POST /v1/cluster/members ",
    ClusterCall::UpdateMember { .. } => "PATCH /v1/cluster/members",
    ClusterCall::RemoveMember { .. } => "DELETE /v1/cluster/members/",
    ClusterCall::ReplaceMember { .. } => "/replace",
    ClusterCall::SetPart { .. } => "/part ",
    ClusterCall::PlaceGroup { .. } => "PUT /v1/cluster/groups/99 ",
    ClusterCall::SetQuorum { .. } => "/quorum ",
    ClusterCall::RaiseLevel { .. } => "POST /v1/cluster/level",
    ClusterCall::CreateGroup { .. } => "POST /v1/cluster/groups ",
    ClusterCall::DropGroup { .. } => "DELETE /v1/cluster/groups/",
    // A join token instead of a login: `end_to_end/admission.rs` tries it.
    ClusterCall::WithToken { .. } => MEMBERS,
    ClusterCall::AddToken { .. } => "POST /v1/cluster/tokens",
    ClusterCall::RevokeTokens => "DELETE /v1/cluster/tokens",
    ClusterCall::MakeSecret => "POST /v1/cluster/secret",
});

rows_of!(ring_row, RING, RingCall, {
    RingCall::Describe => "GET /v1/cluster/ring",
    RingCall::Claim => "PUT /v1/cluster/ring",
    RingCall::Plan => "GET /v1/cluster/ring/plan",
    RingCall::Stage(_) => "POST /v1/cluster/ring/plan",
    RingCall::Clear => "DELETE /v1/cluster/ring/plan",
    RingCall::Commit { .. } => "POST /v1/cluster/ring/commit",
    RingCall::Cancel => "POST /v1/cluster/ring/cancel",
    RingCall::Transfers => "GET /v1/cluster/ring/transfers",
    RingCall::Received { .. } | RingCall::Cleared { .. } => MEMBERS,
});

rows_of!(access_row, ACCESS, AccessCall, {
    AccessCall::Switch { .. } => "PUT /v1/access ",
    AccessCall::Init { .. } => "POST /v1/access/init",
    AccessCall::AddUser { .. } => "PUT /v1/access/users/made ",
    AccessCall::ChangeUser { .. } => "PATCH /v1/access/users/",
    AccessCall::SetPassword { .. } => "/password ",
    AccessCall::SetQuota { .. } => "PUT /v1/access/users/missing/quota ",
    AccessCall::RemoveUser { .. } => "DELETE /v1/access/users/missing",
    AccessCall::AddApiToken { .. } => "POST /v1/access/users/missing/tokens",
    AccessCall::RevokeApiToken { .. } => "DELETE /v1/access/users/missing/tokens/",
    AccessCall::SetRole { .. } => "PUT /v1/access/roles/",
    AccessCall::RemoveRole { .. } => "DELETE /v1/access/roles/",
});

rows_of!(act_row, ACTS, Operate, {
    Operate::ShowStatus => "GET /status",
    Operate::ShowMetrics => "GET /metrics",
    Operate::ShowCluster => "GET /v1/cluster",
    Operate::ShowMove => "GET /v1/buckets/default/default/move",
    // In Arakoon's protocol: `STATISTICS`.
    Operate::ShowStatistics => "13",
    Operate::ListClients => "!CLIENT LIST",
    Operate::ListCheckpoints => "GET /v1/admin/checkpoints",
    Operate::ShowLogLevels => "GET /v1/admin/log-levels",
    Operate::ShowSlowRequests => "GET /v1/admin/slow-requests",
    Operate::ShowHotKeys => "GET /v1/admin/hot-keys",
    Operate::EndClients => "!CLIENT KILL",
    Operate::ResetCounts => "!CONFIG RESETSTAT",
    Operate::ClearSlowRequests => "DELETE /v1/admin/slow-requests",
    Operate::Reload => "POST /v1/admin/reload",
    Operate::MakeCheckpoint => "POST /v1/admin/checkpoint",
    Operate::RemoveCheckpoint => "DELETE /v1/admin/checkpoints/",
    Operate::SetLogLevels => "PUT /v1/admin/log-levels",
    Operate::CompareReplicas => "/verify",
    Operate::TransferMaster => "/transfer ",
    Operate::ReadLogEntry => "/values/",
    Operate::ShowAccess => "GET /v1/access",
    Operate::ChangeAccess => "PUT /v1/access/users/made ",
});

/// Rows of calls by kind; a kind without rows of its own names those of its variants.
fn call_rows(call: &Call) -> &'static [&'static str] {
    match call {
        Call::Read(..) => READS,
        Call::Update(_) => UPDATES,
        Call::Directory(_) => DIRECTORY,
        Call::Session(_) => SESSIONS,
        Call::Available(_) => AVAILABLE,
    }
}

/// Returns all rows of all tables.
fn all_rows() -> Vec<Row> {
    let tables = [
        http::DATA,
        http::AVAILABLE,
        http::CLUSTER,
        http::RIAK,
        pbc::MESSAGES,
        resp::DATA,
        resp::CLUSTER,
        arakoon::COMMANDS,
    ];
    tables.into_iter().flat_map(Row::parse_all).collect()
}

/// Returns true if a row needs no login, so that nobody is denied it.
pub fn is_open(text: &str) -> bool {
    all_rows().iter().any(|row| row.text == text && row.is_open)
}

#[test]
fn every_request_and_act_has_a_row_in_the_matrix() {
    let rows = all_rows();
    let named = [UPDATES, READS, SESSIONS, AVAILABLE, DIRECTORY, MEMBERSHIP, RING, ACCESS, ACTS];
    for name in named.concat().into_iter().filter(|name| *name != MEMBERS) {
        assert!(rows.iter().any(|row| row.text.contains(name)), "no row has `{name}`");
    }
    assert_eq!(ACTS.len(), Operate::ALL.len());
    for act in Operate::ALL {
        assert!(ACTS.contains(&act_row(&act)));
    }
    // One of each kind, so that the functions are used: the compiler checks their matches.
    let key = base::Key::new();
    assert_eq!(call_rows(&Call::Update(Update::Nop)), UPDATES);
    assert_eq!(update_row(&Update::Nop), r#""op":"nop"}"#);
    assert_eq!(read_row(&Read::KeyCount), r#"/read {"op":"key_count"}"#);
    assert_eq!(session_row(&SessionCall::Open), "POST /v1/sessions/");
    assert_eq!(available_row(&AvailableCall::Owners { key }), "/preflist");
    assert_eq!(directory_row(&DirectoryCall::ListTypes), "GET /v1/types");
    assert_eq!(cluster_row(&ClusterCall::MakeSecret), "POST /v1/cluster/secret");
    assert_eq!(ring_row(&RingCall::Claim), "PUT /v1/cluster/ring");
    assert_eq!(access_row(&AccessCall::Switch { on: true }), "PUT /v1/access ");
}

/// Fails the test unless the tables have every route, command and code that a node offers.
pub fn must_have_all_operations(address: SocketAddr, admin_password: &str) {
    let mut missing = missing_routes(address);
    missing.extend(missing_commands(address, admin_password));
    missing.extend(missing_codes());
    assert!(missing.is_empty(), "the matrix lacks {missing:#?}");
}

/// Returns true if a path is one of those that a route describes: `{name}` stands for a part.
fn is_of_route(path: &str, route: &str) -> bool {
    let path: Vec<_> = path.split('?').next().unwrap_or_default().split('/').collect();
    let route: Vec<_> = route.split('/').collect();
    let fits = |(part, pattern): (&&str, &&str)| pattern.starts_with('{') || part == pattern;
    path.len() == route.len() && path.iter().zip(&route).all(fits)
}

fn missing_routes(address: SocketAddr) -> Vec<String> {
    let mut client = Http::connect(address).expect("it listens");
    let document = client.request("GET", "/openapi.json", b"").expect("it answers").json();
    let rows = [http::DATA, http::AVAILABLE, http::CLUSTER].map(Row::parse_all).into_iter();
    let rows: Vec<_> = rows
        .flatten()
        .map(|row| row.text.replace("$u", "/v1/buckets/$b"))
        .map(|text| text.replace("$b", "default/b").replace("$t", "default"))
        .collect();
    let has_row = |method: &str, route: &str| {
        rows.iter().any(|row| {
            let mut words = row.split(' ');
            words.next() == Some(method)
                && words.next().is_some_and(|path| is_of_route(path, route))
        })
    };
    let paths = document["paths"].as_object().expect("the document has paths");
    assert!(paths.len() > 40, "{} paths", paths.len());
    let routes = paths.iter().flat_map(|(route, methods)| {
        let methods = methods.as_object().into_iter().flat_map(|methods| methods.keys());
        methods.map(move |method| (method.to_uppercase(), route))
    });
    let is_method =
        |method: &str| matches!(method, "GET" | "HEAD" | "PUT" | "POST" | "PATCH" | "DELETE");
    let missing = routes.filter(|(method, route)| is_method(method) && !has_row(method, route));
    missing.map(|(method, route)| format!("{method} {route}")).collect()
}

/// Collects the names of commands in an answer of `COMMAND DOCS`: each with a list of facts, among
/// which its subcommands are such an answer again.
fn command_names(docs: &RespReply, names: &mut BTreeSet<String>) {
    for pair in docs.list().chunks(2) {
        let [name, facts] = pair else { return };
        let name = String::from_utf8_lossy(name.bytes().unwrap_or_default()).into_owned();
        let mut has_subcommands = false;
        for fact in facts.list().chunks(2) {
            if fact[0].bytes() == Some(b"subcommands") {
                has_subcommands = true;
                command_names(&fact[1], names);
            }
        }
        if !has_subcommands {
            names.insert(name);
        }
    }
}

fn missing_commands(address: SocketAddr, admin_password: &str) -> Vec<String> {
    let mut client = Resp::connect(address).expect("it listens");
    super::super::log_in(&mut client, "admin", admin_password);
    let mut names = BTreeSet::new();
    command_names(&client.call_line("COMMAND DOCS").expect("it answers"), &mut names);
    assert!(names.len() > 100, "{} commands", names.len());
    let rows = Row::parse_all(resp::DATA).into_iter().chain(Row::parse_all(resp::CLUSTER));
    let mut tried: BTreeSet<String> = resp::OPEN.map(String::from).into();
    for row in rows {
        for line in row.text.split(';').map(|line| line.trim().trim_start_matches('!')) {
            let mut words = line.split(' ').map(str::to_ascii_lowercase);
            let name = words.next().unwrap_or_default();
            tried.extend(words.next().map(|sub| format!("{name}|{sub}")));
            tried.insert(name);
        }
    }
    names.into_iter().filter(|name| !tried.contains(name)).collect()
}

fn missing_codes() -> Vec<String> {
    let page = systest::tidy::root().join("docs/use/arakoon.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let code = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        u32::from_str_radix(cells.nth(1)?, 16).ok()
    };
    let codes: BTreeSet<u32> = page.lines().filter_map(code).collect();
    assert!(codes.len() > 40, "{} codes", codes.len());
    let tried: BTreeSet<u32> = arakoon::codes().into_iter().collect();
    codes.difference(&tried).map(|code| format!("Arakoon's command {code:02x}")).collect()
}
