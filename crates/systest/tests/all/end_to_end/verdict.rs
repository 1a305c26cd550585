//! The verdict on a cluster that loses members and then its majority, as an operator, a health
//! check, a program and the log see it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::Duration;
use systest::client::Http;
use systest::rigs::{Cluster, Options, Scratch, wait};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the first line of a command's output, whatever its exit code.
fn verdict(output: &Output) -> String {
    let said = text(&output.stdout);
    assert!(!said.contains('\x1b'), "no colours in a pipe: {said}");
    said.lines().next().unwrap_or_default().to_string()
}

/// Waits until a command's first line begins with this text; returns the line.
fn must_say(cluster: &Cluster, words: &[&str], begins: &str) -> String {
    let mut last = String::new();
    wait("the verdict", || {
        last = verdict(&cluster.tool(1, words));
        if last.starts_with(begins) { Ok(()) } else { Err(last.clone()) }
    });
    last
}

#[test]
fn a_lost_majority_shows_in_the_verdict_in_ready_in_warnings_and_in_the_log() {
    let scratch = Scratch::new("verdict");
    let options = Options { lease: Duration::from_millis(600), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    must_say(&cluster, &["status"], "ready: 3 of 3 members, writes ok");
    must_say(&cluster, &["cluster", "status"], "3 of 3 members up, writes go on");
    let warnings = cluster.status(1).expect("it answers")["warnings"].to_string();
    assert!(!warnings.contains("not reached") && !warnings.contains("no m"), "{warnings}");

    cluster.kill(3);
    let said = must_say(&cluster, &["status"], "ready: 2 of 3 members (n3 not reached for ");
    assert!(said.ends_with("), writes ok"), "{said}");
    must_say(&cluster, &["cluster", "status"], "1 of 3 down (n3): writes go on");
    let groups = text(&cluster.tool(1, &["cluster", "status"]).stdout);
    assert!(groups.contains("n3(down)") && !groups.contains("n3@"), "{groups}");

    cluster.kill(2);
    let begins = "NOT READY: no majority for groups 0, 1: ";
    let said = must_say(&cluster, &["status"], begins);
    for word in ["n2", "n3", "not reached for", "; start them (see `credenza cluster status`)"] {
        assert!(said.contains(word), "{said}");
    }
    let missing = "2 of 3 down (n2, n3): no majority, writes stop; start them";
    must_say(&cluster, &["cluster", "status"], missing);

    let mut web = Http::connect(cluster.client(1)).expect("it listens");
    let answer = web.ask("GET", "/ready", b"").expect("it answers");
    assert_eq!((answer.status, answer.reason()), (503, "no_quorum".into()), "{}", answer.text());
    assert!(answer.text().contains("no majority for groups 0, 1: "), "{}", answer.text());
    let status = cluster.status(1).expect("it answers");
    let not_ready = status["not_ready"].as_str().expect("why");
    assert!(said.starts_with(&format!("NOT READY: {}", &not_ready[..30])), "{not_ready}");
    let warnings = status["warnings"].to_string();
    for word in ["no majority for groups 0, 1", "cluster replace n2", "cluster replace n3"] {
        assert!(warnings.contains(word), "{warnings}");
    }

    let json = cluster.tool(1, &["status", "--json"]);
    assert_eq!(json.status.code(), Some(5));
    let status: Value = serde_json::from_slice(&json.stdout).expect("the answer is JSON");
    assert_eq!(status["ready"], false);
    let failure: Value = serde_json::from_slice(&json.stderr).expect("so is the failure");
    assert_eq!((&failure["kind"], &failure["exit_code"]), (&"unavailable".into(), &5.into()));
    assert!(failure["text"].as_str().is_some_and(|text| text.contains("no majority")), "{failure}");

    let write = cluster.tool(1, &["put", "k", "v"]);
    let said = text(&write.stderr);
    assert_eq!(write.status.code(), Some(5), "{said}");
    assert!(said.contains("no majority for group 1: ") && said.contains("n2"), "{said}");
    a_loss_and_its_end_are_a_line_each_in_the_log(&mut cluster);
}

fn a_loss_and_its_end_are_a_line_each_in_the_log(cluster: &mut Cluster) {
    let lines = |cluster: &mut Cluster, words: &str| {
        let said = cluster.server(1).said();
        said.lines().filter(|line| line.contains(words)).map(String::from).collect::<Vec<_>>()
    };
    wait("a line in the log", || match lines(cluster, "no majority for group").len() {
        0 => Err(cluster.server(1).said()),
        _ => Ok(()),
    });
    cluster.begin_all();
    cluster.must_settle();
    must_say(cluster, &["status"], "ready: 3 of 3 members, writes ok");
    wait("its end in the log", || match lines(cluster, "is reached again").len() {
        0 => Err(cluster.server(1).said()),
        _ => Ok(()),
    });
    let lost = lines(cluster, "no majority for group");
    assert!(lost.len() <= 2, "a line for a loss, not for a heartbeat: {lost:#?}");
    assert!(lost.iter().all(|line| line.to_lowercase().contains(" warn ")), "{lost:#?}");
    let log = cluster.server(1).said();
    let is_decimal = |word: &str| {
        let id = ["node=", "from=", "to=", "cluster=", "(node ", "cluster "];
        let id = id.iter().find_map(|name| word.strip_prefix(name));
        id.is_some_and(|id| id.len() > 16 && id.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let decimal: Vec<_> = log.split_whitespace().filter(|word| is_decimal(word)).collect();
    assert_eq!(decimal, Vec::<&str>::new(), "ids of nodes have one form, in hexadecimal");
}

#[test]
fn a_watched_status_shows_rates_between_two_looks() {
    let (_scratch, server) = super::fresh("watched");
    let mut watch = server.tool(&["status", "--watch"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    let rates = lines.find_map(|line| line.ok().filter(|line| line.contains(" requests/s, ")));
    watch.kill().expect("it runs");
    watch.wait().expect("it is ours");
    let rates = rates.expect("the second look has rates");
    assert!(rates.starts_with("requests ") && rates.contains(" syncs/s, "), "{rates}");
}
