//! `credenza sequence`: steps that apply together or not at all.

use super::{BucketAddress, steps};
use crate::args::Encoding;
use crate::output;
use client::HttpCall;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
Examples:
  credenza sequence 'assert stock 5' 'set stock 4' 'set order:17 \"two words\"'
  credenza sequence --file steps.txt               a step a line, # begins a comment
  credenza sequence --file steps.json              a JSON list of steps; `-` is standard input

Steps (a word in quotes may hold blanks and \\t \\n \\\" \\\\ \\xNN; a plain `null` means: absent):
  set KEY VALUE            delete KEY               add KEY NUMBER         append KEY VALUE
  assert KEY VALUE|null    assert_exists KEY        assert_version KEY NUMBER|null
  test_and_set KEY EXPECTED|null WANTED|null        replace KEY WANTED|null
  confirm KEY VALUE        delete_prefix PREFIX     rename FROM TO         copy FROM TO
  expire KEY MILLISECONDS  get KEY                  nop

Exit code 4: an assertion did not hold, and nothing was changed.";

/// Largest file of steps, bytes.
const FILE_BYTES_MAX: u64 = base::limits::FRAME_BYTES_MAX as u64;

/// `credenza sequence`.
#[derive(clap::Args)]
pub struct Sequence {
    /// Steps, each one argument
    #[arg(required_unless_present = "file")]
    steps: Vec<String>,
    /// Steps from a file, as lines or as JSON
    #[arg(short, long, conflicts_with = "steps")]
    file: Option<PathBuf>,
    #[command(flatten)]
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
}

impl Sequence {
    /// Applies the sequence and prints the result of each step.
    pub async fn run(self) -> Outcome {
        let body = match &self.file {
            Some(path) => self.read(path)?,
            None => self.steps_of(self.steps.iter().map(String::as_str), "step")?.to_string(),
        };
        let call = HttpCall::json(Method::POST, self.address.path("/sequence"), body);
        let answer: Value = self.address.client()?.call(call).await?.read()?;
        if self.address.json {
            return output::json(&answer);
        }
        for step in answer["steps"].as_array().into_iter().flatten() {
            output::text(&format!("{}\n", steps::format_result(step)))?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Outcome<String> {
        let read_failure = |error| Failure::file("read", path, &error);
        let mut text = String::new();
        let source: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(std::fs::File::open(path).map_err(read_failure)?),
        };
        source.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(read_failure)?;
        if text.trim_start().starts_with(['[', '{']) {
            return Ok(text);
        }
        self.steps_of(text.lines(), "line").map(|steps| steps.to_string())
    }

    /// Returns the steps as JSON. Fails with the number of a malformed one.
    fn steps_of<'t>(&self, lines: impl Iterator<Item = &'t str>, what: &str) -> Outcome<Value> {
        let mut list = Vec::new();
        for (at, line) in lines.enumerate() {
            let step = steps::read(line, self.encoding)
                .map_err(|error| Failure::invalid(format!("{what} {}: {error}", at + 1)))?;
            list.extend(step);
        }
        if list.is_empty() {
            return Err(Failure::invalid("there is no step"));
        }
        Ok(Value::Array(list))
    }
}
