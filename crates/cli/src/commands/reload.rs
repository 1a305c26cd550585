//! `credenza reload`: has a node read its settings file again.

use super::NodeArguments;
use crate::output::{self, printable_text};
use api::{ReloadReply, SettingChange};
use program::Outcome;

pub const EXAMPLES: &str = "\
Examples:
  credenza reload                                  what changed, and what waits for a restart?
  credenza reload --url http://127.0.0.1:7713 --json

The signal HUP does the same (`systemctl reload credenza`); the log then has the answer.";

/// `credenza reload`.
#[derive(clap::Args)]
pub struct ReloadCommand {
    #[command(flatten)]
    node: NodeArguments,
}

impl ReloadCommand {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let reply = self.node.address.client()?.reload().await?;
        match self.node.json {
            true => output::json(&reply),
            false => output::text(&page(&reply)),
        }
    }
}

fn page(reply: &ReloadReply) -> String {
    let line = |change: &SettingChange, when: &str| {
        let SettingChange { setting, from, to } = change;
        let line = format!("{setting}: {from} -> {to}");
        format!("{} ({when})\n", printable_text(&line))
    };
    let changed = reply.changed.iter().map(|change| line(change, "in force"));
    let waiting = reply.waiting.iter().map(|change| line(change, "waits for a restart"));
    let renewed = reply.renewed.iter().map(|text| printable_text(text) + "\n");
    let text: String = changed.chain(waiting).chain(renewed).collect();
    if text.is_empty() { "no setting has another value\n".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tells_what_is_in_force_and_what_waits() {
        assert_eq!(page(&ReloadReply::default()), "no setting has another value\n");
        let change = |setting: &str, to: &str| SettingChange {
            setting: setting.into(),
            from: "a".into(),
            to: to.into(),
        };
        let reply = ReloadReply {
            changed: vec![change("log_level", "debug\u{1b}")],
            waiting: vec![change("threads", "3")],
            renewed: vec!["certificates".into()],
        };
        let expected = "log_level: a -> debug\\x1b (in force)\n\
                        threads: a -> 3 (waits for a restart)\ncertificates\n";
        assert_eq!(page(&reply), expected);
    }
}
