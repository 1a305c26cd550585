//! `credenza settings`: values in force with their origin; former names in a settings file.

use crate::output;
use program::Outcome;
use serde_json::json;
use settings::{EffectiveSetting, Flags, Origin, ResolvedSettings, migrate, page};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  credenza settings
  credenza settings --config /etc/credenza.toml --json
  credenza settings --markdown        the page docs/run/settings.md
  credenza settings migrate /etc/credenza.toml     former names in it become those in force";

/// `credenza settings`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SettingsCommand {
    #[command(subcommand)]
    step: Option<SettingsStep>,
    #[command(flatten)]
    flags: Flags,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// As the page of the manual
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// Commands on a settings file.
#[derive(clap::Subcommand)]
enum SettingsStep {
    /// Rewrite a settings file: former names become those in force, all else stays as it is
    Migrate {
        /// The file, in TOML
        file: PathBuf,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

impl SettingsStep {
    fn run(self) -> Outcome {
        let SettingsStep::Migrate { file, json } = self;
        let renames = migrate::migrate(&file)?;
        if json {
            let rows = renames
                .iter()
                .map(|rename| json!({"line": rename.line, "from": rename.from, "to": rename.to}));
            return output::json(&serde_json::Value::Array(rows.collect()));
        }
        let path = file.display();
        if renames.is_empty() {
            return output::text(&format!("{path}: no former names, nothing changed\n"));
        }
        renames.iter().try_for_each(|rename| {
            output::text(&format!("{path}:{}: {} -> {}\n", rename.line, rename.from, rename.to))
        })
    }
}

impl SettingsCommand {
    /// Prints the table, or runs a step.
    pub fn run(self) -> Outcome {
        if let Some(step) = self.step {
            return step.run();
        }
        if self.markdown {
            return output::text(&page::page());
        }
        let environment = |name: &str| std::env::var(name).ok();
        let ResolvedSettings { effective, warnings } = self.flags.resolve(&environment)?;
        // Invalid settings are printed, too, but the exit code reports them.
        let result = self.flags.settings(&environment);
        if self.json {
            let rows = effective.iter().map(|setting| {
                let value = json!({
                    "value": setting.text, "from": origin(setting), "about": setting.row.doc,
                    "reload": setting.row.reload(), "local": setting.row.is_local(),
                });
                (setting.row.name.to_string(), value)
            });
            output::json(&serde_json::Value::Object(rows.collect()))?;
        } else {
            let rows = effective.iter().map(|setting| {
                let row = setting.row;
                let local = if row.is_local() { "local" } else { "" };
                let (text, from) = (setting.text.clone(), origin(setting));
                vec![row.name.into(), text, from, local.into(), row.doc.into()]
            });
            let head = ["setting", "value", "from", "set by", "what it does"];
            output::table(&head, rows.collect())?;
        }
        for warning in warnings {
            eprintln!("credenza: {warning}");
        }
        result.map(|_| ())
    }
}

fn origin(setting: &EffectiveSetting) -> String {
    match &setting.origin {
        Origin::Default => "default".into(),
        Origin::File(path, line) => format!("{}:{line}", path.display()),
        Origin::Environment => setting.row.variable(),
        Origin::Flag => format!("--{}", setting.row.flag()),
    }
}
