//! The verdict on a cluster that loses members and then its majority, as an operator, a health
//! check, a program and the log see it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::Duration;
use systest::client::Http;
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::Scratch;

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the first line of a command's output, whatever its exit code.
fn first_line(output: &Output) -> String {
    let stdout = to_text(&output.stdout);
    assert!(!stdout.contains('\x1b'), "no colours in a pipe: {stdout}");
    stdout.lines().next().unwrap_or_default().to_string()
}

/// Waits until a command's first line begins with this text; returns the line.
fn must_print(cluster: &Cluster, args: &[&str], expected_start: &str) -> String {
    let mut last = String::new();
    wait_until("the verdict", || {
        last = first_line(&cluster.tool(1, args));
        if last.starts_with(expected_start) { Ok(()) } else { Err(last.clone()) }
    });
    last
}

#[test]
fn lost_majority_is_reported_by_status_ready_alarms_and_log() {
    let scratch = Scratch::new("verdict");
    let options = Options { lease: Duration::from_millis(600), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    must_print(&cluster, &["status"], "ready: 3 of 3 members, writes ok");
    must_print(&cluster, &["cluster", "status"], "3 of 3 members up, writes go on");
    let alarms = cluster.status(1).expect("it answers")["alarms"].to_string();
    assert!(!alarms.contains("member_down") && !alarms.contains("no_quorum"), "{alarms}");

    cluster.kill(3);
    let verdict = must_print(&cluster, &["status"], "ready: 2 of 3 members (n3 not reached for ");
    assert!(verdict.ends_with("), writes ok"), "{verdict}");
    must_print(&cluster, &["cluster", "status"], "1 of 3 down (n3): writes go on");
    let groups = to_text(&cluster.tool(1, &["cluster", "status"]).stdout);
    assert!(groups.contains("n3(down)") && !groups.contains("n3@"), "{groups}");

    cluster.kill(2);
    let expected_start = "NOT READY: no majority for groups 0, 1: ";
    let verdict = must_print(&cluster, &["status"], expected_start);
    for expected in ["n2", "n3", "not reached for", "; start them (see `credenza cluster status`)"]
    {
        assert!(verdict.contains(expected), "{verdict}");
    }
    let expected_summary = "2 of 3 down (n2, n3): no majority, writes stop; start them";
    must_print(&cluster, &["cluster", "status"], expected_summary);

    let mut client = Http::connect(cluster.client_address(1)).expect("it listens");
    let answer = client.request("GET", "/ready", b"").expect("it answers");
    assert_eq!((answer.status, answer.reason()), (503, "no_quorum".into()), "{}", answer.text());
    assert!(answer.text().contains("no majority for groups 0, 1: "), "{}", answer.text());
    let status = cluster.status(1).expect("it answers");
    let not_ready = status["not_ready"].as_str().expect("why");
    assert!(verdict.starts_with(&format!("NOT READY: {}", &not_ready[..30])), "{not_ready}");
    let alarms = status["alarms"].to_string();
    for expected in ["no majority for groups 0, 1", "cluster replace n2", "cluster replace n3"] {
        assert!(alarms.contains(expected), "{alarms}");
    }

    let json = cluster.tool(1, &["status", "--json"]);
    assert_eq!(json.status.code(), Some(5));
    let status: Value = serde_json::from_slice(&json.stdout).expect("the answer is JSON");
    assert_eq!(status["ready"], false);
    let failure: Value = serde_json::from_slice(&json.stderr).expect("so is the failure");
    assert_eq!((&failure["kind"], &failure["exit_code"]), (&"unavailable".into(), &5.into()));
    assert!(failure["text"].as_str().is_some_and(|text| text.contains("no majority")), "{failure}");

    let write = cluster.tool(1, &["put", "k", "v"]);
    let verdict = to_text(&write.stderr);
    assert_eq!(write.status.code(), Some(5), "{verdict}");
    assert!(verdict.contains("no majority for group 1: ") && verdict.contains("n2"), "{verdict}");
    a_loss_and_its_end_are_a_line_each_in_the_log(&mut cluster);
}

fn a_loss_and_its_end_are_a_line_each_in_the_log(cluster: &mut Cluster) {
    let lines_with = |cluster: &mut Cluster, text: &str| {
        let stderr = cluster.server(1).stderr_text();
        stderr.lines().filter(|line| line.contains(text)).map(String::from).collect::<Vec<_>>()
    };
    wait_until("a line in the log", || match lines_with(cluster, "no majority for group").len() {
        0 => Err(cluster.server(1).stderr_text()),
        _ => Ok(()),
    });
    cluster.start_all();
    cluster.must_converge();
    must_print(cluster, &["status"], "ready: 3 of 3 members, writes ok");
    wait_until("the end of the alarms", || {
        let alarms = cluster.status(1).map(|status| status["alarms"].to_string());
        match alarms {
            Some(text) if !text.contains("member_down") && !text.contains("no_quorum") => Ok(()),
            alarms => Err(format!("{alarms:?}")),
        }
    });
    wait_until("its end in the log", || match lines_with(cluster, "is reached again").len() {
        0 => Err(cluster.server(1).stderr_text()),
        _ => Ok(()),
    });
    let lost = lines_with(cluster, "no majority for group");
    assert!(lost.len() <= 2, "a line for a loss, not for a heartbeat: {lost:#?}");
    assert!(lost.iter().all(|line| line.to_lowercase().contains(" warn ")), "{lost:#?}");
    let log = cluster.server(1).stderr_text();
    let is_decimal = |token: &str| {
        let digits = ["node=", "from=", "to=", "cluster=", "(node ", "cluster "];
        let digits = digits.iter().find_map(|name| token.strip_prefix(name));
        digits.is_some_and(|digits| {
            digits.len() > 16 && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let decimal: Vec<_> = log.split_whitespace().filter(|token| is_decimal(token)).collect();
    assert_eq!(decimal, Vec::<&str>::new(), "ids of nodes have one form, in hexadecimal");
}

#[test]
fn status_watch_shows_request_and_sync_rates() {
    let (_scratch, server) = super::start_server("watched");
    let mut command = server.tool(&["status", "--watch"]);
    let mut command = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(command.stdout.take().expect("it is piped")).lines();
    let rates = lines.find_map(|line| line.ok().filter(|line| line.contains(" requests/s, ")));
    command.kill().expect("it runs");
    command.wait().expect("it is ours");
    let rates = rates.expect("the second look has rates");
    assert!(rates.starts_with("requests ") && rates.contains(" syncs/s, "), "{rates}");
}
