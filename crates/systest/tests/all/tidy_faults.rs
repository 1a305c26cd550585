//! Tests of the rules of the source tree: a planted violation is found, a similar correct text is
//! not reported.

use systest::tidy::{self, Complaint, Exception, SourceFile, Workspace};

fn caught(complaints: Vec<Complaint>, word: &str) {
    assert!(
        complaints.iter().any(|complaint| complaint.mend.contains(word)),
        "no complaint says {word:?}: {complaints:?}"
    );
}

fn quiet(complaints: Vec<Complaint>) {
    assert!(complaints.is_empty(), "{complaints:?}");
}

const SIGN: &str = "//! A file for a test.\n";

fn one(path: &str, body: &str) -> Workspace {
    Workspace::of(&[(path, &format!("{SIGN}{body}"))])
}

#[test]
fn an_arrow_that_points_up_is_caught_in_the_manifest_and_in_the_code() {
    let manifest = "[dependencies]\nnode.workspace = true\n[lints]\nworkspace = true\n";
    caught(tidy::imports(&Workspace::of(&[("crates/store/Cargo.toml", manifest)])), "not `node`");
    let plain = "[dependencies]\nbase.workspace = true\n[lints]\nworkspace = true\n";
    quiet(tidy::imports(&Workspace::of(&[("crates/store/Cargo.toml", plain)])));
    caught(tidy::imports(&Workspace::of(&[("crates/attic/Cargo.toml", plain)])), "unknown crate");
    caught(tidy::imports(&Workspace::of(&[("research/attic/Cargo.toml", plain)])), "unknown crate");
    caught(tidy::imports(&Workspace::of(&[("research/dvv/Cargo.toml", manifest)])), "not `node`");
    caught(tidy::imports(&one("research/dvv/src/a.rs", "use node::Node;\n")), "not `node`");
    caught(
        tidy::imports(&Workspace::of(&[("crates/store/Cargo.toml", "[dependencies]\n")])),
        "add `[lints]`",
    );
    caught(tidy::imports(&one("crates/server/src/a.rs", "use store::Log;\n")), "not `store`");
    caught(tidy::imports(&one("crates/logic/src/a.rs", "fn f() { node::g() }\n")), "not `node`");
    quiet(tidy::imports(&one("crates/server/src/a.rs", "// store::Log is not ours\n")));
    quiet(tidy::imports(&one("crates/server/src/a.rs", "use node::Node;\n")));
    quiet(tidy::imports(&one("crates/server/src/a.rs", "use crate::store::Cookie;\n")));
    caught(tidy::imports(&one("crates/node/src/a.rs", "pub use base::Key;\n")), "re-exports");
}

#[test]
fn a_forbidden_word_is_caught_where_it_acts_and_nowhere_else() {
    let words = |path: &str, body: &str| tidy::forbidden_words(&one(path, body));
    caught(words("crates/logic/src/a.rs", "use std::time::Instant;\n"), "time comes in");
    caught(words("crates/logic/src/a.rs", "use std::collections::HashMap;\n"), "BTreeMap");
    caught(words("crates/base/src/a.rs", "fn f() { println!(\"x\") }\n"), "only `app` prints");
    caught(words("crates/node/src/a.rs", "use std::fs;\n"), "store's business");
    caught(words("crates/node/src/a.rs", "fn f() { rand::random() }\n"), "dice");
    quiet(words("crates/runtime/src/world.rs", "fn f() { rand::random() }\n"));
    quiet(words(
        "crates/logic/src/a.rs",
        "// an Instant is never read\nconst A: &str = \"Instant\";\n",
    ));
    quiet(words("crates/logic/src/a.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"));
    quiet(words("crates/logic/src/tests.rs", "use std::collections::HashMap;\n"));
    quiet(words("crates/logic/src/a.rs", "struct InstantNoodles;\n"));
}

#[test]
fn a_subject_that_imports_its_neighbour_is_caught() {
    let workspace = Workspace::of(&[
        ("crates/logic/src/consensus/mod.rs", SIGN),
        ("crates/logic/src/ring/claim.rs", "//! Claims a ring.\nuse crate::consensus::Replica;\n"),
    ]);
    caught(tidy::subjects(&workspace), "imports subject `consensus`");
    quiet(tidy::subjects(&one("crates/logic/src/ring/a.rs", "use crate::ring::b;\n")));
}

#[test]
fn a_circle_of_modules_is_caught() {
    let workspace = |back: &str| {
        Workspace::of(&[
            ("crates/store/src/lib.rs", "//! A crate.\nmod a;\nmod b;\npub use b::Item;\n"),
            ("crates/store/src/a/mod.rs", "//! A.\nmod deep;\n"),
            ("crates/store/src/a/deep.rs", "//! A.\nuse crate::{b::Other, x};\n"),
            ("crates/store/src/b.rs", &format!("//! B.\n{back}")),
        ])
    };
    quiet(tidy::circles(&workspace("use std::fmt;\n")));
    quiet(tidy::circles(&workspace("#[cfg(test)]\nmod tests {\n    use crate::a::C;\n}\n")));
    quiet(tidy::circles(&workspace("use crate::Item;\n")));
    for back in ["use crate::a::C;\n", "use super::{a::C, b};\n", "fn f() { crate::a::g() }\n"] {
        caught(tidy::circles(&workspace(back)), "the modules a, b import each other");
    }
    // Through a name that the root re-exports.
    let through = Workspace::of(&[
        ("crates/store/src/lib.rs", "//! A crate.\nmod a;\nmod b;\npub use b::Item;\n"),
        ("crates/store/src/a.rs", "//! A.\nuse crate::Item;\n"),
        ("crates/store/src/b.rs", "//! B.\nuse super::a;\n"),
    ]);
    caught(tidy::circles(&through), "the modules a, b import each other");
    let research = Workspace::of(&[
        ("research/dvv/src/main.rs", "//! A crate.\nmod a;\nmod b;\n"),
        ("research/dvv/src/a.rs", "//! A.\nuse crate::b::Item;\n"),
        ("research/dvv/src/b.rs", "//! B.\nuse super::a;\n"),
    ]);
    caught(tidy::circles(&research), "the modules a, b import each other");
}

#[test]
fn a_name_that_three_types_have_or_that_is_no_noun_is_caught_and_the_list_only_shrinks() {
    let workspace = |third: &str| {
        Workspace::of(&[
            ("crates/store/src/a.rs", "//! A.\npub struct Slot;\n"),
            ("crates/base/src/b.rs", "//! B.\npub(super) enum Slot {}\n"),
            ("crates/node/src/c.rs", &format!("//! C.\n{third}")),
        ])
    };
    quiet(tidy::type_names(&workspace("type Span = u8;\nfn f() {\n    struct Slot;\n}\n"), &[]));
    quiet(tidy::type_names(&workspace("#[cfg(test)]\nmod tests {\n    struct Slot;\n}\n"), &[]));
    caught(tidy::type_names(&workspace("trait Slot {}\n"), &[]), "`Slot` is the name of 3 types");
    quiet(tidy::type_names(&workspace("trait Slot {}\n"), &["Slot"]));
    caught(
        tidy::type_names(&workspace("struct Told(u8);\n"), &[]),
        "`Told` is the name of 1 types",
    );
    caught(tidy::type_names(&workspace(""), &["Slot"]), "`Slot` is a good name by now");
    caught(tidy::type_names(&workspace(""), &["Gone"]), "no type is called `Gone`");
}

#[test]
fn what_is_too_long_is_caught_and_exceptions_only_shrink() {
    let long = |lines: usize| one("crates/base/src/a.rs", &"const A: u8 = 1;\n".repeat(lines));
    quiet(tidy::lengths(&long(399), &[]));
    caught(tidy::lengths(&long(400), &[]), "cut it by subject");
    let known = |lines| [Exception { path: "crates/base/src/a.rs", what: "file", lines, why: "w" }];
    quiet(tidy::lengths(&long(409), &known(410)));
    caught(tidy::lengths(&long(410), &known(410)), "grew from 410");
    caught(tidy::lengths(&long(408), &known(410)), "lower the exception");
    caught(tidy::lengths(&long(100), &known(410)), "off the list");
    caught(tidy::lengths(&Workspace::default(), &known(410)), "it is gone");
    let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
    quiet(tidy::lengths(&one("crates/base/src/a.rs", &body(68)), &[]));
    caught(tidy::lengths(&one("crates/base/src/a.rs", &body(69)), &[]), "f: 71 of at most 70");
    let wide = format!("// {}\n", "x".repeat(98));
    caught(tidy::lengths(&one("crates/base/src/a.rs", &wide), &[]), "100 columns");
    quiet(tidy::lengths(&one("crates/base/src/a.rs", &wide[1..]), &[]));
}

#[test]
fn functions_are_measured_through_texts_comments_and_nested_braces() {
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
fn documentation_that_begins_with_a_clause_is_caught() {
    let of = |text: &str| tidy::documentation(&Workspace::of(&[("crates/base/src/a.rs", text)]));
    caught(of("//! What it is.\n"), "`What ...`");
    caught(of("//! A.\n\n/// The same in bytes.\npub struct B;\n"), "begin with a noun");
    caught(of("//! A.\n\n/// How far.\n#[derive(Debug)]\npub(crate) struct B;\n"), "`How ...`");
    quiet(of("//! A.\n\n/// Size of B.\n/// What follows is said elsewhere.\npub struct B;\n"));
    quiet(of("//! Whatsoever.\n\n/// How it works here.\nfn b() {}\n"));
}

#[test]
fn a_walk_that_comes_back_or_names_no_function_is_caught() {
    let code = ("crates/node/src/route.rs", "//! A.\n\nfn submit() {}\n");
    let head = "# A read\n\n| # | file | function | what |\n|---|---|---|---|\n";
    let step = "| 1 | `crates/node/src/route.rs` | `submit` | it is routed |\n";
    let of = |steps: &str| {
        let page = format!("{head}{steps}");
        tidy::walks(&Workspace::of(&[code, ("docs/inside/life-of-a-read.md", &page)]))
    };
    quiet(of(step));
    caught(of(&step.repeat(2)), "visited twice");
    caught(of(&step.replace("submit", "route")), "no function `route`");
    caught(of(""), "has 0 steps");
    caught(of(&step.repeat(13)), "has 13 steps");
}

#[test]
fn a_file_without_a_head_comment_is_caught() {
    caught(
        tidy::file_heads(&Workspace::of(&[("crates/base/src/a.rs", "fn f() {}\n")])),
        "begin the file",
    );
    caught(
        tidy::file_heads(&Workspace::of(&[("crates/base/src/mod.rs", SIGN)])),
        "add `//! Promises:",
    );
    quiet(tidy::file_heads(&Workspace::of(&[(
        "crates/base/src/lib.rs",
        "//! A crate.\n//!\n//! Promises: a.\n//! Never: b.\n",
    )])));
    caught(tidy::file_heads(&Workspace::of(&[("clients/a.py", "import os\n")])), "begin the file");
    quiet(tidy::file_heads(&Workspace::of(&[(
        "clients/a.py",
        "#!/usr/bin/env python3\n\"\"\"A.\"\"\"\n",
    )])));
}

#[test]
fn small_things_are_caught() {
    let small = |path: &str, body: &str| tidy::small_things(&one(path, body));
    caught(small("crates/node/src/a.rs", "fn f() { tokio::select! { a = b => {} } }\n"), "biased");
    quiet(small("crates/node/src/a.rs", "fn f() { tokio::select! { biased; a = b => {} } }\n"));
    caught(small("crates/base/src/a.rs", "fn f() { g().unwrap() }\n"), "says nothing");
    quiet(small("crates/base/src/tests.rs", "fn f() { g().unwrap() }\n"));
    quiet(small("crates/base/src/a.rs", "// .unwrap() is not used here\n"));
    caught(
        small("crates/base/src/a.rs", &format!("// {}: later\n", "TO".to_owned() + "DO")),
        "nobody",
    );
    caught(small("crates/base/src/a.rs", "fn f() { dbg!(1); }\n"), "before it is kept");
    caught(small("crates/base/src/a.rs", "fn f() { todo!() }\n"), "no stub");
}

#[test]
fn papers_that_drift_are_caught() {
    let named = |text: &str| {
        Workspace::of(&[("ARCHITECTURE.md", text), ("crates/node/src/route.rs", SIGN)])
    };
    caught(tidy::architecture(&named("# A\nsee `node/gone.rs`\n")), "does not exist");
    caught(tidy::architecture(&named("# A\nsee `research/gone`\n")), "does not exist");
    quiet(tidy::architecture(&named("# A\nsee `node/route.rs`, `crates/node/` and `a/b`\n")));
    let linked = |text: &str| Workspace::of(&[("docs/a.md", text), ("README.md", "# Read me\n")]);
    caught(tidy::links(&linked("# A\n[b](b.md)\n")), "leads nowhere");
    caught(tidy::links(&linked("# A\n[b](../README.md#other)\n")), "no heading");
    quiet(tidy::links(&linked("# A\n[b](../README.md#read-me) and `[x](y)`\n")));
}

#[test]
fn lists_that_drift_are_caught() {
    let table = "//! S.\nconst T: X = Setting {\n    name: \"listen\",\n};\n";
    let page = |text: &str| {
        Workspace::of(&[
            ("crates/cli/src/settings/table.rs", table),
            ("docs/run/settings.md", text),
        ])
    };
    caught(tidy::settings(&page("# Settings\n")), "regenerate");
    quiet(tidy::settings(&page("# Settings\n`listen`\n")));
    let story = "crates/logic/src/a/stories/one.txt";
    caught(tidy::stories(&Workspace::of(&[(story, "put\n---\nok\n")])), "nobody plays");
    let player = "//! S.\nfn f() { std::fs::read_dir(\"src/a/stories\") }\n";
    let played =
        |text: &str| Workspace::of(&[(story, text), ("crates/logic/src/a/tests.rs", player)]);
    quiet(tidy::stories(&played("put\n---\nok\n")));
    caught(tidy::stories(&played("put\n")), "nothing is recorded");
    let decision = "# D\nSituation Decision Price When to look again\n";
    let decided = |index: &str| {
        Workspace::of(&[
            ("docs/decisions/0001-a.md", decision),
            ("docs/decisions/README.md", index),
        ])
    };
    caught(tidy::decisions(&decided("# Index\n")), "put it into");
    quiet(tidy::decisions(&decided("# Index\n[a](0001-a.md)\n")));
}

#[test]
fn a_format_without_a_kept_example_is_caught() {
    let format = ("crates/store/src/log/segment.rs", "//! S.\nconst MAGIC: u64 = 1;\n");
    caught(tidy::formats(&Workspace::of(&[format])), "without a kept example");
    let table = "| `crates/store/src/log/segment.rs` | `crates/systest/golden/a.bin` |\n";
    let kept = ("crates/systest/golden/README.md", table);
    caught(tidy::formats(&Workspace::of(&[format, kept])), "kept for ever");
    quiet(tidy::formats(&Workspace::of(&[format, kept, ("crates/systest/golden/a.bin", "a")])));
}
