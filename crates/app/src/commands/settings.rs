//! `credenza settings`: what is in force and where it came from.

use crate::output;
use crate::settings::{Flags, InForce, Origin, Weighed, page};
use program::Outcome;
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza settings
  credenza settings --config /etc/credenza.toml --json
  credenza settings --markdown        the page docs/run/settings.md";

/// `credenza settings`.
#[derive(clap::Args)]
pub struct SettingsCommand {
    #[command(flatten)]
    flags: Flags,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// As the page of the manual
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

impl SettingsCommand {
    /// Prints the table.
    pub fn run(self) -> Outcome {
        if self.markdown {
            return output::text(&page::page());
        }
        let environment = |name: &str| std::env::var(name).ok();
        let Weighed { in_force, warnings } = self.flags.weigh(&environment)?;
        // Shown even when wrong, but the exit code tells.
        let checked = self.flags.settings(&environment);
        if self.json {
            let rows = in_force.iter().map(|setting| {
                let value = json!({
                    "value": setting.text, "from": origin(setting), "about": setting.row.doc
                });
                (setting.row.name.to_string(), value)
            });
            output::json(&serde_json::Value::Object(rows.collect()))?;
        } else {
            let rows = in_force.iter().map(|setting| {
                let row = setting.row;
                vec![row.name.into(), setting.text.clone(), origin(setting), row.doc.into()]
            });
            output::table(&["setting", "value", "from", "what it does"], rows.collect())?;
        }
        for warning in warnings {
            eprintln!("credenza: {warning}");
        }
        checked.map(|_| ())
    }
}

fn origin(setting: &InForce) -> String {
    match &setting.origin {
        Origin::Default => "default".into(),
        Origin::File(path, line) => format!("{}:{line}", path.display()),
        Origin::Environment => setting.row.variable(),
        Origin::Flag => format!("--{}", setting.row.flag()),
    }
}
