//! Pages that are typed literally into a shell: in an empty folder, in its own network namespace
//! (so at the ports that the page names), with the answers compared with those of the page.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use systest::environment::Scratch;
use systest::server::binary;

/// Output of a background program that is ready, and the longest wait for it.
const READY: &str = "ready on|are one cluster";
const READY_TENTHS_MAX: usize = 600;
/// File of the exit codes: number of the step, code.
const STATUSES: &str = "statuses";

/// A command, with its answer on the page.
struct PageStep {
    command: String,
    answer: Vec<String>,
}

impl PageStep {
    fn is_background(&self) -> bool {
        self.command.ends_with(" &")
    }
}

/// Commands of a page, in their order.
pub struct TypedPage {
    steps: Vec<PageStep>,
}

/// Commands that were typed, each with the answer that came.
pub struct TypedAnswers {
    page: TypedPage,
    output: String,
    /// Exit code of each foreground command.
    statuses: Vec<(usize, i32)>,
}

impl TypedPage {
    /// Finds the commands in indented lines that begin with `$ `, and their answers in the lines
    /// that follow. `> ` continues a command, as a shell shows it.
    pub fn parse(part: &str) -> TypedPage {
        let mut steps: Vec<PageStep> = Vec::new();
        for line in part.lines().filter_map(|line| line.strip_prefix("    ")) {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(PageStep { command: command.into(), answer: Vec::new() });
                continue;
            }
            let step = steps.last_mut().expect("a command comes first");
            match line.strip_prefix("> ").filter(|_| step.answer.is_empty()) {
                Some(more) => step.command.push_str(&format!("\n{more}")),
                None => step.answer.push(line.into()),
            }
        }
        TypedPage { steps }
    }

    /// Returns the number of commands.
    pub fn commands(&self) -> usize {
        self.steps.len()
    }

    /// Returns a shell script that prints a mark before each command's answer.
    fn script(&self) -> String {
        let mut script = String::from("ip link set lo up\n");
        for (number, step) in self.steps.iter().enumerate() {
            let _ = writeln!(script, "printf '\\n@@{number}\\n'");
            let Some(program) = step.command.strip_suffix(" &") else {
                let status = format!("printf '%s %s\\n' {number} $? >>\"$HOME/../{STATUSES}\"");
                let _ = writeln!(script, "{}\n{status}", step.command);
                if step.command.starts_with("kill ") {
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

    /// Types all commands, in an empty folder of a scratch folder with this name.
    pub fn type_in(self, name: &str) -> TypedAnswers {
        let scratch = Scratch::new(name);
        let folder = scratch.join("empty");
        std::fs::create_dir_all(&folder).expect("a folder");
        // In a pipe curl shows a meter, and redis-cli answers without types; on a terminal neither.
        std::fs::write(folder.join(".curlrc"), "silent\nshow-error\n").expect("it is ours");
        let programs = scratch.join("programs");
        std::fs::create_dir_all(&programs).expect("a folder");
        std::os::unix::fs::symlink(binary(), programs.join("credenza")).expect("a link");
        let output = run_shell(&self.script(), &folder, &programs);
        let statuses = std::fs::read_to_string(scratch.join(STATUSES)).unwrap_or_default();
        let parse = |line: &str| {
            let (number, status) = line.split_once(' ')?;
            Some((number.parse().ok()?, status.parse().ok()?))
        };
        let statuses = statuses.lines().filter_map(parse).collect();
        TypedAnswers { page: self, output, statuses }
    }
}

fn run_shell(script: &str, folder: &Path, programs: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("unshare");
    shell.args(["--net", "bash", "-c", &format!("exec 2>&1\n{script}")]);
    shell.current_dir(folder).env("HOME", folder).env("CURL_HOME", folder).env("FAKETTY", "1");
    shell.env("PATH", format!("{}:{path}", programs.display())).env_remove("CREDENZA_URL");
    let output = shell.stdin(Stdio::null()).output().expect("the shell runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl TypedAnswers {
    /// Returns the answer to a step, without what the page leaves out.
    fn answer(&self, number: usize) -> String {
        let begin = format!("\n@@{number}\n");
        let answer = self.output.split_once(&begin).map_or("(nothing)", |(_, rest)| {
            rest.split_once("\n@@").map_or(rest, |(answer, _)| answer)
        });
        without_noise(answer, self.page.steps[number].is_background())
    }

    /// Fails the test unless each command got the answer of the page.
    pub fn must_match_the_page(&self) {
        let wrong = self.wrong_answers(PageStep::is_background);
        assert!(wrong.is_empty(), "{wrong}");
    }

    /// Fails the test unless each command succeeded, and each for which the page shows an answer
    /// got that.
    pub fn must_succeed_with_the_shown_answers(&self) {
        let mut wrong = self.wrong_answers(|step| step.answer.is_empty());
        let failed = self.statuses.iter().filter(|(_, status)| *status != 0);
        for (number, status) in failed {
            let (command, answer) = (&self.page.steps[*number].command, self.answer(*number));
            let _ = writeln!(wrong, "$ {command}\n  exit code {status}:\n    {answer}");
        }
        let typed = self.page.steps.iter().filter(|step| !step.is_background()).count();
        if self.statuses.len() != typed {
            let _ = writeln!(wrong, "{} of {typed} commands ended", self.statuses.len());
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    /// Describes the answers that differ from the page. The page may leave out the answers of steps
    /// for which `may_be_silent` holds.
    fn wrong_answers(&self, may_be_silent: impl Fn(&PageStep) -> bool) -> String {
        let mut wrong = String::new();
        for (number, step) in self.page.steps.iter().enumerate() {
            let answer = self.answer(number);
            let (actual, expected) =
                (mask_lines(answer.lines()), mask_lines(step.answer.iter().map(String::as_str)));
            let is_silent = expected.is_empty() && may_be_silent(step);
            if !is_silent && actual != expected {
                let _ = writeln!(
                    wrong,
                    "$ {}\n  the page says:\n    {}\n  it answers:\n    {}",
                    step.command,
                    step.answer.join("\n    "),
                    answer.trim_end().replace('\n', "\n    ")
                );
            }
        }
        wrong
    }
}

/// Masks the parts of a line that are drawn at random, measured or counted anew in each run.
fn mask_line(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let token = token_bytes(rest);
        if token > 0 {
            masked.push_str("<id>");
            rest = &rest[token..];
            continue;
        }
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

/// Returns the length of the token of a feed that a text begins with: base64 for URLs, longer than
/// any word. 0: it begins with none.
fn token_bytes(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    let token = &text[..end];
    let is_token = end >= 24 && token.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_token { end } else { 0 }
}

/// Removes the parts of an answer that a page leaves out: the log of a program in the
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
fn page_mask_hides_only_ids_and_measured_numbers() {
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
        ("go on with --from AQAA-AAAAEAA_AACQAAAADn0rNRX2kzq", "go on with --from <id>"),
        ("  1) \"AQAAAAAAAAAAAAEAAAAA\"", "1) \"AQAAAAAAAAAAAAEAAAAA\""),
    ] {
        assert_eq!(mask_line(line), masked_line);
    }
}

#[test]
fn page_commands_are_parsed_with_their_continuation_lines_and_answers() {
    let page = TypedPage::parse("text\n    $ cat <<E\n    > a\n    > E\n    a\n\n    $ serve &\n");
    let steps = page.steps.iter().map(|step| (&step.command[..], step.answer.len()));
    assert_eq!(steps.collect::<Vec<_>>(), [("cat <<E\na\nE", 1), ("serve &", 0)]);
}
