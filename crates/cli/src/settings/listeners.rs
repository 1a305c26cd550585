//! Settings of the addresses for clients.

use super::checks::{address, addresses, maybe_address};
use super::row::SettingRow;

/// Row of `listen`.
pub const LISTEN: SettingRow = SettingRow {
    name: "listen",
    value: "ADDRESS",
    default: "127.0.0.1:7711",
    doc: "where clients of every protocol connect",
    take: |settings, text| address(text).map(|it| settings.server.listen = it),
};

/// Row of `listen_also`.
pub const LISTEN_ALSO: SettingRow = SettingRow {
    name: "listen_also",
    value: "ADDRESSES",
    default: "none",
    doc: "where they connect beside `listen`, with commas between; the same is served there",
    take: |settings, text| addresses(text).map(|it| settings.server.listen_also = it),
};

/// Row of `admin_listen`.
pub const ADMIN_LISTEN: SettingRow = SettingRow {
    name: "admin_listen",
    value: "ADDRESS",
    default: "none",
    doc: "where status, metrics and administration are served when `listen` is not on loopback",
    take: |settings, text| maybe_address(text).map(|it| settings.server.admin_listen = it),
};

/// Row of `arakoon_listen`.
pub const ARAKOON_LISTEN: SettingRow = SettingRow {
    name: "arakoon_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "where clients of Arakoon connect beside `listen`, with commas between",
    take: |settings, text| addresses(text).map(|it| settings.server.arakoon_listen = it),
};

/// Row of `riak_listen`.
pub const RIAK_LISTEN: SettingRow = SettingRow {
    name: "riak_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "where clients of Riak connect beside `listen`, with commas between",
    take: |settings, text| addresses(text).map(|it| settings.server.riak_listen = it),
};
