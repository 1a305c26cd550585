//! Tests of the rules of the source tree: a planted violation is found, a similar correct text is
//! not reported.

use systest::tidy::{self, Complaint, Exception, SourceFile, Workspace};

pub(super) fn must_report(complaints: Vec<Complaint>, expected: &str) {
    assert!(
        complaints.iter().any(|complaint| complaint.fix.contains(expected)),
        "no complaint says {expected:?}: {complaints:?}"
    );
}

pub(super) fn must_accept(complaints: Vec<Complaint>) {
    assert!(complaints.is_empty(), "{complaints:?}");
}

pub(super) const HEAD_COMMENT: &str = "//! A file for a test.\n";

pub(super) fn file_workspace(path: &str, body: &str) -> Workspace {
    Workspace::from_files(&[(path, &format!("{HEAD_COMMENT}{body}"))])
}

#[test]
fn forbidden_word_is_reported_in_code_and_not_in_comments_or_tests() {
    let check = |path: &str, body: &str| tidy::forbidden_words(&file_workspace(path, body));
    must_report(check("crates/logic/src/a.rs", "use std::time::Instant;\n"), "time comes in");
    must_report(check("crates/logic/src/a.rs", "use std::collections::HashMap;\n"), "BTreeMap");
    must_report(check("crates/base/src/a.rs", "fn f() { println!(\"x\") }\n"), "only `app` prints");
    must_report(check("crates/node/src/a.rs", "use std::fs;\n"), "store's business");
    must_report(check("crates/node/src/a.rs", "fn f() { rand::random() }\n"), "dice");
    must_accept(check("crates/runtime/src/world.rs", "fn f() { rand::random() }\n"));
    must_accept(check(
        "crates/logic/src/a.rs",
        "// an Instant is never read\nconst A: &str = \"Instant\";\n",
    ));
    must_accept(check("crates/logic/src/a.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"));
    must_accept(check("crates/logic/src/tests.rs", "use std::collections::HashMap;\n"));
    must_accept(check("crates/logic/src/a.rs", "struct InstantNoodles;\n"));
}

#[test]
fn hash_table_without_a_key_of_the_process_is_reported() {
    let check = |path: &str, body: &str| tidy::forbidden_words(&file_workspace(path, body));
    let table = "use hashbrown::HashTable;\n";
    must_report(
        check("crates/server/src/a.rs", "type Names = HashMap<u8, u8>;\n"),
        "share a place",
    );
    must_report(check("crates/node/src/a.rs", table), "world::salt");
    must_report(check("crates/store/src/a.rs", "use quick_cache::sync::Cache;\n"), "the hasher of");
    must_accept(check("crates/store/src/trees/memtable.rs", table));
}

#[test]
fn loop_without_watch_is_reported() {
    let check = |path: &str, body: &str| tidy::forbidden_words(&file_workspace(path, body));
    let spawns = "fn f() { tokio::spawn(run()); }\n";
    must_report(check("crates/dynamo/src/a.rs", spawns), "a task has a parent");
    for (path, body) in [
        ("crates/node/src/a.rs", "use tokio::task::JoinSet;\n"),
        ("crates/transport/src/a.rs", "fn f() { Handle::current() }\n"),
        ("crates/server/src/resp/a.rs", spawns),
        ("crates/server/src/resp/a.rs", "use tokio::task::JoinSet;\n"),
        ("crates/cli/src/a.rs", spawns),
        ("crates/cli/src/a.rs", "use std::thread::Builder;\nfn f() { thread::Builder::new() }\n"),
    ] {
        must_report(check(path, body), "a loop");
    }
    must_accept(check("crates/server/src/listener/mod.rs", spawns));
    must_accept(check("crates/replication/src/compare.rs", "use tokio::task::JoinSet;\n"));
}

#[test]
fn import_between_logic_subjects_is_reported() {
    let workspace = Workspace::from_files(&[
        ("crates/logic/src/consensus/mod.rs", HEAD_COMMENT),
        ("crates/logic/src/ring/claim.rs", "//! Claims a ring.\nuse crate::consensus::Replica;\n"),
    ]);
    must_report(tidy::subjects(&workspace), "imports subject `consensus`");
    must_accept(tidy::subjects(&file_workspace(
        "crates/logic/src/ring/a.rs",
        "use crate::ring::b;\n",
    )));
}

#[test]
fn module_import_cycle_is_reported() {
    let workspace = |back: &str| {
        Workspace::from_files(&[
            ("crates/store/src/lib.rs", "//! A crate.\nmod a;\nmod b;\npub use b::Item;\n"),
            ("crates/store/src/a/mod.rs", "//! A.\nmod deep;\n"),
            ("crates/store/src/a/deep.rs", "//! A.\nuse crate::{b::Other, x};\n"),
            ("crates/store/src/b.rs", &format!("//! B.\n{back}")),
        ])
    };
    must_accept(tidy::import_cycles(&workspace("use std::fmt;\n")));
    must_accept(tidy::import_cycles(&workspace(
        "#[cfg(test)]\nmod tests {\n    use crate::a::C;\n}\n",
    )));
    must_accept(tidy::import_cycles(&workspace("use crate::Item;\n")));
    for back in ["use crate::a::C;\n", "use super::{a::C, b};\n", "fn f() { crate::a::g() }\n"] {
        must_report(tidy::import_cycles(&workspace(back)), "the modules a, b import each other");
    }
    // Through a name that the crate root re-exports.
    let through = Workspace::from_files(&[
        ("crates/store/src/lib.rs", "//! A crate.\nmod a;\nmod b;\npub use b::Item;\n"),
        ("crates/store/src/a.rs", "//! A.\nuse crate::Item;\n"),
        ("crates/store/src/b.rs", "//! B.\nuse super::a;\n"),
    ]);
    must_report(tidy::import_cycles(&through), "the modules a, b import each other");
    let research = Workspace::from_files(&[
        ("research/dvv/src/main.rs", "//! A crate.\nmod a;\nmod b;\n"),
        ("research/dvv/src/a.rs", "//! A.\nuse crate::b::Item;\n"),
        ("research/dvv/src/b.rs", "//! B.\nuse super::a;\n"),
    ]);
    must_report(tidy::import_cycles(&research), "the modules a, b import each other");
}

#[test]
fn ambiguous_or_non_noun_type_name_is_reported_and_list_only_shrinks() {
    let workspace = |third: &str| {
        Workspace::from_files(&[
            ("crates/store/src/a.rs", "//! A.\npub struct Slot;\n"),
            ("crates/base/src/b.rs", "//! B.\npub(super) enum Slot {}\n"),
            ("crates/node/src/c.rs", &format!("//! C.\n{third}")),
        ])
    };
    must_accept(tidy::type_names(
        &workspace("type Span = u8;\nfn f() {\n    struct Slot;\n}\n"),
        &[],
    ));
    must_accept(tidy::type_names(
        &workspace("#[cfg(test)]\nmod tests {\n    struct Slot;\n}\n"),
        &[],
    ));
    must_report(
        tidy::type_names(&workspace("trait Slot {}\n"), &[]),
        "`Slot` is the name of 3 types",
    );
    must_accept(tidy::type_names(&workspace("trait Slot {}\n"), &["Slot"]));
    must_report(
        tidy::type_names(&workspace("struct Told(u8);\n"), &[]),
        "`Told` is the name of 1 types",
    );
    must_report(tidy::type_names(&workspace(""), &["Slot"]), "`Slot` is a good name by now");
    must_report(tidy::type_names(&workspace(""), &["Gone"]), "no type is called `Gone`");
}

#[test]
fn overlong_file_function_or_line_is_reported_and_exceptions_shrink() {
    let long =
        |lines: usize| file_workspace("crates/base/src/a.rs", &"const A: u8 = 1;\n".repeat(lines));
    must_accept(tidy::lengths(&long(399), &[]));
    must_report(tidy::lengths(&long(400), &[]), "cut it by subject");
    let exception =
        |lines| [Exception { path: "crates/base/src/a.rs", item: "file", lines, reason: "w" }];
    must_accept(tidy::lengths(&long(409), &exception(410)));
    must_report(tidy::lengths(&long(410), &exception(410)), "grew from 410");
    must_report(tidy::lengths(&long(408), &exception(410)), "lower the exception");
    must_report(tidy::lengths(&long(100), &exception(410)), "off the list");
    must_report(tidy::lengths(&Workspace::default(), &exception(410)), "it is gone");
    let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
    must_accept(tidy::lengths(&file_workspace("crates/base/src/a.rs", &body(68)), &[]));
    must_report(
        tidy::lengths(&file_workspace("crates/base/src/a.rs", &body(69)), &[]),
        "f: 71 of at most 70",
    );
    let wide = format!("// {}\n", "x".repeat(98));
    must_report(tidy::lengths(&file_workspace("crates/base/src/a.rs", &wide), &[]), "100 columns");
    must_accept(tidy::lengths(&file_workspace("crates/base/src/a.rs", &wide[1..]), &[]));
}

#[test]
fn function_length_ignores_braces_in_strings_and_comments() {
    let text = r##"//! S.
fn a(x: [u8; 4]) -> u8 {
    let _ = "}"; // }
    if x[0] == b'}' {
        1
    } else {
        2
    }
}
trait T {
    fn declared(&self);
}
fn b<'a>(s: &'a str) -> &'a str { s }
fn c() {
    r#"}}"#;
}
"##;
    let found = SourceFile::new("crates/base/src/a.rs", text).functions();
    assert_eq!(
        found,
        [(2, "a".to_string(), 8), (13, "b".to_string(), 1), (14, "c".to_string(), 3)]
    );
}

#[test]
fn documentation_beginning_with_a_clause_is_reported() {
    let check =
        |text: &str| tidy::documentation(&Workspace::from_files(&[("crates/base/src/a.rs", text)]));
    must_report(check("//! What it is.\n"), "`What ...`");
    must_report(check("//! A.\n\n/// The same in bytes.\npub struct B;\n"), "begin with a noun");
    must_report(
        check("//! A.\n\n/// How far.\n#[derive(Debug)]\npub(crate) struct B;\n"),
        "`How ...`",
    );
    must_accept(check(
        "//! A.\n\n/// Size of B.\n/// What follows is said elsewhere.\npub struct B;\n",
    ));
    must_accept(check("//! Whatsoever.\n\n/// How it works here.\nfn b() {}\n"));
}

#[test]
fn walkthrough_with_repeated_file_or_unknown_function_is_reported() {
    let code = ("crates/node/src/route.rs", "//! A.\n\nfn submit() {}\n");
    let head = "# A read\n\n| # | file | function | what |\n|---|---|---|---|\n";
    let step = "| 1 | `crates/node/src/route.rs` | `submit` | it is routed |\n";
    let check = |steps: &str| {
        let page = format!("{head}{steps}");
        tidy::walkthroughs(&Workspace::from_files(&[
            code,
            ("docs/inside/life-of-a-read.md", &page),
        ]))
    };
    must_accept(check(step));
    must_report(check(&step.repeat(2)), "visited twice");
    must_report(check(&step.replace("submit", "route")), "no function `route`");
    must_report(check(""), "has 0 steps");
    must_report(check(&step.repeat(13)), "has 13 steps");
}

#[test]
fn file_without_head_comment_is_reported() {
    must_report(
        tidy::file_heads(&Workspace::from_files(&[("crates/base/src/a.rs", "fn f() {}\n")])),
        "begin the file",
    );
    must_report(
        tidy::file_heads(&Workspace::from_files(&[("crates/base/src/mod.rs", HEAD_COMMENT)])),
        "add `//! Promises:",
    );
    must_accept(tidy::file_heads(&Workspace::from_files(&[(
        "crates/base/src/lib.rs",
        "//! A crate.\n//!\n//! Promises: a.\n//! Never: b.\n",
    )])));
    must_report(
        tidy::file_heads(&Workspace::from_files(&[("clients/a.py", "import os\n")])),
        "begin the file",
    );
    must_accept(tidy::file_heads(&Workspace::from_files(&[(
        "clients/a.py",
        "#!/usr/bin/env python3\n\"\"\"A.\"\"\"\n",
    )])));
}

#[test]
fn unbiased_select_unwrap_todo_and_dbg_are_reported() {
    let check = |path: &str, body: &str| tidy::forbidden_leftovers(&file_workspace(path, body));
    must_report(
        check("crates/node/src/a.rs", "fn f() { tokio::select! { a = b => {} } }\n"),
        "biased",
    );
    must_accept(check(
        "crates/node/src/a.rs",
        "fn f() { tokio::select! { biased; a = b => {} } }\n",
    ));
    must_report(check("crates/base/src/a.rs", "fn f() { g().unwrap() }\n"), "says nothing");
    must_accept(check("crates/base/src/tests.rs", "fn f() { g().unwrap() }\n"));
    must_accept(check("crates/base/src/a.rs", "// .unwrap() is not used here\n"));
    must_report(
        check("crates/base/src/a.rs", &format!("// {}: later\n", "TO".to_owned() + "DO")),
        "nobody",
    );
    must_report(check("crates/base/src/a.rs", "fn f() { dbg!(1); }\n"), "before it is kept");
    must_report(check("crates/base/src/a.rs", "fn f() { todo!() }\n"), "no stub");
}

#[test]
fn stale_architecture_path_and_broken_link_are_reported() {
    let named = |text: &str| {
        Workspace::from_files(&[
            ("ARCHITECTURE.md", text),
            ("crates/node/src/route.rs", HEAD_COMMENT),
        ])
    };
    must_report(tidy::architecture(&named("# A\nsee `node/gone.rs`\n")), "does not exist");
    must_report(tidy::architecture(&named("# A\nsee `research/gone`\n")), "does not exist");
    must_accept(tidy::architecture(&named("# A\nsee `node/route.rs`, `crates/node/` and `a/b`\n")));
    let linked =
        |text: &str| Workspace::from_files(&[("docs/a.md", text), ("README.md", "# Read me\n")]);
    must_report(tidy::links(&linked("# A\n[b](b.md)\n")), "leads nowhere");
    must_report(tidy::links(&linked("# A\n[b](../README.md#other)\n")), "no heading");
    must_accept(tidy::links(&linked("# A\n[b](../README.md#read-me) and `[x](y)`\n")));
}

#[test]
fn missing_setting_unplayed_story_and_unindexed_decision_are_reported() {
    let table = "//! S.\nconst T: X = Setting {\n    name: \"listen\",\n};\n";
    let page = |text: &str| {
        Workspace::from_files(&[
            ("crates/settings/src/table.rs", table),
            ("docs/run/settings.md", text),
        ])
    };
    must_report(tidy::settings(&page("# Settings\n")), "regenerate");
    must_accept(tidy::settings(&page("# Settings\n`listen`\n")));
    let story = "crates/logic/src/a/stories/one.txt";
    must_report(
        tidy::stories(&Workspace::from_files(&[(story, "put\n---\nok\n")])),
        "nobody plays",
    );
    let player = "//! S.\nfn f() { std::fs::read_dir(\"src/a/stories\") }\n";
    let played = |text: &str| {
        Workspace::from_files(&[(story, text), ("crates/logic/src/a/tests.rs", player)])
    };
    must_accept(tidy::stories(&played("put\n---\nok\n")));
    must_report(tidy::stories(&played("put\n")), "nothing is recorded");
    let decision = "# D\nSituation Decision Price When to look again\n";
    let decided = |index: &str| {
        Workspace::from_files(&[
            ("docs/decisions/0001-a.md", decision),
            ("docs/decisions/README.md", index),
        ])
    };
    must_report(tidy::decisions(&decided("# Index\n")), "put it into");
    must_accept(tidy::decisions(&decided("# Index\n[a](0001-a.md)\n")));
}

#[test]
fn disk_format_without_kept_example_is_reported() {
    let format = ("crates/store/src/log/segment.rs", "//! S.\nconst MAGIC: u64 = 1;\n");
    must_report(tidy::formats(&Workspace::from_files(&[format])), "without a kept example");
    let table = "| `crates/store/src/log/segment.rs` | `crates/systest/golden/a.bin` |\n";
    let readme = ("crates/systest/golden/README.md", table);
    must_report(tidy::formats(&Workspace::from_files(&[format, readme])), "kept for ever");
    must_accept(tidy::formats(&Workspace::from_files(&[
        format,
        readme,
        ("crates/systest/golden/a.bin", "a"),
    ])));
}
