//! Redis' own command line and load generator, unmodified, against the binary.

use super::{resp, start_server};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use systest::client::RespReply;
use systest::environment::{Root, missing};
use systest::report::skipped;
use systest::server::Server;

/// Runs a tool of Redis with these arguments and this input.
fn run(server: &Server, tool: &str, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(tool);
    command.args(["-p", &server.address.port().to_string()]).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it was found");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    pipe.write_all(input).expect("it reads its input");
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

/// Returns the output of `redis-cli`, which must succeed.
fn cli(server: &Server, args: &[&str], input: &[u8]) -> String {
    let result = run(server, "redis-cli", args, input);
    let stdout = String::from_utf8_lossy(&result.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "redis-cli {args:?}: {stdout}{stderr}");
    stdout
}

#[test]
fn redis_cli_works_unchanged() {
    if let Some(reason) = missing(Root::Spared, &["redis-cli"]) {
        return skipped("redis-cli against the binary", &reason);
    }
    let (_scratch, server) = start_server("redis-cli");
    let input = b"SET a 1\nINCR a\nMULTI\nINCR a\nGET a\nEXEC\nGET nothing\nHELLO 3\n";
    let stdout = cli(&server, &[], input);
    let expected_start = "OK\n2\nOK\nQUEUED\nQUEUED\n3\n3\n\nserver redis\nversion ";
    assert!(stdout.starts_with(expected_start), "{stdout}");
    assert_eq!(cli(&server, &["-x", "SET", "piped"], b"\x00\xff\r\n"), "OK\n");
    assert_eq!(
        resp(&server).call_line("GET piped").expect("answers").bytes(),
        Some(&b"\0\xff\r\n"[..])
    );
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
    let refused = run(&server, "redis-cli", &["-e", "LPUSH", "l", "1"], b"");
    assert!(!refused.status.success(), "a command that is not served is an error");
    let sequence = ["CREDENZA.SEQUENCE", "2", "INCR", "n", "2", "GET", "n"];
    assert_eq!(cli(&server, &sequence, b""), "4\n4\n");
}

#[test]
fn redis_cli_pipe_scan_and_bigkeys_work_on_5000_keys() {
    if let Some(reason) = missing(Root::Spared, &["redis-cli"]) {
        return skipped("redis-cli --pipe, --scan", &reason);
    }
    let (_scratch, server) = start_server("redis-cli-many");
    let mut commands = Vec::new();
    for n in 0..5_000 {
        let value = "v".repeat(n % 50);
        let key = format!("key:{n:05}");
        write!(commands, "*3\r\n$3\r\nSET\r\n$9\r\n{key}\r\n${}\r\n{value}\r\n", value.len())
            .expect("a vector takes it");
    }
    let stdout = cli(&server, &["--pipe"], &commands);
    assert!(stdout.contains("errors: 0, replies: 5000"), "{stdout}");
    let scanned = cli(&server, &["--scan", "--pattern", "key:*"], b"");
    let mut keys: Vec<_> = scanned.lines().collect();
    keys.sort_unstable();
    let expected: Vec<_> = (0..5_000).map(|n| format!("key:{n:05}")).collect();
    assert_eq!(keys, expected);
    let biggest = cli(&server, &["--bigkeys"], b"");
    assert!(biggest.contains("Sampled 5000 keys"), "{biggest}");
    assert!(biggest.contains("has 49 bytes"), "{biggest}");
    let heaviest = cli(&server, &["--memkeys"], b"");
    assert!(heaviest.contains("Sampled 5000 keys"), "{heaviest}");
}

#[test]
fn redis_benchmark_works_unchanged() {
    if let Some(reason) = missing(Root::Spared, &["redis-benchmark"]) {
        return skipped("redis-benchmark against the binary", &reason);
    }
    let (_scratch, server) = start_server("redis-benchmark");
    let common_args = "-t ping,set,get,incr,mset -n 2000 -c 20 --csv";
    for (more_args, tests) in
        [("", 6), ("-P 16 -r 1000 -d 100", 6), ("-3 -P 16", 6), ("-k 0 -c 5", 6)]
    {
        let line = format!("{common_args} {more_args}");
        let args: Vec<&str> = line.split_whitespace().collect();
        let result = run(&server, "redis-benchmark", &args, b"");
        let stdout = String::from_utf8_lossy(&result.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success(), "{line}: {stdout}{stderr}");
        assert!(!stdout.contains("Error") && !stderr.contains("Error"), "{stdout}{stderr}");
        let result_lines = stdout.lines().filter(|line| line.starts_with('"')).count();
        assert_eq!(result_lines, tests + 1, "{line}: a head and a line for each test: {stdout}");
    }
    let custom =
        ["-n", "2000", "-r", "1000", "-P", "16", "-q", "SETEX", "e:__rand_int__", "90", "x"];
    assert!(run(&server, "redis-benchmark", &custom, b"").status.success());
    // One of the four runs drew its keys at random; the others counted on one key, exactly.
    let counted = resp(&server).call_line("GET counter:__rand_int__").expect("answers");
    assert_eq!(
        counted,
        RespReply::Bulk(Some(b"6000".to_vec())),
        "three runs of 2,000 INCRs on one key"
    );
    // Commands that only lists and sets could answer are refused by name.
    let lists = run(&server, "redis-benchmark", &["-t", "lpush", "-n", "10", "-q"], b"");
    assert!(!lists.status.success());
    let stdout = String::from_utf8_lossy(&lists.stderr).into_owned();
    assert!(stdout.contains("unknown command 'LPUSH'"), "{stdout}");
}

/// Returns the examples of a page: the command, and its answer.
fn examples(page: &str) -> Vec<(Vec<String>, String)> {
    let mut examples = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let Some(lines) = block.strip_prefix("redis-cli\n") else { continue };
        let (commands, output): (Vec<_>, Vec<_>) = lines.lines().partition(|l| l.starts_with("> "));
        let commands = commands.into_iter().map(|line| line[2..].to_string()).collect();
        examples.push((commands, output.join("\n")));
    }
    examples
}

#[test]
fn resp_page_examples_match_the_server() {
    if let Some(reason) = missing(Root::Spared, &["redis-cli"]) {
        return skipped("the examples of docs/use/resp.md", &reason);
    }
    let (_scratch, server) = start_server("resp-page");
    let path = systest::tidy::root().join("docs/use/resp.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let examples = examples(&page);
    assert!(examples.len() > 5, "only {} examples: have they another form now?", examples.len());
    for (commands, expected) in examples {
        let stdout = cli(&server, &["--no-raw"], (commands.join("\n") + "\n").as_bytes());
        let stdout = stdout.lines().map(str::trim_end).filter(|line| !line.is_empty());
        // A session's number differs from run to run.
        let varying_lines = usize::from(commands[0] == "CREDENZA.SESSION OPEN");
        let stdout: Vec<_> = stdout.skip(varying_lines).collect();
        let expected: Vec<_> = expected.lines().skip(varying_lines).collect();
        assert_eq!(stdout, expected, "{commands:?}");
    }
}
