//! Checks that documents match the source tree: paths, links, settings, stories, decisions, kept
//! formats.

use super::source::CRATE_FOLDERS;
use super::{Complaint, Workspace};

/// Rule 7a: every path that ARCHITECTURE.md and the pages of docs/inside name exists.
pub fn architecture(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let is_checked = |path: &str| path == "ARCHITECTURE.md" || path.starts_with("docs/inside/");
    for (path, text) in workspace.texts.iter().filter(|(path, _)| is_checked(path)) {
        for (at, line) in text.lines().enumerate() {
            for named_path in
                line.split('`').skip(1).step_by(2).filter(|named_path| is_path(named_path))
            {
                if !exists(workspace, named_path) {
                    let fix =
                        format!("`{named_path}` does not exist: name where the thing lives now");
                    complaints.push(Complaint::new("paths", path, at + 1, fix));
                }
            }
        }
    }
    if !workspace.root.as_os_str().is_empty() && workspace.text("ARCHITECTURE.md").is_none() {
        let fix = "the map of the code is missing: write ARCHITECTURE.md".to_string();
        complaints.push(Complaint::new("paths", "ARCHITECTURE.md", 1, fix));
    }
    complaints
}

const KNOWN_EXTENSIONS: [&str; 7] = [".rs", ".md", ".toml", ".txt", ".py", ".sh", ".c"];
const KNOWN_ROOTS: [&str; 6] =
    ["crates/", "research/", "docs/", "clients/", "console/", "examples/"];

/// Returns true for words in backticks that mean a file or folder of the tree.
fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    let has_known_root = KNOWN_ROOTS.iter().any(|root| text.starts_with(root));
    let has_known_extension =
        KNOWN_EXTENSIONS.iter().any(|end| text.ends_with(end)) && text.contains('/');
    is_plain && (has_known_root || has_known_extension) && !text.starts_with('/')
}

/// Returns true if the path exists as it is, or as the short form `node/route.rs` of
/// `crates/node/src/route.rs`.
fn exists(workspace: &Workspace, short_path: &str) -> bool {
    if workspace.contains(short_path) || workspace.contains(&format!("crates/{short_path}")) {
        return true;
    }
    match short_path.split_once('/') {
        Some((name, rest)) => {
            let rest = rest.strip_prefix("src/").unwrap_or(rest);
            CRATE_FOLDERS
                .iter()
                .any(|folder| workspace.contains(&format!("{folder}/{name}/src/{rest}")))
                || workspace.paths.iter().any(|path| path.ends_with(&format!("/src/{short_path}")))
        }
        None => false,
    }
}

/// Rule 7b: every link of every Markdown file resolves, its anchor too.
pub fn links(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in workspace.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, target) in link_targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = match target.split_once('#') {
                Some((file, anchor)) => (file, Some(anchor)),
                None => (target.as_str(), None),
            };
            let file = if file.is_empty() { path.clone() } else { join_path(folder, file) };
            if !workspace.contains(&file) {
                let fix = format!("the link to {target} leads nowhere ({file}): mend its path");
                complaints.push(Complaint::new("links", path, line, fix));
            } else if let (Some(anchor), Some(target_text)) = (anchor, workspace.text(&file))
                && !anchors(target_text).iter().any(|anchor_name| anchor_name == anchor)
            {
                let fix = format!("{file} has no heading #{anchor}: mend the anchor");
                complaints.push(Complaint::new("links", path, line, fix));
            }
        }
    }
    complaints
}

/// Returns the links outside code, `](target)`: line from 1, target.
fn link_targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    let mut is_fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced || line.starts_with("    ") {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for rest in prose.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                targets.push((at + 1, target.split(' ').next().unwrap_or("").to_string()));
            }
        }
    }
    targets
}

fn join_path(folder: &str, target: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchors of a Markdown file's headings, as the common sites make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let allowed = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        allowed.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).collect()
}

/// Rule 8a: every setting of the table is in the docs page.
pub fn settings(workspace: &Workspace) -> Vec<Complaint> {
    const TABLE: &str = "crates/settings/src/table.rs";
    const PAGE: &str = "docs/run/settings.md";
    let Some(table) = workspace.sources.iter().find(|source| source.path == TABLE) else {
        return Vec::new();
    };
    let page = workspace.text(PAGE).unwrap_or("");
    let mut complaints = Vec::new();
    for (line, name) in setting_names(&table.text) {
        if !page.contains(&format!("`{name}`")) {
            let fix = format!("the setting `{name}` is not in {PAGE}: regenerate the page");
            complaints.push(table.complaint("settings", line, fix));
        }
    }
    complaints
}

/// Returns the names in the table: every `name: "..."` in shipped code.
fn setting_names(text: &str) -> Vec<(usize, String)> {
    let setting_name = |line: &str| {
        let rest = line.trim_start().trim_start_matches("Setting { ").strip_prefix("name: \"")?;
        rest.split_once('"').map(|(name, _)| name.to_string())
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(at, line)| setting_name(line).map(|name| (at + 1, name))).collect()
}

/// Rule 8b: every story and conversation is replayed by a test of its crate, and has a recording.
pub fn stories(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in &workspace.texts {
        let parts: Vec<_> = path.split('/').collect();
        let Some(at) = parts.iter().position(|part| matches!(*part, "stories" | "conversations"))
        else {
            continue;
        };
        if !path.ends_with(".txt") || parts[0] != "crates" {
            continue;
        }
        let folder = parts[..=at].join("/");
        let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".txt"));
        let parent = parts[..at].join("/");
        let players = workspace.sources.iter().filter(|source| source.path.starts_with(&parent));
        let mut players = players.filter(|source| {
            let names_folder = source.text.contains(&format!("{}\"", parts[at]))
                || source.text.contains(&format!("{}/", parts[at]));
            names_folder
                && (source.text.contains("read_dir")
                    || stem.is_some_and(|s| source.text.contains(s)))
        });
        if players.next().is_none() {
            let fix = format!("nobody plays this: let a tests.rs in {parent} play all of {folder}");
            complaints.push(Complaint::new("stories", path, 1, fix));
        }
        if !text.contains("---") {
            let fix = "nothing is recorded: play it with UPDATE_GOLDENFILES=1 and read the result";
            complaints.push(Complaint::new("stories", path, 1, fix.into()));
        }
    }
    complaints
}

/// Rule 8c: every decision is in the index, and has the required parts.
pub fn decisions(workspace: &Workspace) -> Vec<Complaint> {
    const INDEX: &str = "docs/decisions/README.md";
    let index = workspace.text(INDEX).unwrap_or("");
    let mut complaints = Vec::new();
    let mut numbers = Vec::new();
    for (path, text) in &workspace.texts {
        let Some(name) = path.strip_prefix("docs/decisions/") else { continue };
        if name == "README.md" || !name.ends_with(".md") {
            continue;
        }
        let number = name.split('-').next().unwrap_or("");
        if number.len() != 4 || number.parse::<u32>().is_err() || numbers.contains(&number) {
            let fix = "name it NNNN-words.md with a number of its own".to_string();
            complaints.push(Complaint::new("decisions", path, 1, fix));
        }
        numbers.push(number);
        if !index.contains(name) {
            let fix = format!("put it into {INDEX}, with a line that says what it decides");
            complaints.push(Complaint::new("decisions", path, 1, fix));
        }
        for part in ["Situation", "Decision", "Price", "When to look again"] {
            if !text.to_lowercase().contains(&part.to_lowercase()) {
                let fix = format!("a decision says its {part}: add that part");
                complaints.push(Complaint::new("decisions", path, 1, fix));
            }
        }
    }
    complaints
}

/// Crates whose bytes are on disk or between nodes.
const CRATES_WITH_FORMATS: [&str; 9] = [
    "store",
    "replica_state",
    "replication",
    "vnode_rows",
    "dynamo",
    "transport",
    "metadata",
    "bucket_moves",
    "node",
];

/// Rule 9: every on-disk format has a kept example, listed in the table of the kept formats.
pub fn formats(workspace: &Workspace) -> Vec<Complaint> {
    const TABLE: &str = "crates/systest/golden/README.md";
    let table = workspace.text(TABLE).unwrap_or("");
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        if !CRATES_WITH_FORMATS.contains(&source.crate_name()) {
            continue;
        }
        for (line, text) in source.shipped() {
            let is_format_constant = text.contains("const ")
                && ["MAGIC", "FORMAT"].iter().any(|word| text.contains(word));
            if is_format_constant && !table.contains(&format!("`{}`", source.path)) {
                let fix = format!(
                    "a format on disk without a kept example: keep a small file under \
                     crates/systest/golden/, read it in tests/all/formats.rs, and name \
                     `{}` in {TABLE}",
                    source.path
                );
                complaints.push(source.complaint("formats", line, fix));
            }
        }
    }
    for (at, line) in table.lines().enumerate() {
        for example in line.split('`').skip(1).step_by(2).filter(|example| example.contains('/')) {
            if !workspace.contains(example) {
                let fix = format!("`{example}` is gone: a kept example is kept for ever");
                complaints.push(Complaint::new("formats", TABLE, at + 1, fix));
            }
        }
    }
    complaints
}
