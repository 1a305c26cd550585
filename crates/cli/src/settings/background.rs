//! Settings of background work.

use super::row::SettingRow;
use super::units;

/// Row of `scrub_bytes_per_second`.
pub const COMPARE_BYTES_PER_SECOND: SettingRow = SettingRow {
    name: "scrub_bytes_per_second",
    value: "SIZE",
    default: "8MiB",
    doc: "where a node is master, it compares the other replicas with its own in the \
          background, reading so many bytes a second at each; 0: only when `credenza group \
          verify` asks",
    take: |settings, text| {
        settings.node.scrub_bytes_per_second = units::size(text)?;
        Ok(())
    },
};

/// Row of `scrub_interval_ms`.
pub const COMPARE_PAUSE_MS: SettingRow = SettingRow {
    name: "scrub_interval_ms",
    value: "TIME",
    default: "1h",
    doc: "between two such comparisons of a group",
    take: |settings, text| {
        settings.node.scrub_interval_ms = units::time_ms(text)?.max(1_000);
        Ok(())
    },
};

/// Row of `catch_up_bytes_per_second`.
pub const CATCH_UP_BYTES_PER_SECOND: SettingRow = SettingRow {
    name: "catch_up_bytes_per_second",
    value: "SIZE",
    default: "16MiB",
    doc: "where a node is master, a member that was away is sent so many bytes of the log a second \
          while others write, but at least twice what they add; 0: as many as it takes",
    take: |settings, text| {
        settings.node.catch_up_bytes_per_second = units::size(text)?;
        Ok(())
    },
};

/// Row of `handoff_bytes_per_second`.
pub const RING_BYTES_PER_SECOND: SettingRow = SettingRow {
    name: "handoff_bytes_per_second",
    value: "SIZE",
    default: "64MiB",
    doc: "when the ring of available buckets changes, a node receives at most so many bytes a \
          second; 0: as many as come",
    take: |settings, text| {
        settings.node.handoff_bytes_per_second = units::size(text)?;
        Ok(())
    },
};
