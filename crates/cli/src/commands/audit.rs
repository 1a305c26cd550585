//! `credenza audit`: the audit log of a data directory, whether a node has it open or not.

use crate::output;
use audit_log::{AuditFollower, AuditReport, ChainHead, KeyDigests, verify};
use base::{BucketName, Kind};
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  credenza audit tail --data /srv/credenza         the last 20 lines
  credenza audit tail -n 1000 --json | jq 'select(.outcome == \"denied\")'
  credenza audit tail --follow                     and those that come
  credenza audit tail -n 100000 --key user:1 --bucket default/users
  credenza audit verify                            follow the chain through all files
  credenza audit verify --expect 1234:9f2c...      the line that an earlier run ended with

Each node has its own log in the folder `audit` of its data directory. The commands read it on the
node's machine, as the node's user or root.

Exit code 7 of `verify`: the chain is broken; the first broken line is named.";

/// Pause between two looks for new lines.
const PAUSE: Duration = Duration::from_millis(300);

/// Actions on the audit log.
#[derive(clap::Subcommand)]
pub enum AuditCommand {
    /// Show the last lines
    Tail(AuditTail),
    /// Verify that no line was changed, moved or taken out
    Verify(AuditVerify),
}

/// Place of the log, and the format of the answer.
#[derive(clap::Args)]
pub struct AuditArguments {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Answer in JSON; `tail` shows the lines as they are
    #[arg(long)]
    json: bool,
}

/// Arguments: the last lines.
#[derive(clap::Args)]
pub struct AuditTail {
    #[command(flatten)]
    log: AuditArguments,
    /// Number of lines
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: u64,
    /// Go on with the lines that come
    #[arg(short, long)]
    follow: bool,
    /// Only lines about this key
    #[arg(long)]
    key: Option<String>,
    /// Bucket of the key: `type/bucket`, or `bucket` of the type `default`
    #[arg(short, long, default_value = "default/default", requires = "key")]
    #[arg(value_parser = super::parse_bucket)]
    bucket: BucketName,
}

/// Arguments: verification.
#[derive(clap::Args)]
pub struct AuditVerify {
    #[command(flatten)]
    log: AuditArguments,
    /// A line that was noted elsewhere and must be there, as `verify` prints the last one
    #[arg(long, value_name = "SEQ:HASH", value_parser = parse_line)]
    expect: Option<ChainHead>,
}

fn parse_line(text: &str) -> Result<ChainHead, String> {
    let wanted = "a number, a colon and 64 lower-case hexadecimal digits are wanted";
    ChainHead::parse(text).ok_or_else(|| wanted.into())
}

impl AuditArguments {
    fn folder(&self) -> PathBuf {
        self.data.join("audit")
    }
}

fn unreadable(folder: &Path) -> impl Fn(io::Error) -> Failure + use<'_> {
    move |error| Failure::file("read", folder, &error)
}

impl AuditCommand {
    /// Runs the action.
    pub fn run(self) -> Outcome {
        match self {
            AuditCommand::Tail(tail) => tail.run(),
            AuditCommand::Verify(verify) => verify.run(),
        }
    }
}

impl AuditTail {
    fn run(&self) -> Outcome {
        let folder = self.log.folder();
        let digest = match &self.key {
            None => None,
            Some(key) => {
                let digests = KeyDigests::open(&folder).map_err(unreadable(&folder))?;
                Some(digests.digest(self.bucket.full(), key.as_bytes()))
            }
        };
        let mut follower = AuditFollower::open(&folder, self.lines).map_err(unreadable(&folder))?;
        loop {
            let mut out = io::stdout().lock();
            let mut failed = None;
            let mut print = |line: &str| {
                let text = self.shown(line, digest.as_deref());
                let written = text.map_or(Ok(()), |text| writeln!(out, "{text}"));
                written.map_err(|error| {
                    failed = Some(output::write_failure(error));
                    io::ErrorKind::Other.into()
                })
            };
            let read = follower.read(&mut print);
            if let Some(failure) = failed {
                return Err(failure);
            }
            read.map_err(unreadable(&folder))?;
            out.flush().map_err(output::write_failure)?;
            if !self.follow {
                return Ok(());
            }
            drop(out);
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns a line as it is shown. `None`: it is about another key.
    fn shown(&self, line: &str, digest: Option<&str>) -> Option<String> {
        let fields: Option<Value> = serde_json::from_str(line).ok();
        if let Some(digest) = digest {
            let keys = fields.as_ref().and_then(|fields| fields["keys"].as_array());
            keys.filter(|keys| keys.iter().any(|key| key == digest))?;
        }
        Some(match fields {
            Some(fields) if !self.log.json => readable(&fields),
            // Also what is no line, as a crash leaves it.
            _ => output::printable_text(line),
        })
    }
}

/// Returns a line for people: time, who, from where, operation, on what, outcome.
fn readable(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().map(output::printable_text);
    let token = text("token").map(|token| format!("/{token}"));
    let from = match (text("protocol"), text("address")) {
        (None, None) => None,
        (protocol, address) => {
            let parts: Vec<_> = protocol.into_iter().chain(address).collect();
            Some(format!("({})", parts.join(" ")))
        }
    };
    let who = text("who").map(|who| format!("{who}{}", token.unwrap_or_default()));
    let keys = line["keys"].as_array().map(|keys| {
        let keys: Vec<_> = keys.iter().filter_map(Value::as_str).collect();
        let more = line["more_keys"].as_u64().map(|more| format!(" +{more}"));
        format!("key {}{}", output::printable_text(&keys.join(" ")), more.unwrap_or_default())
    });
    let steps = line["steps"].as_object().map(|steps| {
        let steps = steps.iter().map(|(name, count)| format!("{name} x{count}"));
        output::printable_text(&format!("[{}]", steps.collect::<Vec<_>>().join(" ")))
    });
    let count = line["count"].as_u64().map(|count| format!("x{count}"));
    let reason = text("reason").map(|reason| format!(": {reason}"));
    let outcome = text("outcome").map(|outcome| format!("{outcome}{}", reason.unwrap_or_default()));
    let torn = line["torn"]["bytes"].as_u64();
    let torn = torn.map(|bytes| format!("behind {bytes} bytes that a crash left"));
    let fields = [text("time"), who, from, text("operation"), text("scope"), text("target")];
    let fields = fields.into_iter().chain([keys, steps, count, outcome, torn]);
    fields.flatten().collect::<Vec<_>>().join(" ")
}

impl AuditVerify {
    fn run(&self) -> Outcome {
        let folder = self.log.folder();
        let report = verify(&folder, self.expect).map_err(unreadable(&folder))?;
        match self.log.json {
            true => output::json(&as_json(&report))?,
            false => output::text(&as_text(&report))?,
        }
        match &report.broken {
            None => Ok(()),
            Some(broken) => {
                let path = folder.join(&broken.file);
                let (path, line, fault) = (path.display(), broken.line, &broken.description);
                let text = format!(
                    "the audit log is broken at line {line} of {path}: {fault}; keep a copy of the \
                     folder, and find out who could write to it"
                );
                Err(Failure::new(Kind::Corrupt, text))
            }
        }
    }
}

fn last(report: &AuditReport) -> Option<String> {
    let AuditReport { last, .. } = report;
    (last.seq > 0).then(|| format!("{}:{}", last.seq, last.hash_text()))
}

fn as_text(report: &AuditReport) -> String {
    let AuditReport { files, lines, first_seq, unfinished_bytes, .. } = report;
    let mut text = format!("{lines} lines in {files} files, from number {first_seq} on\n");
    for torn in &report.torn {
        let line = format!("a crash left {} bytes in {}, as was noted\n", torn.bytes, torn.file);
        text.push_str(&line);
    }
    if *unfinished_bytes > 0 {
        let line = format!(
            "{unfinished_bytes} bytes follow the last line: the node is writing, or a crash left \
             them\n"
        );
        text.push_str(&line);
    }
    if let Some(last) = last(report) {
        text.push_str(&format!("last line  {last}\n"));
    }
    text.push_str(if report.broken.is_none() { "sound\n" } else { "BROKEN\n" });
    text
}

fn as_json(report: &AuditReport) -> Value {
    let broken = report.broken.as_ref().map(
        |broken| json!({ "file": broken.file, "line": broken.line, "what": broken.description }),
    );
    json!({
        "sound": report.broken.is_none(),
        "broken": broken,
        "files": report.files,
        "lines": report.lines,
        "first_seq": report.first_seq,
        "last": last(report),
        "torn": report.torn,
        "unfinished_bytes": report.unfinished_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;
    use clap::Parser;

    fn parse(line: &str) -> AuditCommand {
        let parsed = CommandLine::try_parse_from(line.split(' ')).expect("it is taken");
        match parsed.command {
            super::super::Command::Audit(command) => command,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn line_is_shown_as_words_and_as_it_is() {
        let line = [
            r#"{"before":"00","seq":7,"time":"2026-01-02T03:04:05.006Z","who":"ada","token":"ci","#,
            r#""protocol":"http","address":"198.18.0.1","operation":"set","scope":"default/b","#,
            r#""keys":["0a","0b"],"more_keys":3,"outcome":"denied","reason":"forbidden","#,
            r#""hash":"11"}"#,
        ];
        let line = &line.concat();
        let AuditCommand::Tail(tail) = parse("credenza audit tail -n 5 --key k -b b") else {
            panic!("another command")
        };
        assert_eq!((tail.lines, tail.bucket.full()), (5, "default/b"));
        let words = "2026-01-02T03:04:05.006Z ada/ci (http 198.18.0.1) set default/b key 0a 0b +3 \
                     denied: forbidden";
        assert_eq!(tail.shown(line, None).as_deref(), Some(words));
        assert_eq!(tail.shown(line, Some("0b")).as_deref(), Some(words));
        assert_eq!(tail.shown(line, Some("0c")), None, "it is about other keys");
        let AuditCommand::Tail(raw) = parse("credenza audit tail --json") else {
            panic!("another command")
        };
        assert_eq!(raw.shown(line, None).as_deref(), Some(line.as_str()));
        let sequence = r#"{"who":"ada","operation":"sequence","keys":["0a"],"#.to_string()
            + r#""steps":{"delete":1,"set":3},"outcome":"done"}"#;
        let words = "ada sequence key 0a [delete x1 set x3] done";
        assert_eq!(tail.shown(&sequence, None).as_deref(), Some(words));
        let torn =
            r#"{"who":"(node)","operation":"open_audit_log","outcome":"done","torn":{"bytes":9}}"#;
        let words = "(node) open_audit_log done behind 9 bytes that a crash left";
        assert_eq!(tail.shown(torn, None).as_deref(), Some(words));
        assert_eq!(tail.shown("{\"a\u{1b}", None).as_deref(), Some("{\"a\\x1b"));
    }

    #[test]
    fn expected_line_has_the_form_that_verify_prints() {
        let hash = "0a".repeat(32);
        let AuditCommand::Verify(verify) =
            parse(&format!("credenza audit verify --data d --expect 12:{hash}"))
        else {
            panic!("another command")
        };
        assert_eq!(verify.log.folder(), Path::new("d/audit"));
        let head = verify.expect.expect("given");
        assert_eq!((head.seq, head.hash), (12, [10; 32]));
        for bad in ["12", "x:00", &format!("1:{}", hash.to_uppercase())] {
            assert!(parse_line(bad).is_err(), "{bad}");
        }
        let report = AuditReport { files: 2, lines: 9, first_seq: 4, ..AuditReport::default() };
        let report = AuditReport { last: head, ..report };
        let text = format!("9 lines in 2 files, from number 4 on\nlast line  12:{hash}\nsound\n");
        assert_eq!(as_text(&report), text);
        assert_eq!(as_json(&report)["last"], format!("12:{hash}"));
    }
}
