//! Settings of users and roles.

use crate::checks::not_empty;
use crate::row::SettingRow;
use std::path::PathBuf;

/// Row of `access_bootstrap_file`.
pub const ACCESS_BOOTSTRAP_FILE: SettingRow = SettingRow {
    name: "access_bootstrap_file",
    value: "FILE",
    default: "none",
    doc: "file with the first users and roles, readable by this user only \
          (docs/run/access.md); the node that founds a cluster applies it once, before it serves \
          anybody, and never to a cluster that has had users or roles",
    apply: |settings, text| {
        let path = Some(not_empty(text)?).filter(|path| *path != "none");
        settings.access_bootstrap_file = path.map(PathBuf::from);
        Ok(())
    },
};
