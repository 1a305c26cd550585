//! The docs page of settings, made from the table; a test fails when the kept page is another.

use super::TABLE;
use std::fmt::Write;

/// `docs/run/settings.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         <!-- Made by `credenza settings --markdown`; a test fails when this page is stale. -->\n\n\
         Every setting of `credenza serve` has one name in three places: the flag `--log-level`, the key `log_level` in\n\
         the TOML file named by `--config`, and the environment variable `CREDENZA_LOG_LEVEL`. A flag wins over the\n\
         environment, the environment over the file, the file over the default. An unknown key in the file is an error\n\
         with its line. `credenza settings` shows what is in force and where it came from.\n\n\
         Sizes are bytes, or numbers with `KiB`, `MiB`, `GiB`, `TiB`; times are milliseconds, or numbers with `ms`, `s`,\n\
         `m`, `h`; switches are `on` or `off`.\n\n\
         | file key | flag | environment | default | what it does |\n\
         |---|---|---|---|---|\n",
    );
    for row in TABLE {
        writeln!(
            page,
            "| `{}` | `--{} {}` | `{}` | `{}` | {} |",
            row.key,
            row.flag(),
            row.value,
            row.variable(),
            row.default,
            row.doc
        )
        .expect("a String takes everything");
    }
    page
}
