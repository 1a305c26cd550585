//! Docs page of settings, generated from the table; a test fails if the kept page differs.

use crate::TABLE;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Settings

<!-- Made by `credenza settings --markdown`; a test fails when this page is stale. -->

Every setting of `credenza serve` has one name in three places: the flag `--log-level`, the key
`log_level` in the TOML file named by `--config`, and the environment variable `CREDENZA_LOG_LEVEL`.
A flag wins over the environment, the environment over the file, the file over the default. An
unknown key in the file is an error with its line. `credenza settings` shows what is in force and
where it came from. `--port NUMBER` is short for `--listen 127.0.0.1:NUMBER`, `--data` and `--node`
are other spellings of `--data-dir` and `--name`. A variable of the environment whose name is near
to one of these, but none, is warned of.

A reload (`credenza reload`, or the signal HUP) reads the file again. A `live` setting then has its
new value, a `restart` one waits for a restart, and the answer names both.

A setting with `local` in the last column names files or addresses, or protects the node. It comes
from this machine alone: no request sets it, and none ever will.

A name that a setting had before is refused, with the one that it has now: as a key, as a flag and
as a variable. `credenza settings migrate FILE` renames the keys of a file and leaves the rest as
it is.

Sizes are bytes, or numbers with `KiB`, `MiB`, `GiB`, `TiB`; times are milliseconds, or numbers with
`ms`, `s`, `m`, `h`, `d` (`1h30m`); switches are `on` or `off`.

| file key | flag | environment | default | what it does | another value | set by |
|---|---|---|---|---|---|---|
";

/// Returns the text of `docs/run/settings.md`.
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for row in TABLE {
        writeln!(
            page,
            "| `{}` | `--{} {}` | `{}` | `{}` | {} | {} | {} |",
            row.name,
            row.flag(),
            row.value,
            row.variable(),
            row.default,
            row.doc,
            row.reload(),
            if row.is_local() { "local" } else { "" }
        )
        .expect("a String takes everything");
    }
    page
}
