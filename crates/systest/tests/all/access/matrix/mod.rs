//! Matrix of rights: every operation of every protocol, as every user, at places within and beyond
//! its rights, at the master and at a node that forwards.
//!
//! Promises: the expected verdict comes from `model.rs`, which shares nothing with the product; an
//! operation without a row fails `complete.rs`; each row is allowed and denied at least once.
//! Never: judges an operation by its outcome: whether the right was there is all that counts.
//! Read next: `model.rs`, `http.rs`, `complete.rs`, `second_decision.rs`.

mod arakoon;
mod callers;
mod complete;
mod http;
mod model;
mod pbc;
mod resp;
mod second_decision;

use super::turn_on;
use callers::{HttpCaller, RespCaller};
use model::{MatrixTarget, MatrixUser, NamedNeed, USERS, grant_texts, may, targets};
use pbc::PbcCaller;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use systest::access::{AccessAdmin, AccessVerdict, basic};
use systest::client::{Arakoon, ArakoonCluster, Http};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, is_long_form};

const PASSWORD: &str = "matrix-password";
const ARAKOON_PORT: u16 = 7714;
const PBC_PORT: u16 = 8087;
/// User of Arakoon's listeners.
const ARAKOON_USER: &str = "ark";
/// Wrong verdicts that a failure shows.
const SHOWN_MAX: usize = 60;

/// Row of a table of operations.
pub struct Row {
    /// Operation, with variables for its place.
    pub text: &'static str,
    pub needs: Vec<NamedNeed>,
    /// True if the keys of the place are written before.
    pub is_prepared: bool,
    /// True if it needs no login.
    pub is_open: bool,
}

impl Row {
    /// Parses the rows of a table: `[+]OPERATION | NEEDS`.
    pub fn parse_all(table: &'static str) -> Vec<Row> {
        table.lines().filter(|line| !line.trim().is_empty()).map(Row::parse).collect()
    }

    fn parse(line: &'static str) -> Row {
        let (text, needs) = line.rsplit_once('|').expect("OPERATION | NEEDS");
        let (text, needs) = (text.trim(), needs.trim());
        let is_open = needs == "open";
        let needs = match needs {
            "-" | "open" => Vec::new(),
            needs => needs.split(' ').map(NamedNeed::parse).collect(),
        };
        let is_prepared = text.starts_with('+');
        Row { text: text.trim_start_matches('+'), needs, is_prepared, is_open }
    }
}

/// Verdicts so far.
#[derive(Default)]
pub struct MatrixReport {
    node: usize,
    wrong: Vec<String>,
    /// Number of times that each row was to be allowed, and to be denied.
    counts: BTreeMap<(&'static str, &'static str), (u64, u64)>,
}

impl MatrixReport {
    /// Compares a verdict with the one that the model expects.
    pub fn judge(
        &mut self,
        (protocol, user): (&'static str, &str),
        (row, target): (&Row, &MatrixTarget),
        is_allowed: bool,
        verdict: &AccessVerdict,
    ) {
        let count = self.counts.entry((protocol, row.text)).or_default();
        if is_allowed {
            count.0 += 1
        } else {
            count.1 += 1
        }
        let is_right = match verdict {
            AccessVerdict::Granted => is_allowed,
            AccessVerdict::Forbidden | AccessVerdict::Unauthenticated => !is_allowed,
            // Rights are decided before: what a node can't serve at the moment was allowed.
            AccessVerdict::Unavailable(_) => is_allowed,
        };
        if !is_right {
            let expected = if is_allowed { "allowed" } else { "denied" };
            let MatrixTarget { bucket, key, prefix } = target;
            self.wrong.push(format!(
                "{protocol} at n{}: {user}: {} ({bucket} {key} {prefix}*): {expected} expected, \
                 {verdict:?}",
                self.node, row.text
            ));
        }
    }

    /// Fails the test if a verdict was wrong, or if a row was never allowed or never denied.
    fn must_be_right(mut self) {
        for ((protocol, text), (allowed, denied)) in &self.counts {
            let is_open = complete::is_open(text);
            if *allowed == 0 || *denied == 0 && !is_open {
                let counts = format!("{allowed} times allowed, {denied} times denied");
                self.wrong.push(format!("{protocol}: {text}: {counts}"));
            }
        }
        let shown = &self.wrong[..self.wrong.len().min(SHOWN_MAX)];
        assert!(shown.is_empty(), "{} wrong: {shown:#?}", self.wrong.len());
    }
}

/// Users, their passwords and the administrator of the cluster.
struct MatrixSetup {
    cluster: Cluster,
    admin: AccessAdmin,
    admin_password: String,
    /// The master of the data, and a node that forwards to it.
    nodes: [usize; 2],
}

impl MatrixSetup {
    fn password(&self, user: &str) -> &str {
        if user == "admin" { &self.admin_password } else { PASSWORD }
    }

    fn header(&self, user: &str) -> String {
        basic(user, self.password(user))
    }

    fn arakoon_address(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.cluster.client_address(node).ip(), ARAKOON_PORT)
    }

    /// Gives the user of Arakoon's listeners a role, and waits until a node has applied that.
    fn set_arakoon_role(&self, node: usize, role: &str) {
        self.admin.run(&["user", "set", ARAKOON_USER, "--role", role]);
        let address = self.cluster.client_address(node);
        let header = self.header("admin");
        wait_until("the role of Arakoon's user", || {
            let mut client = Http::connect(address).map_err(|error| error.to_string())?;
            let headers = [("authorization", header.as_str())];
            let answer = client.request_with_headers("GET", "/v1/access", &headers, b"");
            let state = answer.map_err(|error| error.to_string())?.json();
            let mut users = state["users"].as_array().into_iter().flatten();
            let user = users.find(|user| user["name"] == ARAKOON_USER).cloned();
            match user.is_some_and(|user| user["roles"][0] == role) {
                true => Ok(()),
                false => Err(state.to_string()),
            }
        });
    }
}

/// Starts a cluster with the buckets and users of the matrix.
fn start(scratch: &Scratch) -> MatrixSetup {
    let mut options = Options::new(3);
    let listener = format!("@ADDRESS:{ARAKOON_PORT}");
    let pbc_listener = format!("@ADDRESS:{PBC_PORT}");
    options.args.extend(["--pbc-listen", &pbc_listener].map(String::from));
    let args = ["--arakoon-listen", &listener, "--arakoon-clusters", "m,o"];
    options.args.extend(args.map(String::from));
    options.args.extend(["--arakoon-user", ARAKOON_USER].map(String::from));
    let mut cluster = Cluster::start(scratch, options);
    cluster.must_serve();
    cluster.init_ring();
    let mut client = Http::connect(cluster.client_address(1)).expect("it listens");
    let created = client.request("PUT", "/v1/buckets/default/o", b"").expect("it answers");
    assert_eq!(created.status, 201, "{}", created.text());
    for id in ["m", "o"] {
        let address = |node| SocketAddr::new(cluster.client_address(node).ip(), ARAKOON_PORT);
        let nodes = cluster.nodes().map(|node| (format!("n{node}"), address(node))).collect();
        let arakoon = ArakoonCluster { id: id.into(), nodes };
        wait_until("Arakoon's bucket", || {
            let mut client = Arakoon::master(&arakoon).map_err(|error| error.message())?;
            client.set(b"k", b"v").map_err(|error| error.message())
        });
    }
    let nodes = [cluster.master(), cluster.follower()];
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    for user in &USERS {
        if !user.is_built_in {
            let grants = grant_texts(user);
            let grants: Vec<_> = grants.iter().map(String::as_str).collect();
            admin.set_role(user.name, &grants);
        }
        // The first administrator is made when access is turned on.
        if user.name != "admin" {
            admin.add_user(user.name, PASSWORD, user.name);
        }
    }
    admin.run(&["user", "add", ARAKOON_USER, "--role", "nobody"]);
    let admin_password = turn_on(&mut cluster);
    MatrixSetup { cluster, admin, admin_password, nodes }
}

/// Tables of HTTP operations, each with the places that it is tried at.
fn http_tables() -> [(&'static str, Vec<MatrixTarget>); 4] {
    let data = targets("default/default", "default/o");
    let available = targets("available/m", "available/o");
    [
        (http::DATA, data.to_vec()),
        (http::CLUSTER, data[..1].to_vec()),
        (http::AVAILABLE, available.to_vec()),
        (http::RIAK, available.to_vec()),
    ]
}

/// Tries all HTTP operations at a node, as a user or as nobody.
fn try_http(
    setup: &MatrixSetup,
    node: usize,
    user: Option<&'static MatrixUser>,
    report: &mut MatrixReport,
) {
    let address = setup.cluster.client_address(node);
    let header = user.map(|user| setup.header(user.name));
    let mut caller = HttpCaller::new(address, header);
    let mut admin = HttpCaller::new(address, Some(setup.header("admin")));
    for (table, targets) in http_tables() {
        for target in targets {
            for row in Row::parse_all(table) {
                if row.is_prepared {
                    admin.write_keys(&target);
                }
                let verdict = caller.ask(row.text, &target);
                let is_allowed = match user {
                    Some(user) => may(user, &row.needs, &target),
                    None => row.is_open,
                };
                let name = user.map_or("no login", |user| user.name);
                report.judge(("HTTP", name), (&row, &target), is_allowed, &verdict);
            }
        }
    }
}

/// Tries all commands of Redis' protocol at a node, as a user or as nobody.
fn try_resp(
    setup: &MatrixSetup,
    node: usize,
    user: Option<&'static MatrixUser>,
    report: &mut MatrixReport,
) {
    let address = setup.cluster.client_address(node);
    let name = user.map_or("no login", |user| user.name);
    let login = user.map(|user| (user.name, setup.password(user.name)));
    let data = targets("default/default", "default/o");
    for (table, targets) in [(resp::DATA, &data[..]), (resp::CLUSTER, &data[..1])] {
        for target in targets {
            let select = Row::parse("!CREDENZA.BUCKET $b | read:any");
            let is_allowed = |row: &Row| user.is_some_and(|user| may(user, &row.needs, target));
            let mut caller = RespCaller::new(address, login);
            // The default bucket need not be selected, so that whoever can't may still write.
            if target.bucket != "default/default" {
                let verdict = caller.ask(select.text, target);
                report.judge(("RESP", name), (&select, target), is_allowed(&select), &verdict);
                if !is_allowed(&select) {
                    continue;
                }
            }
            for row in Row::parse_all(table) {
                let verdict = caller.ask(row.text, target);
                report.judge(("RESP", name), (&row, target), is_allowed(&row), &verdict);
            }
        }
    }
}

/// Tries all messages of Riak's Protocol Buffers at a node, as a user or as nobody.
fn try_pbc(
    setup: &MatrixSetup,
    node: usize,
    user: Option<&'static MatrixUser>,
    report: &mut MatrixReport,
) {
    let client_address = setup.cluster.client_address(node);
    let address = SocketAddr::new(client_address.ip(), PBC_PORT);
    let login = user.map(|user| (user.name, setup.password(user.name)));
    let mut caller = PbcCaller::new(address, login);
    let mut admin = HttpCaller::new(client_address, Some(setup.header("admin")));
    for target in targets("available/m", "available/o") {
        for row in Row::parse_all(pbc::MESSAGES) {
            if row.is_prepared {
                admin.write_keys(&target);
            }
            let verdict = caller.ask(row.text, &target);
            let is_allowed = match user {
                Some(user) => may(user, &row.needs, &target),
                None => row.is_open,
            };
            let name = user.map_or("no login", |user| user.name);
            report.judge(("PBC", name), (&row, &target), is_allowed, &verdict);
        }
    }
}

#[test]
fn every_operation_is_allowed_and_denied_as_the_documents_say_in_every_protocol() {
    let _permit = experiment();
    let scratch = Scratch::new("matrix");
    let setup = start(&scratch);
    let (mut figures, mut report) =
        (Figures::start("S8 matrix of rights"), MatrixReport::default());
    complete::must_have_all_operations(setup.cluster.client_address(1), &setup.admin_password);
    for (at, user) in USERS.iter().map(Some).chain([None]).enumerate() {
        for (which, node) in setup.nodes.into_iter().enumerate() {
            // The short form tries every other user at the master, the others, the administrator
            // among them, at the node that forwards.
            if is_long_form() || at % 2 != which {
                report.node = node;
                try_http(&setup, node, user, &mut report);
                try_resp(&setup, node, user, &mut report);
                try_pbc(&setup, node, user, &mut report);
            }
        }
    }
    // This protocol's clients find the master themselves: it forwards nothing.
    let master = setup.nodes[0];
    report.node = master;
    for user in &USERS {
        setup.set_arakoon_role(master, user.name);
        for target in targets("arakoon/m", "arakoon/o") {
            let id = target.bucket.rsplit('/').next().unwrap_or_default();
            let listener = setup.arakoon_address(master);
            arakoon::try_role(listener, user, (id, &target), &mut report);
        }
    }
    figures.ok = report.counts.values().map(|(allowed, _)| allowed).sum();
    figures.fail = report.counts.values().map(|(_, denied)| denied).sum();
    figures.add("operations", report.counts.len());
    figures.add("wrong", report.wrong.len());
    figures.print();
    report.must_be_right();
}
