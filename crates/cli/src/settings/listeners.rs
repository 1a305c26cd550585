//! Settings of the addresses for clients.

use super::checks::{address, addresses, optional_address};
use super::row::SettingRow;

/// Row of `listen`.
pub const LISTEN: SettingRow = SettingRow {
    name: "listen",
    value: "ADDRESS",
    default: "127.0.0.1:7711",
    doc: "address for clients of every protocol",
    apply: |settings, text| address(text).map(|parsed| settings.server.listen = parsed),
};

/// Row of `listen_also`.
pub const LISTEN_ALSO: SettingRow = SettingRow {
    name: "listen_also",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for clients of every protocol, comma-separated",
    apply: |settings, text| addresses(text).map(|parsed| settings.server.listen_also = parsed),
};

/// Row of `admin_listen`.
pub const ADMIN_LISTEN: SettingRow = SettingRow {
    name: "admin_listen",
    value: "ADDRESS",
    default: "none",
    doc: "address for status, metrics and administration, if `listen` is not on loopback",
    apply: |settings, text| {
        optional_address(text).map(|parsed| settings.server.admin_listen = parsed)
    },
};

/// Row of `arakoon_listen`.
pub const ARAKOON_LISTEN: SettingRow = SettingRow {
    name: "arakoon_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for Arakoon clients, comma-separated",
    apply: |settings, text| addresses(text).map(|parsed| settings.server.arakoon_listen = parsed),
};

/// Row of `riak_listen`.
pub const RIAK_LISTEN: SettingRow = SettingRow {
    name: "riak_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for Riak clients, comma-separated",
    apply: |settings, text| addresses(text).map(|parsed| settings.server.riak_listen = parsed),
};
