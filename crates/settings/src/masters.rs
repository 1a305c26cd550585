//! Settings of preferred and forced masters.

use crate::checks::comma_separated;
use crate::row::SettingRow;
use program::units;

/// Row of `preferred_masters`.
pub const PREFERRED_MASTERS: SettingRow = SettingRow {
    name: "preferred_masters",
    value: "NAMES",
    default: "none",
    doc: "preferred masters, in order of preference, comma-separated; the same at every member",
    apply: |settings, text| {
        settings.node.preferred_masters = members(comma_separated(text))?;
        Ok(())
    },
};

/// Row of `forced_master`.
pub const FORCED_MASTER: SettingRow = SettingRow {
    name: "forced_master",
    value: "NAME",
    default: "none",
    doc: "the only member that may be master of the groups in which it votes. While it is down \
          these groups have no master and take no writes; the same at every member",
    apply: |settings, text| {
        let name = Some(text).filter(|name| *name != "none").map(String::from);
        settings.node.forced_master = members(name)?;
        Ok(())
    },
};

/// Row of `preferred_master_delay_ms`.
pub const PREFERRED_MASTER_DELAY_MS: SettingRow = SettingRow {
    name: "preferred_master_delay_ms",
    value: "TIME",
    default: "10s",
    doc: "time for which a preferred master must be connected and caught up before it takes over",
    apply: |settings, text| {
        units::time_ms(text).map(|delay_ms| settings.node.preferred_master_delay_ms = delay_ms)
    },
};

/// Checks that each name is a valid member name. Returns the names.
fn members<N>(names: N) -> Result<N, String>
where
    for<'a> &'a N: IntoIterator<Item = &'a String>,
{
    let is_valid = |name: &String| base::cluster::check_member_name(name);
    (&names).into_iter().try_for_each(is_valid).map_err(|error| error.text())?;
    Ok(names)
}
