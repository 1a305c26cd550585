//! Redis' own command line and load generator, unmodified, against the binary.

use super::{fresh, resp};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use systest::client::RespReply;
use systest::report::skipped;
use systest::rigs::{Root, missing};
use systest::server::Server;

/// Runs a tool of Redis with these arguments and this input.
fn run(server: &Server, tool: &str, words: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(tool);
    command.args(["-p", &server.address.port().to_string()]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it was found");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    pipe.write_all(input).expect("it reads its input");
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

/// Returns the output of `redis-cli`, which must succeed.
fn cli(server: &Server, words: &[&str], input: &[u8]) -> String {
    let done = run(server, "redis-cli", words, input);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "redis-cli {words:?}: {said}{complaint}");
    said
}

#[test]
fn redis_cli_is_served_unchanged() {
    if let Some(why) = missing(Root::Spared, &["redis-cli"]) {
        return skipped("redis-cli against the binary", &why);
    }
    let (_scratch, server) = fresh("redis-cli");
    let typed = b"SET a 1\nINCR a\nMULTI\nINCR a\nGET a\nEXEC\nGET nothing\nHELLO 3\n";
    let said = cli(&server, &[], typed);
    let begin = "OK\n2\nOK\nQUEUED\nQUEUED\n3\n3\n\nserver redis\nversion ";
    assert!(said.starts_with(begin), "{said}");
    assert_eq!(cli(&server, &["-x", "SET", "piped"], b"\x00\xff\r\n"), "OK\n");
    assert_eq!(resp(&server).say("GET piped").expect("answers").bytes(), Some(&b"\0\xff\r\n"[..]));
    assert_eq!(cli(&server, &["--csv", "MGET", "a", "none"], b""), "\"3\",NULL\n");
    assert_eq!(cli(&server, &["-3", "--json", "CONFIG", "GET", "save"], b""), "{\"save\":\"\"}\n");
    assert_eq!(cli(&server, &["-r", "3", "INCR", "n"], b""), "1\n2\n3\n");
    let info = cli(&server, &["INFO"], b"");
    for section in ["Server", "Clients", "Memory", "Stats", "Replication", "Keyspace"] {
        assert!(info.contains(&format!("# {section}\r\n")), "no {section} in {info}");
    }
    let resident = info.lines().find_map(|line| line.strip_prefix("used_memory_rss:"));
    let resident: u64 = resident.and_then(|bytes| bytes.parse().ok()).expect("a number");
    assert!(resident > 1 << 20, "a process takes memory: {info}");
    let wrong = run(&server, "redis-cli", &["-e", "LPUSH", "l", "1"], b"");
    assert!(!wrong.status.success(), "a command that is not served is an error");
    let sequence = ["CREDENZA.SEQUENCE", "2", "INCR", "n", "2", "GET", "n"];
    assert_eq!(cli(&server, &sequence, b""), "4\n4\n");
}

#[test]
fn redis_cli_loads_walks_and_weighs_many_keys() {
    if let Some(why) = missing(Root::Spared, &["redis-cli"]) {
        return skipped("redis-cli --pipe, --scan", &why);
    }
    let (_scratch, server) = fresh("redis-cli-many");
    let mut load = Vec::new();
    for n in 0..5_000 {
        let value = "v".repeat(n % 50);
        let key = format!("key:{n:05}");
        write!(load, "*3\r\n$3\r\nSET\r\n$9\r\n{key}\r\n${}\r\n{value}\r\n", value.len())
            .expect("a vector takes it");
    }
    let said = cli(&server, &["--pipe"], &load);
    assert!(said.contains("errors: 0, replies: 5000"), "{said}");
    let walked = cli(&server, &["--scan", "--pattern", "key:*"], b"");
    let mut keys: Vec<_> = walked.lines().collect();
    keys.sort_unstable();
    let wanted: Vec<_> = (0..5_000).map(|n| format!("key:{n:05}")).collect();
    assert_eq!(keys, wanted);
    let biggest = cli(&server, &["--bigkeys"], b"");
    assert!(biggest.contains("Sampled 5000 keys"), "{biggest}");
    assert!(biggest.contains("has 49 bytes"), "{biggest}");
    let heaviest = cli(&server, &["--memkeys"], b"");
    assert!(heaviest.contains("Sampled 5000 keys"), "{heaviest}");
}

#[test]
fn redis_benchmark_is_served_unchanged() {
    if let Some(why) = missing(Root::Spared, &["redis-benchmark"]) {
        return skipped("redis-benchmark against the binary", &why);
    }
    let (_scratch, server) = fresh("redis-benchmark");
    let plain = "-t ping,set,get,incr,mset -n 2000 -c 20 --csv";
    for (more, tests) in [("", 6), ("-P 16 -r 1000 -d 100", 6), ("-3 -P 16", 6), ("-k 0 -c 5", 6)] {
        let line = format!("{plain} {more}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = run(&server, "redis-benchmark", &words, b"");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {said}{complaint}");
        assert!(!said.contains("Error") && !complaint.contains("Error"), "{said}{complaint}");
        let measured = said.lines().filter(|line| line.starts_with('"')).count();
        assert_eq!(measured, tests + 1, "{line}: a head and a line for each test: {said}");
    }
    let custom =
        ["-n", "2000", "-r", "1000", "-P", "16", "-q", "SETEX", "e:__rand_int__", "90", "x"];
    assert!(run(&server, "redis-benchmark", &custom, b"").status.success());
    // One of the four runs drew its keys at random; the others counted on one key, exactly.
    let counted = resp(&server).say("GET counter:__rand_int__").expect("answers");
    assert_eq!(
        counted,
        RespReply::Bulk(Some(b"6000".to_vec())),
        "three runs of 2,000 INCRs on one key"
    );
    // Commands that only lists and sets could answer are refused by name.
    let lists = run(&server, "redis-benchmark", &["-t", "lpush", "-n", "10", "-q"], b"");
    assert!(!lists.status.success());
    let said = String::from_utf8_lossy(&lists.stderr).into_owned();
    assert!(said.contains("unknown command 'LPUSH'"), "{said}");
}

/// Returns the examples of a page: the command, and its answer.
fn examples(page: &str) -> Vec<(Vec<String>, String)> {
    let mut examples = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let Some(lines) = block.strip_prefix("redis-cli\n") else { continue };
        let (typed, said): (Vec<_>, Vec<_>) = lines.lines().partition(|l| l.starts_with("> "));
        let typed = typed.into_iter().map(|line| line[2..].to_string()).collect();
        examples.push((typed, said.join("\n")));
    }
    examples
}

#[test]
fn the_examples_of_the_resp_page_are_answered_as_it_says() {
    if let Some(why) = missing(Root::Spared, &["redis-cli"]) {
        return skipped("the examples of docs/use/resp.md", &why);
    }
    let (_scratch, server) = fresh("resp-page");
    let path = systest::tidy::root().join("docs/use/resp.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let examples = examples(&page);
    assert!(examples.len() > 5, "only {} examples: have they another form now?", examples.len());
    for (typed, wanted) in examples {
        let said = cli(&server, &["--no-raw"], (typed.join("\n") + "\n").as_bytes());
        let said = said.lines().map(str::trim_end).filter(|line| !line.is_empty());
        // A session's number differs from run to run.
        let any = usize::from(typed[0] == "CREDENZA.SESSION OPEN");
        let said: Vec<_> = said.skip(any).collect();
        let wanted: Vec<_> = wanted.lines().skip(any).collect();
        assert_eq!(said, wanted, "{typed:?}");
    }
}
