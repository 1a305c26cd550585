//! Second decision: the matrix through a node that forwards, in a program whose front-ends decide
//! nothing. The node that opens a forwarded request must deny it as if it had entered there.
//!
//! A node's own counter says which requests it has forwarded. Of the others, everybody is allowed
//! everything: that is the control by which the program is known to be broken.

use super::callers::{HttpCaller, RespCaller};
use super::model::{MatrixTarget, MatrixUser, USERS, may, targets};
use super::{MatrixReport, MatrixSetup, Row, http_tables, resp, start};
use crate::faults::mutants::{SKIP_FRONT_END_RIGHTS, build, missing_builder};
use std::collections::BTreeSet;
use std::path::Path;
use systest::access::AccessVerdict;
use systest::cluster::{Cluster, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, is_long_form, skipped};
use systest::server::MUTANT_VARIABLE;

/// Fewest operations that a follower must have forwarded and its master denied.
const DENIED_MIN: usize = 100;
/// Fewest commands that the data's master must have carried out for a user without any right.
const SERVED_MIN: usize = 40;
/// Attempts of a request that seems to be forwarded and allowed: the node may have forwarded
/// something of its own meanwhile.
const ATTEMPTS: usize = 3;

/// Protocol and text of an operation.
type Operation = (&'static str, &'static str);

/// Trial of all operations at a node that forwards.
struct ForwardTrial<'a> {
    setup: &'a MatrixSetup,
    node: usize,
    report: MatrixReport,
    /// Operations that were forwarded, and were to be denied.
    denied: BTreeSet<Operation>,
    /// Operations that a user without the right was allowed, because the node answered itself.
    served_here: BTreeSet<Operation>,
}

impl ForwardTrial<'_> {
    fn forwarded(&self) -> f64 {
        self.setup.cluster.metric(self.node, "credenza_forwarded_out_total")
    }

    /// Asks, and judges the verdict if the request was forwarded or is to be allowed.
    fn judge(
        &mut self,
        (protocol, user): (&'static str, &str),
        (row, target): (&Row, &MatrixTarget),
        is_allowed: bool,
        mut ask: impl FnMut() -> AccessVerdict,
    ) {
        let mut outcome = (AccessVerdict::Granted, false);
        for _ in 0..ATTEMPTS {
            let before = self.forwarded();
            let verdict = ask();
            outcome = (verdict, self.forwarded() > before && forwards_whole(row, target));
            if is_allowed || outcome != (AccessVerdict::Granted, true) {
                break;
            }
        }
        let (verdict, is_forwarded) = outcome;
        let operation = (protocol, row.text);
        if is_allowed || is_forwarded {
            self.report.judge((protocol, user), (row, target), is_allowed, &verdict);
        }
        match (is_allowed, is_forwarded, verdict) {
            (false, true, _) => drop(self.denied.insert(operation)),
            (false, false, AccessVerdict::Granted) => drop(self.served_here.insert(operation)),
            _ => {}
        }
    }

    fn try_http(&mut self, user: Option<&'static MatrixUser>) {
        let address = self.setup.cluster.client_address(self.node);
        let name = user.map_or("no login", |user| user.name);
        let mut caller = HttpCaller::new(address, user.map(|user| self.setup.header(user.name)));
        let mut admin = HttpCaller::new(address, Some(self.setup.header("admin")));
        for (table, targets) in http_tables() {
            for target in targets {
                for row in rows_to_try(table, user) {
                    if row.is_prepared {
                        admin.write_keys(&target);
                    }
                    let is_allowed = match user {
                        Some(user) => may(user, &row.needs, &target),
                        None => row.is_open,
                    };
                    let ask = || caller.ask(row.text, &target);
                    self.judge(("HTTP", name), (&row, &target), is_allowed, ask);
                }
            }
        }
    }

    fn try_resp(&mut self, user: Option<&'static MatrixUser>) {
        let address = self.setup.cluster.client_address(self.node);
        let name = user.map_or("no login", |user| user.name);
        let setup = self.setup;
        let login = user.map(|user| (user.name, setup.password(user.name)));
        let data = targets("default/default", "default/o");
        for (table, targets) in [(resp::DATA, &data[..]), (resp::CLUSTER, &data[..1])] {
            for target in targets {
                let mut caller = RespCaller::new(address, login);
                if target.bucket != "default/default" {
                    // The directory's master describes the bucket, and denies that to whoever may
                    // not read it: the connection stays in the default bucket.
                    let select = Row::parse("!CREDENZA.BUCKET $b | read:any");
                    let may_select = user.is_some_and(|user| may(user, &select.needs, target));
                    let ask = || caller.ask(select.text, target);
                    self.judge(("RESP", name), (&select, target), may_select, ask);
                    if !may_select {
                        continue;
                    }
                }
                for row in rows_to_try(table, user) {
                    let is_allowed = user.is_some_and(|user| may(user, &row.needs, target));
                    let ask = || caller.ask(row.text, target);
                    self.judge(("RESP", name), (&row, target), is_allowed, ask);
                }
            }
        }
    }
}

/// Returns false if a node may forward a part of the operation alone. Each node coordinates
/// requests on available buckets by itself, and asks the directory's master only what their
/// properties are: `?keys=true` forwards what needs `read`, and never what needs `list`.
fn forwards_whole(row: &Row, target: &MatrixTarget) -> bool {
    row.needs.len() <= 1 || !target.bucket.starts_with("available/")
}

/// Returns the rows of a table without those that deny a caller nothing but a login: no node
/// decides about these again.
fn rows_to_try(
    table: &'static str,
    user: Option<&'static MatrixUser>,
) -> impl Iterator<Item = Row> {
    let rows = Row::parse_all(table).into_iter();
    rows.filter(move |row| user.is_some() || row.is_open || !row.needs.is_empty())
}

/// Restarts every node with a program that breaks the rule.
fn break_rule(cluster: &mut Cluster, program: &Path) {
    for node in cluster.nodes() {
        assert_eq!(cluster.stop(node), Some(0), "node {node} does not stop in good order");
        let setup = cluster.setup_mut(node);
        setup.program = Some(program.into());
        setup.environment.push((MUTANT_VARIABLE.into(), SKIP_FRONT_END_RIGHTS.into()));
        cluster.start_node(node);
    }
    cluster.must_converge();
}

/// Returns the data's master, and a node that is master of nothing.
fn master_and_follower(cluster: &Cluster) -> [usize; 2] {
    let mut found = None;
    wait_until("masters of both groups", || {
        let leads = |node: &usize, group| {
            cluster.group_status(*node, group).is_some_and(|status| status.role == "master")
        };
        let directory = cluster.nodes().find(|node| leads(node, 0));
        let data = cluster.nodes().find(|node| leads(node, 1));
        let (Some(directory), Some(data)) = (directory, data) else {
            return Err(cluster.describe());
        };
        let follower = cluster.nodes().find(|node| ![directory, data].contains(node));
        found = Some([data, follower.expect("three nodes have at most two masters")]);
        Ok(())
    });
    found.expect("they were waited for")
}

/// Returns the number of commands that a user without any right is served at the data's master.
fn count_served_at_master(setup: &MatrixSetup, master: usize) -> usize {
    let user = USERS.iter().find(|user| user.name == "nobody").expect("it is one of them");
    let login = Some((user.name, setup.password(user.name)));
    let mut caller = RespCaller::new(setup.cluster.client_address(master), login);
    let [target, ..] = targets("default/default", "default/o");
    let rows = Row::parse_all(resp::DATA).into_iter();
    let denied = rows.filter(|row| !may(user, &row.needs, &target));
    denied.filter(|row| caller.ask(row.text, &target) == AccessVerdict::Granted).count()
}

#[test]
fn forwarded_operations_are_denied_by_their_master_with_front_ends_that_decide_nothing() {
    let name = "S8 second decision";
    if !is_long_form() {
        return skipped(name, "takes its time: `make test-long`");
    }
    if let Some(reason) = missing_builder() {
        return skipped(name, reason);
    }
    let _permit = experiment();
    let program = build();
    let scratch = Scratch::new("second-decision");
    let mut setup = start(&scratch);
    break_rule(&mut setup.cluster, &program);
    let [master, follower] = master_and_follower(&setup.cluster);
    let mut figures = Figures::start(name);
    let report = MatrixReport { node: follower, ..MatrixReport::default() };
    let (denied, served_here) = (BTreeSet::new(), BTreeSet::new());
    let mut trial = ForwardTrial { setup: &setup, node: follower, report, denied, served_here };
    for user in USERS.iter().map(Some).chain([None]) {
        trial.try_http(user);
        trial.try_resp(user);
    }
    let ForwardTrial { report, denied, served_here, .. } = trial;
    let served_at_master = count_served_at_master(&setup, master);
    figures.ok = report.counts.values().map(|(allowed, _)| allowed).sum();
    figures.fail = report.counts.values().map(|(_, denied)| denied).sum();
    figures.add("operations_denied", denied.len());
    figures.add("served_by_the_follower", served_here.len());
    figures.add("served_by_the_master", served_at_master);
    figures.add("wrong", report.wrong.len());
    figures.print();
    assert_eq!(report.wrong, Vec::<String>::new(), "the second decision is missing");
    assert!(denied.len() >= DENIED_MIN, "only {} operations are forwarded", denied.len());
    // Controls: what is not forwarded shows that the front-ends decide nothing.
    assert!(served_at_master >= SERVED_MIN, "{served_at_master} commands without a right");
    assert!(!served_here.is_empty(), "the follower denies what it answers itself");
}
