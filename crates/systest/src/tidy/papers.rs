//! Checks that documents match the source tree: paths, links, settings, stories, decisions, kept
//! formats.

use super::source::CRATE_FOLDERS;
use super::{Complaint, Workspace};

/// Rule 7a: every path that ARCHITECTURE.md and the pages of docs/inside name exists.
pub fn architecture(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let tells = |path: &str| path == "ARCHITECTURE.md" || path.starts_with("docs/inside/");
    for (path, text) in workspace.texts.iter().filter(|(path, _)| tells(path)) {
        for (at, line) in text.lines().enumerate() {
            for named in line.split('`').skip(1).step_by(2).filter(|named| is_path(named)) {
                if !exists(workspace, named) {
                    let mend = format!("`{named}` does not exist: name where the thing lives now");
                    complaints.push(Complaint::new("paths", path, at + 1, mend));
                }
            }
        }
    }
    if !workspace.root.as_os_str().is_empty() && workspace.text("ARCHITECTURE.md").is_none() {
        let mend = "the map of the code is missing: write ARCHITECTURE.md".to_string();
        complaints.push(Complaint::new("paths", "ARCHITECTURE.md", 1, mend));
    }
    complaints
}

const KNOWN_ENDS: [&str; 7] = [".rs", ".md", ".toml", ".txt", ".py", ".sh", ".c"];
const KNOWN_ROOTS: [&str; 6] =
    ["crates/", "research/", "docs/", "clients/", "console/", "examples/"];

/// Returns true for words in backticks that mean a file or folder of the tree.
fn is_path(named: &str) -> bool {
    let plain = named.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    let rooted = KNOWN_ROOTS.iter().any(|root| named.starts_with(root));
    let ended = KNOWN_ENDS.iter().any(|end| named.ends_with(end)) && named.contains('/');
    plain && (rooted || ended) && !named.starts_with('/')
}

/// Returns true if the path exists as it is, or as the short form `node/route.rs` of
/// `crates/node/src/route.rs`.
fn exists(workspace: &Workspace, named: &str) -> bool {
    if workspace.holds(named) || workspace.holds(&format!("crates/{named}")) {
        return true;
    }
    match named.split_once('/') {
        Some((name, rest)) => {
            let rest = rest.strip_prefix("src/").unwrap_or(rest);
            CRATE_FOLDERS
                .iter()
                .any(|folder| workspace.holds(&format!("{folder}/{name}/src/{rest}")))
                || workspace.paths.iter().any(|path| path.ends_with(&format!("/src/{named}")))
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
            let file = if file.is_empty() { path.clone() } else { joined(folder, file) };
            if !workspace.holds(&file) {
                let mend = format!("the link to {target} leads nowhere ({file}): mend its path");
                complaints.push(Complaint::new("links", path, line, mend));
            } else if let (Some(anchor), Some(there)) = (anchor, workspace.text(&file))
                && !anchors(there).iter().any(|known| known == anchor)
            {
                let mend = format!("{file} has no heading #{anchor}: mend the anchor");
                complaints.push(Complaint::new("links", path, line, mend));
            }
        }
    }
    complaints
}

/// Returns the links outside code, `](target)`: line from 1, target.
fn link_targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced || line.starts_with("    ") {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for rest in prose.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push((at + 1, target.split(' ').next().unwrap_or("").to_string()));
            }
        }
    }
    found
}

fn joined(folder: &str, target: &str) -> String {
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
    let heads = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| -> String {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    heads.map(slug).collect()
}

/// Rule 8a: every setting of the table is in the docs page.
pub fn settings(workspace: &Workspace) -> Vec<Complaint> {
    const TABLE: &str = "crates/cli/src/settings/table.rs";
    const PAGE: &str = "docs/run/settings.md";
    let Some(table) = workspace.sources.iter().find(|source| source.path == TABLE) else {
        return Vec::new();
    };
    let page = workspace.text(PAGE).unwrap_or("");
    let mut complaints = Vec::new();
    for (line, name) in setting_names(&table.text) {
        if !page.contains(&format!("`{name}`")) {
            let mend = format!("the setting `{name}` is not in {PAGE}: regenerate the page");
            complaints.push(table.complaint("settings", line, mend));
        }
    }
    complaints
}

/// Returns the names in the table: every `name: "..."` in shipped code.
fn setting_names(text: &str) -> Vec<(usize, String)> {
    let named = |line: &str| {
        let rest = line.trim_start().trim_start_matches("Setting { ").strip_prefix("name: \"")?;
        rest.split_once('"').map(|(name, _)| name.to_string())
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(at, line)| named(line).map(|name| (at + 1, name))).collect()
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
        let player = workspace.sources.iter().filter(|source| source.path.starts_with(&parent));
        let mut player = player.filter(|source| {
            let whole = source.text.contains(&format!("{}\"", parts[at]))
                || source.text.contains(&format!("{}/", parts[at]));
            whole
                && (source.text.contains("read_dir")
                    || stem.is_some_and(|s| source.text.contains(s)))
        });
        if player.next().is_none() {
            let mend =
                format!("nobody plays this: let a tests.rs in {parent} play all of {folder}");
            complaints.push(Complaint::new("stories", path, 1, mend));
        }
        if !text.contains("---") {
            let mend = "nothing is recorded: play it with UPDATE_GOLDENFILES=1 and read the result";
            complaints.push(Complaint::new("stories", path, 1, mend.into()));
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
            let mend = "name it NNNN-words.md with a number of its own".to_string();
            complaints.push(Complaint::new("decisions", path, 1, mend));
        }
        numbers.push(number);
        if !index.contains(name) {
            let mend = format!("put it into {INDEX}, with a line that says what it decides");
            complaints.push(Complaint::new("decisions", path, 1, mend));
        }
        for part in ["Situation", "Decision", "Price", "When to look again"] {
            if !text.to_lowercase().contains(&part.to_lowercase()) {
                let mend = format!("a decision says its {part}: add that part");
                complaints.push(Complaint::new("decisions", path, 1, mend));
            }
        }
    }
    complaints
}

/// Rule 9: every on-disk format has a kept example, listed in the table of the kept formats.
pub fn formats(workspace: &Workspace) -> Vec<Complaint> {
    const TABLE: &str = "crates/systest/golden/README.md";
    let table = workspace.text(TABLE).unwrap_or("");
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        if !matches!(
            source.crate_name(),
            "store" | "replication" | "dynamo" | "transport" | "metadata" | "node"
        ) {
            continue;
        }
        for (line, text) in source.shipped() {
            let is_mark = text.contains("const ")
                && ["MAGIC", "FORMAT"].iter().any(|word| text.contains(word));
            if is_mark && !table.contains(&format!("`{}`", source.path)) {
                let mend = format!(
                    "a format on disk without a kept example: keep a small file under \
                     crates/systest/golden/, read it in tests/all/formats.rs, and name \
                     `{}` in {TABLE}",
                    source.path
                );
                complaints.push(source.complaint("formats", line, mend));
            }
        }
    }
    for (at, line) in table.lines().enumerate() {
        for named in line.split('`').skip(1).step_by(2).filter(|named| named.contains('/')) {
            if !workspace.holds(named) {
                let mend = format!("`{named}` is gone: a kept example is kept for ever");
                complaints.push(Complaint::new("formats", TABLE, at + 1, mend));
            }
        }
    }
    complaints
}
