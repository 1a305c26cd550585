//! The README's five minutes, typed literally into a shell: in an empty folder, in its own network
//! namespace (so at the ports that the README names), with the answers compared with those of the
//! README.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use systest::environment::{Root, Scratch, missing};
use systest::report::skipped;
use systest::server::binary;

/// Heading of the part of the README that is typed.
const SECTION_START: &str = "## Five minutes";
const SECTION_END: &str = "\n## ";
/// Output of a background program that is ready, and the longest wait for it.
const READY: &str = "ready on|are one cluster";
const READY_TENTHS_MAX: usize = 600;

/// A command, with its answer in the README.
struct ReadmeStep {
    command: String,
    answer: Vec<String>,
}

fn parse_steps(readme: &str) -> Vec<ReadmeStep> {
    let start = readme.find(SECTION_START).expect("the README has its five minutes");
    let part = &readme[start + SECTION_START.len()..];
    let part = &part[..part.find(SECTION_END).unwrap_or(part.len())];
    let mut steps: Vec<ReadmeStep> = Vec::new();
    for line in part.lines().filter_map(|line| line.strip_prefix("    ")) {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(ReadmeStep { command: command.into(), answer: Vec::new() }),
            None => steps.last_mut().expect("a command comes first").answer.push(line.into()),
        }
    }
    steps
}

/// Returns a shell script that prints a mark before each command's answer.
fn script(steps: &[ReadmeStep]) -> String {
    let mut script = String::from("ip link set lo up\n");
    for (number, ReadmeStep { command, .. }) in steps.iter().enumerate() {
        let _ = writeln!(script, "printf '\\n@@{number}\\n'");
        let Some(program) = command.strip_suffix(" &") else {
            let _ = writeln!(script, "{command}");
            if command.starts_with("kill ") {
                // A person types slower than the system, which ends a process after `kill`
                // returned.
                let _ = writeln!(script, "wait $! 2>/dev/null");
            }
            continue;
        };
        // A person waits until the program says that it is ready.
        let _ = writeln!(
            script,
            "{program} >out{number} 2>&1 &\n\
             for _ in $(seq {READY_TENTHS_MAX}); do grep -qE '{READY}' out{number} && break; \
             sleep 0.1; done; cat out{number}"
        );
    }
    script + "printf '\\n@@end\\n'\nkill $(jobs -p) 2>/dev/null\nwait\n"
}

/// Masks the parts of a line that are drawn at random, measured or counted anew in each run.
fn mask_line(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        if end == 0 {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after_word) = rest.split_at(end);
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let has_unit = [" us", " ms", " KiB", " MiB", " blocks"]
            .iter()
            .any(|unit| after_word.starts_with(unit));
        let is_counter = is_number && (masked.ends_with('@') || has_unit);
        masked.push_str(match () {
            () if word.len() >= 16 && has_digit => "<id>",
            () if is_counter => "<number>",
            () => word,
        });
        rest = after_word;
    }
    // The width of columns depends on their contents.
    masked.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes the parts of an answer that the README leaves out: the log of a program in the
/// background, and the shell's message that one of them was killed.
fn without_noise(answer: &str, is_background: bool) -> String {
    let is_noise = |line: &&str| {
        line.starts_with("bash: line ") || is_background && !line.starts_with("credenza: ")
    };
    answer.lines().filter(|line| !is_noise(line)).fold(String::new(), |all, line| all + line + "\n")
}

fn mask_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    lines.map(mask_line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn readme_commands_produce_the_printed_answers() {
    let name = "the README's five minutes";
    if let Some(reason) = missing(Root::Needed, &["unshare", "ip", "redis-cli", "curl"]) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("readme");
    let folder = scratch.join("empty");
    std::fs::create_dir_all(&folder).expect("a folder");
    // In a pipe curl shows a meter, and redis-cli answers without types; on a terminal neither.
    std::fs::write(folder.join(".curlrc"), "silent\nshow-error\n").expect("it is ours");
    let readme = std::fs::read_to_string(systest::tidy::root().join("README.md")).expect("there");
    let steps = parse_steps(&readme);
    assert!(steps.len() > 20, "the README's commands were not found: {}", steps.len());
    let programs = scratch.join("programs");
    std::fs::create_dir_all(&programs).expect("a folder");
    std::os::unix::fs::symlink(binary(), programs.join("credenza")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("unshare");
    shell.args(["--net", "bash", "-c", &format!("exec 2>&1\n{}", script(&steps))]);
    shell.current_dir(&folder).env("HOME", &folder).env("CURL_HOME", &folder).env("FAKETTY", "1");
    shell.env("PATH", format!("{}:{path}", programs.display())).env_remove("CREDENZA_URL");
    let output = shell.stdin(Stdio::null()).output().expect("the shell runs");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut wrong = String::new();
    for (number, step) in steps.iter().enumerate() {
        let answer =
            output.split_once(&format!("\n@@{number}\n")).map_or("(nothing)", |(_, rest)| {
                rest.split_once("\n@@").map_or(rest, |(answer, _)| answer)
            });
        let answer = without_noise(answer, step.command.ends_with('&'));
        let (actual, expected) =
            (mask_lines(answer.lines()), mask_lines(step.answer.iter().map(String::as_str)));
        // The README may leave out the output of programs in the background.
        let is_silent = step.command.ends_with('&') && expected.is_empty();
        if !is_silent && actual != expected {
            let _ = writeln!(
                wrong,
                "$ {}\n  the README says:\n    {}\n  it answers:\n    {}",
                step.command,
                step.answer.join("\n    "),
                answer.trim_end().replace('\n', "\n    ")
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn readme_mask_hides_only_ids_and_measured_numbers() {
    for (line, masked_line) in [
        (
            "ready on 127.0.0.1:7711 (node node1, cluster 17387309896886200007)",
            "ready on 127.0.0.1:7711 (node node1, cluster <id>)",
        ),
        (
            "store  1.6 KiB in 1 tables, 4 blocks, 11 rows",
            "store <number> KiB in 1 tables, <number> blocks, 11 rows",
        ),
        ("0      n2   n1 n3@11", "0 n2 n1 n3@<number>"),
        ("user:3	Edsger", "user:3 Edsger"),
    ] {
        assert_eq!(mask_line(line), masked_line);
    }
}
