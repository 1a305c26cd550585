//! Settings of the addresses for clients.

use super::checks::{address, addresses, maybe_address};
use super::row::SettingRow;

/// Row of `listen`.
pub const LISTEN: SettingRow = SettingRow {
    name: "listen",
    value: "ADDRESS",
    default: "127.0.0.1:7711",
    doc: "address for clients of every protocol",
    take: |settings, text| address(text).map(|it| settings.server.listen = it),
};

/// Row of `listen_also`.
pub const LISTEN_ALSO: SettingRow = SettingRow {
    name: "listen_also",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for clients of every protocol, comma-separated",
    take: |settings, text| addresses(text).map(|it| settings.server.listen_also = it),
};

/// Row of `admin_listen`.
pub const ADMIN_LISTEN: SettingRow = SettingRow {
    name: "admin_listen",
    value: "ADDRESS",
    default: "none",
    doc: "address for status, metrics and administration, if `listen` is not on loopback",
    take: |settings, text| maybe_address(text).map(|it| settings.server.admin_listen = it),
};

/// Row of `arakoon_listen`.
pub const ARAKOON_LISTEN: SettingRow = SettingRow {
    name: "arakoon_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for Arakoon clients, comma-separated",
    take: |settings, text| addresses(text).map(|it| settings.server.arakoon_listen = it),
};

/// Row of `riak_listen`.
pub const RIAK_LISTEN: SettingRow = SettingRow {
    name: "riak_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for Riak clients, comma-separated",
    take: |settings, text| addresses(text).map(|it| settings.server.riak_listen = it),
};
