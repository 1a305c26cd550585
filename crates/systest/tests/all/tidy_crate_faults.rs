//! Tests of the rules of crates, their imports and their sizes: a planted violation is found, a
//! similar correct text is not reported.

use super::tidy_faults::{HEAD_COMMENT, file_workspace, must_accept, must_report};
use systest::tidy::{self, CRATE_LINES_MAX, Workspace};

#[test]
fn disallowed_crate_import_is_reported_in_manifest_and_code() {
    let manifest = "[dependencies]\nnode.workspace = true\n[lints]\nworkspace = true\n";
    must_report(
        tidy::imports(&Workspace::from_files(&[("crates/store/Cargo.toml", manifest)])),
        "not `node`",
    );
    let plain = "[dependencies]\nbase.workspace = true\n[lints]\nworkspace = true\n";
    must_accept(tidy::imports(&Workspace::from_files(&[("crates/store/Cargo.toml", plain)])));
    must_report(
        tidy::imports(&Workspace::from_files(&[("crates/attic/Cargo.toml", plain)])),
        "unknown crate",
    );
    must_report(
        tidy::imports(&Workspace::from_files(&[("research/attic/Cargo.toml", plain)])),
        "unknown crate",
    );
    must_report(
        tidy::imports(&Workspace::from_files(&[("research/dvv/Cargo.toml", manifest)])),
        "not `node`",
    );
    must_report(
        tidy::imports(&file_workspace("research/dvv/src/a.rs", "use node::Node;\n")),
        "not `node`",
    );
    must_report(
        tidy::imports(&Workspace::from_files(&[("crates/store/Cargo.toml", "[dependencies]\n")])),
        "add `[lints]`",
    );
    must_report(
        tidy::imports(&file_workspace("crates/server/src/a.rs", "use store::Log;\n")),
        "not `store`",
    );
    must_report(
        tidy::imports(&file_workspace("crates/logic/src/a.rs", "fn f() { node::g() }\n")),
        "not `node`",
    );
    must_accept(tidy::imports(&file_workspace(
        "crates/server/src/a.rs",
        "// store::Log is not ours\n",
    )));
    must_accept(tidy::imports(&file_workspace("crates/server/src/a.rs", "use node::Node;\n")));
    must_accept(tidy::imports(&file_workspace(
        "crates/server/src/a.rs",
        "use crate::store::Cookie;\n",
    )));
    must_report(
        tidy::imports(&file_workspace("crates/node/src/a.rs", "pub use base::Key;\n")),
        "re-exports",
    );
}

#[test]
fn crate_with_too_many_lines_is_reported_and_its_tests_do_not_count() {
    let body = |lines: usize| "const A: u8 = 1;\n".repeat(lines - HEAD_COMMENT.lines().count());
    let check = |name: &str, sizes: &[(&str, usize)]| {
        let files: Vec<_> = sizes
            .iter()
            .map(|(file, lines)| (format!("crates/{name}/src/{file}"), body(*lines)))
            .map(|(path, body)| (path, format!("{HEAD_COMMENT}{body}")))
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (&path[..], &text[..])).collect();
        tidy::crate_sizes(&Workspace::from_files(&files))
    };
    let half = CRATE_LINES_MAX / 2;
    must_accept(check("node", &[("a.rs", half), ("b.rs", half)]));
    must_accept(check("node", &[("a.rs", half), ("b.rs", half), ("tests.rs", half)]));
    must_accept(check("node", &[("a.rs", half), ("tests/b.rs", CRATE_LINES_MAX)]));
    let complaints = check("node", &[("a.rs", half), ("b.rs", half + 1)]);
    assert_eq!(complaints[0].path, "crates/node");
    must_report(complaints, "12001 lines without tests, of at most 12000: cut out");
    must_accept(check("server", &[("a.rs", CRATE_LINES_MAX + 1)]));
    must_report(check("server", &[("a.rs", 30_001)]), "of at most 30000 (a folder for each");
    must_accept(check("systest", &[("a.rs", CRATE_LINES_MAX + 1)]));
}
