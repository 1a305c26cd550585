//! Settings of background work, and of what a node keeps for its operators.

use crate::checks::at_least;
use crate::row::SettingRow;
use program::units;

/// Row of `scrub_bytes_per_second`.
pub const SCRUB_BYTES_PER_SECOND: SettingRow = SettingRow {
    name: "scrub_bytes_per_second",
    value: "SIZE",
    default: "8MiB",
    doc: "rate at which a master reads from each replica to compare it with its own, in the \
          background; 0: only on `credenza group verify`",
    apply: |settings, text| {
        settings.node.scrub_bytes_per_second = units::size(text)?;
        Ok(())
    },
};

/// Row of `slow_ms`.
pub const SLOW_MS: SettingRow = SettingRow {
    name: "slow_ms",
    value: "TIME",
    default: "100ms",
    doc: "time from which on a request is in the slow log (`credenza slow`); 0: none is",
    apply: |settings, text| {
        settings.node.slow_ms = units::time_ms(text)?;
        Ok(())
    },
};

/// Row of `hot_keys`.
pub const HOT_KEYS: SettingRow = SettingRow {
    name: "hot_keys",
    value: "SWITCH",
    default: "on",
    doc: "whether one request of 64 is sampled for the list of hot keys (`credenza hot`)",
    apply: |settings, text| {
        settings.node.hot_keys = units::switch(text)?;
        Ok(())
    },
};

/// Row of `audit_files_max`.
pub const AUDIT_FILES_MAX: SettingRow = SettingRow {
    name: "audit_files_max",
    value: "NUMBER",
    default: "16",
    doc: "most files of the audit log (`DIR/audit`); the oldest is removed for a new one",
    apply: |settings, text| {
        settings.node.audit_log.files_max = units::number(text, 2, 10_000)?;
        Ok(())
    },
};

/// Row of `audit_file_bytes_max`.
pub const AUDIT_FILE_BYTES_MAX: SettingRow = SettingRow {
    name: "audit_file_bytes_max",
    value: "SIZE",
    default: "64MiB",
    doc: "size of a file of the audit log at which the next one begins",
    apply: |settings, text| {
        settings.node.audit_log.file_bytes_max = at_least(units::size(text)?, 64 << 10, "64KiB")?;
        Ok(())
    },
};

/// Row of `scrub_interval_ms`.
pub const SCRUB_INTERVAL_MS: SettingRow = SettingRow {
    name: "scrub_interval_ms",
    value: "TIME",
    default: "1h",
    doc: "time between two background comparisons of a group",
    apply: |settings, text| {
        settings.node.scrub_interval_ms = units::time_ms(text)?.max(1_000);
        Ok(())
    },
};

/// Row of `catch_up_bytes_per_second`.
pub const CATCH_UP_BYTES_PER_SECOND: SettingRow = SettingRow {
    name: "catch_up_bytes_per_second",
    value: "SIZE",
    default: "16MiB",
    doc: "rate at which a master sends the log to a member that was down, while others write; \
          at least twice the rate of new entries. 0: no limit",
    apply: |settings, text| {
        settings.node.catch_up_bytes_per_second = units::size(text)?;
        Ok(())
    },
};

/// Row of `handoff_bytes_per_second`.
pub const HANDOFF_BYTES_PER_SECOND: SettingRow = SettingRow {
    name: "handoff_bytes_per_second",
    value: "SIZE",
    default: "64MiB",
    doc: "rate at which a node receives partitions of available buckets when the ring changes; \
          0: no limit",
    apply: |settings, text| {
        settings.node.handoff_bytes_per_second = units::size(text)?;
        Ok(())
    },
};
