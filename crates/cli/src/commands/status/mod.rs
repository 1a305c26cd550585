//! `credenza status`: verdict on a node, and its details.
//!
//! Promises: the first line is a verdict with its reason; the output needs no manual, and fits a
//! terminal of 100 columns if names and sentences permit.
//! Never: colours the output to a file or pipe, or if `NO_COLOR` is set.
//! Read next: `verdict.rs`, then `tables.rs`.

#[cfg(test)]
mod examples;
mod rates;
mod tables;
mod verdict;

use crate::commands::alarm_lines::alarm_lines;
use crate::output;
use crate::paint::Paint;
use api::NodeStatus;
use base::Kind;
use client::{Address, Client};
use program::{Failure, Outcome};
use rates::Rates;
use std::io::IsTerminal;
use std::time::Duration;
use verdict::{Grade, verdict};

pub const EXAMPLES: &str = "\
Examples:
  credenza status
  credenza status --watch                          in place, every second, with rates
  credenza status --json | jq .not_ready           why it is not ready; null: it is

The first line says whether the node serves, who is missing, and what to do. Exit code 5: it is not
ready. Colours are for terminals; NO_COLOR=1 turns them off.";

/// Pause between two queries of `--watch`.
const PAUSE: Duration = Duration::from_secs(1);

/// `credenza status`.
#[derive(clap::Args)]
pub struct Status {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Show it again every second, until interrupted, with rates in between
    #[arg(short, long)]
    watch: bool,
}

impl Status {
    /// Prints the status.
    pub async fn run(self) -> Outcome {
        let mut client = self.address.client()?;
        match self.watch {
            true => self.watch(&mut client).await,
            false => self.show(&client.status().await?),
        }
    }

    fn show(&self, status: &NodeStatus) -> Outcome {
        if self.json {
            output::json(status)?;
        } else {
            output::text(&page(status, None, Paint::of_stdout()))?;
        }
        if !status.ready {
            let why = status.not_ready.as_ref().map(|why| format!(": {why}"));
            let text = format!("the node is not ready{}", why.unwrap_or_default());
            return Err(Failure::new(Kind::Unavailable, text));
        }
        Ok(())
    }

    /// Repeats until interrupted; a node that does not answer for a while is shown as such.
    async fn watch(&self, client: &mut Client) -> Outcome {
        let (paint, in_place) = (Paint::of_stdout(), std::io::stdout().is_terminal());
        let mut last: Option<NodeStatus> = None;
        if in_place && !self.json {
            output::text("\x1b[2J")?;
        }
        loop {
            match client.status().await {
                Ok(status) if self.json => output::json(&status)?,
                Ok(status) => {
                    let rates = last.as_ref().and_then(|last| Rates::between(last, &status));
                    output::text(&frame(&page(&status, rates.as_ref(), paint), in_place))?;
                    last = Some(status);
                }
                Err(failure) if self.json => failure.print("credenza", true),
                Err(failure) => {
                    let text = format!("{}\n", paint.bad(&format!("NO ANSWER: {failure}")));
                    output::text(&frame(&text, in_place))?;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns a page of `--watch`: on a terminal it overwrites the previous page, otherwise it follows
/// it.
fn frame(page: &str, in_place: bool) -> String {
    match in_place {
        true => format!("\x1b[H{}\x1b[J", page.replace('\n', "\x1b[K\n")),
        false => format!("{page}\n"),
    }
}

/// Returns the whole page: verdict, alarms, tables.
fn page(status: &NodeStatus, rates: Option<&Rates>, paint: Paint) -> String {
    let (grade, verdict) = verdict(status);
    let mut text = match grade {
        Grade::Good => paint.good(&verdict),
        Grade::Impaired => paint.warning(&verdict),
        Grade::Bad => paint.bad(&verdict),
    };
    text.push('\n');
    text.push_str(&alarm_lines(&status.alarms, &verdict, paint));
    text.push('\n');
    text.push_str(&tables::tables(status, rates, paint));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_page_begins_with_the_verdict_without_repetition() {
        let text = page(&examples::no_majority(), None, Paint::OFF);
        let first = text.lines().next().expect("a line");
        assert!(first.starts_with("NOT READY: no majority for groups 0, 1: n2, n3 not"), "{text}");
        assert!(!text.contains("critical:"), "{text}");
        let text = page(&examples::one_missing(), None, Paint::OFF);
        let lines: Vec<_> = text.lines().take(5).collect();
        assert_eq!(
            lines,
            [
                "ready: 2 of 3 members (n3 not reached for 12 s), writes ok",
                "warning: n3 is not reached (0ad4c29d653e1029, for 12 s: Connection refused); \
                 start it, or if its",
                "         disk is lost, run `credenza cluster replace n3` and start a new node \
                 named n3 with `--join`",
                "         on an empty data directory (member_down)",
                ""
            ]
        );
    }

    #[test]
    fn terminal_frame_overwrites_and_erases_the_previous_page() {
        assert_eq!(frame("a\nb\n", true), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(frame("a\nb\n", false), "a\nb\n\n");
    }
}
