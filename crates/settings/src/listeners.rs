//! Settings of the addresses for clients and for other nodes.

use crate::checks::{address, addresses, optional_address, parse_advertised};
use crate::row::SettingRow;
use base::IpNetworks;

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
    doc: "address for status, metrics and administration, if `listen` is not on loopback; if it is \
          set, operators are served there only",
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

/// Row of `arakoon_user`.
pub const ARAKOON_USER: SettingRow = SettingRow {
    name: "arakoon_user",
    value: "USER",
    default: "none",
    doc: "user of all clients at `arakoon_listen` whose certificate logs nobody in, while access \
          is on: the protocol has no login; `none`: they are refused then",
    apply: |settings, text| {
        settings.server.arakoon_user = match text {
            "none" => None,
            name => {
                base::access::check_user_name(name).map_err(|error| error.text())?;
                Some(name.into())
            }
        };
        Ok(())
    },
};

/// Row of `riak_listen`.
pub const RIAK_LISTEN: SettingRow = SettingRow {
    name: "riak_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "further addresses for Riak clients, comma-separated",
    apply: |settings, text| addresses(text).map(|parsed| settings.server.riak_listen = parsed),
};

/// Row of `pbc_listen`.
pub const PBC_LISTEN: SettingRow = SettingRow {
    name: "pbc_listen",
    value: "ADDRESSES",
    default: "none",
    doc: "addresses for Riak clients that use Protocol Buffers (Riak's port is 8087), \
          comma-separated",
    apply: |settings, text| addresses(text).map(|parsed| settings.server.pbc_listen = parsed),
};

/// Row of `peer_listen`.
pub const PEER_LISTEN: SettingRow = SettingRow {
    name: "peer_listen",
    value: "ADDRESS",
    default: "none",
    doc: "address for the other nodes of the cluster; `none`: this node takes no others. Traffic \
          between nodes is encrypted with `peer_tls`: without it use a private network",
    apply: |settings, text| optional_address(text).map(|parsed| settings.peer_listen = parsed),
};

/// Row of `peer_advertise`.
pub const PEER_ADVERTISE: SettingRow = SettingRow {
    name: "peer_advertise",
    value: "HOST:PORT",
    default: "peer_listen",
    doc: "address of this node for the other nodes; `peer_listen`: the same as that",
    apply: |settings, text| {
        parse_advertised(text, "peer_listen").map(|parsed| settings.peer_advertise = parsed)
    },
};

/// Row of `peer_networks`.
pub const PEER_NETWORKS: SettingRow = SettingRow {
    name: "peer_networks",
    value: "NETWORKS",
    default: "any",
    doc: "networks of the other nodes (`10.1.0.0/16`, or an address), comma-separated: this node \
          dials and accepts no node elsewhere",
    apply: |settings, text| {
        let parsed = IpNetworks::parse(text);
        let wanted = "`any`, or networks such as 10.1.0.0/16 with commas between are wanted";
        settings.node.peer_networks = parsed.ok_or(wanted)?;
        Ok(())
    },
};
