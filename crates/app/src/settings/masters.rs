//! Settings of who is to be master.

use super::checks::names;
use super::row::Row;
use super::units;

/// `preferred_masters`.
pub const PREFERRED_MASTERS: Row = Row {
    name: "preferred_masters",
    value: "NAMES",
    default: "none",
    doc: "members that are to be master rather than others, the best first, with commas \
          between; the same at every member",
    take: |settings, text| {
        let names = names(text);
        let good = |name: &String| base::cluster::check_member_name(name);
        names.iter().try_for_each(good).map_err(|error| error.text())?;
        settings.node.preferred_masters = names;
        Ok(())
    },
};

/// `forced_master`.
pub const FORCED_MASTER: Row = Row {
    name: "forced_master",
    value: "NAME",
    default: "none",
    doc: "the one member that is to be master of every group in which it votes: while it is \
          away nobody is, and nothing is written; the same at every member",
    take: |settings, text| {
        let name = Some(text).filter(|name| *name != "none").map(String::from);
        let good = |name: &String| base::cluster::check_member_name(name);
        name.iter().try_for_each(good).map_err(|error| error.text())?;
        settings.node.forced_master = name;
        Ok(())
    },
};

/// `prefer_pause_ms`.
pub const PREFER_PAUSE_MS: Row = Row {
    name: "prefer_pause_ms",
    value: "TIME",
    default: "10s",
    doc: "so long a preferred master must be connected and level before it takes over",
    take: |settings, text| units::time_ms(text).map(|it| settings.node.prefer_pause_ms = it),
};
