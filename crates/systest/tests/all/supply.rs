//! Supply chain: sources and licences of all dependencies; `deny.toml`, checked without a tool.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use systest::tidy;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Returns every quoted text of a list in `deny.toml`; of a line with a comment or a reason only
/// the first one.
fn list(name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(tidy::root().join("deny.toml")).expect("deny.toml is there");
    let (_, rest) = text.split_once(&format!("\n{name} = [")).expect("deny.toml has this list");
    let (inside, _) = rest.split_once("\n]").expect("the list ends");
    inside.lines().filter_map(|line| line.split('"').nth(1)).map(String::from).collect()
}

/// Returns cargo's metadata of every crate that is built here, tests included.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.current_dir(tidy::root()).args(["metadata", "--format-version=1", "--locked"]);
    cargo.args(["--offline", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = cargo.output().expect("cargo runs this test");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {stderr}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

/// Returns true if these licences satisfy a licence expression.
fn is_allowed(expression: &str, licences: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let is_satisfied = evaluate_or(&tokens, &mut at, licences);
    is_satisfied && at == tokens.len()
}

fn evaluate_or(tokens: &[&str], at: &mut usize, licences: &BTreeSet<String>) -> bool {
    let mut is_satisfied = evaluate_and(tokens, at, licences);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        is_satisfied |= evaluate_and(tokens, at, licences);
    }
    is_satisfied
}

fn evaluate_and(tokens: &[&str], at: &mut usize, licences: &BTreeSet<String>) -> bool {
    let mut is_satisfied = evaluate_term(tokens, at, licences);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        is_satisfied &= evaluate_term(tokens, at, licences);
    }
    is_satisfied
}

fn evaluate_term(tokens: &[&str], at: &mut usize, licences: &BTreeSet<String>) -> bool {
    let Some(first) = tokens.get(*at) else { return false };
    *at += 1;
    if *first == "(" {
        let is_satisfied = evaluate_or(tokens, at, licences);
        let closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return is_satisfied && closed;
    }
    if tokens.get(*at) == Some(&"WITH") {
        let name = format!("{first} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
        return licences.contains(&name);
    }
    licences.contains(*first)
}

#[test]
fn licence_expressions_are_evaluated_against_allowed_licences() {
    let licences = ["MIT", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
    for good in ["MIT", "GPL-2.0 OR MIT", "X/MIT", "(X OR MIT) AND MIT"] {
        assert!(is_allowed(good, &licences), "{good}");
    }
    assert!(is_allowed("Apache-2.0 WITH LLVM-exception AND MIT", &licences));
    for bad in ["", "GPL-2.0", "MIT AND X", "(MIT OR X) AND X", "(MIT", "Apache-2.0", "MIT X"] {
        assert!(!is_allowed(bad, &licences), "{bad}");
    }
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let licences = list("allow");
    let packages = packages();
    assert!(packages.len() > 100, "cargo knows more crates than {}", packages.len());
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str());
        let accepted = licence.is_some_and(|licence| is_allowed(licence, &licences));
        assert!(accepted, "{name} is licensed under {licence:?}; see [licenses] in deny.toml");
    }
}

/// Returns the names of the workspace's packages; a folder may have another.
fn own_packages() -> BTreeSet<String> {
    let folders = tidy::CRATE_FOLDERS.map(|folder| tidy::root().join(folder));
    let inside = folders.into_iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let manifest = |entry: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.expect("an entry").path().join("Cargo.toml")).ok()?;
        Some(text.split_once("name = \"")?.1.split('"').next()?.to_string())
    };
    inside.filter_map(manifest).collect()
}

#[test]
fn every_dependency_comes_from_crates_io_with_a_checksum() {
    let lock = fs::read_to_string(tidy::root().join("Cargo.lock")).expect("Cargo.lock is there");
    let ours = own_packages();
    let mut foreign = 0;
    for package in lock.split("[[package]]").skip(1) {
        let name = package.split('"').nth(1).unwrap_or("?");
        let Some((_, source)) = package.split_once("source = \"") else {
            assert!(ours.contains(name), "{name} has no source and is no crate of ours");
            continue;
        };
        assert!(source.starts_with(&format!("{REGISTRY}\"")), "{name} comes from elsewhere");
        assert!(package.contains("checksum = \""), "{name} has no checksum");
        foreign += 1;
    }
    assert!(foreign > 100, "the lock file holds more than {foreign} crates");
}

#[test]
fn every_dependency_has_a_single_version_unless_listed() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let text = |field: &str| package[field].as_str().unwrap_or("?").to_string();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let mut skipped = list("skip");
    for (name, versions) in &versions {
        let reasoned = versions.iter().filter(|v| skipped.remove(&format!("{name}@{v}"))).count();
        let unlisted = versions.len() - reasoned;
        assert_eq!(
            unlisted, 1,
            "{name} {versions:?}: see `cargo tree -d`, then [bans] in deny.toml"
        );
    }
    assert!(skipped.is_empty(), "deny.toml may forget {skipped:?}: they are not built any more");
}

#[test]
fn every_dependency_version_is_bounded() {
    for package in packages().iter().filter(|package| package["source"].is_null()) {
        for dependency in package["dependencies"].as_array().expect("a list") {
            let is_local = !dependency["path"].is_null();
            let is_bounded = dependency["req"].as_str().is_some_and(|version| version != "*");
            assert!(is_local || is_bounded, "{} wants any {}", package["name"], dependency["name"]);
        }
    }
}

#[test]
fn bill_of_materials_lists_every_linked_crate_with_license_and_checksum() {
    let script = tidy::root().join("packaging/sbom");
    let make = || {
        let output = Command::new("python3").arg(&script).output().expect("python3 is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let text = make();
    assert_eq!(text, make(), "equal lock files give equal bytes");
    let document: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(document["specVersion"], "1.5");
    let components = document["components"].as_array().expect("a list");
    let names: BTreeSet<&str> =
        components.iter().filter_map(|component| component["name"].as_str()).collect();
    for name in ["base", "node", "tokio", "lsm-tree", "mimalloc"] {
        assert!(names.contains(name), "{name} is linked: {names:?}");
    }
    for name in ["proptest", "stateright", "systest", "goldenfile"] {
        assert!(!names.contains(name), "{name} is for tests alone");
    }
    let known: BTreeSet<String> =
        packages().iter().filter_map(|package| Some(package["name"].as_str()?.into())).collect();
    for component in components {
        let name = component["name"].as_str().expect("a name");
        assert!(known.contains(name), "{name} is no package of the lock file");
        assert!(component["licenses"][0]["expression"].is_string(), "{name}");
        let is_foreign = component.get("purl").is_some();
        assert_eq!(is_foreign, component.get("hashes").is_some(), "{name}");
    }
}

#[test]
fn hasher_of_the_row_cache_draws_its_key_from_the_system() {
    let lock = fs::read_to_string(tidy::root().join("Cargo.lock")).expect("it is there");
    let (_, package) = lock.split_once("name = \"ahash\"\n").expect("the row cache brings it");
    let package = package.split("[[package]]").next().unwrap_or_default();
    // Without its feature `runtime-rng` it needs no `getrandom`, and its key is a constant.
    assert!(package.contains("\"getrandom"), "{package}");
}
