//! Settings that only this machine may set: by its settings file, its environment or a flag.
//!
//! They name files, addresses and names of hosts, or say what protects the node. Whoever could set
//! one by a request could make the node read or write another file, call another machine, or serve
//! whom it should not (CouchDB's administrators could set a program to run, CVE-2017-12636). So no
//! interface takes one while the node serves, not even one for operators, and a reload, which a
//! request may cause, brings none into force.
//!
//! Tests hold that no setting with a path or an address is left out (`tests.rs`), and that no
//! interface accepts one (`end_to_end/local_settings.rs`).

/// Names of these settings, in the order of the table.
pub const LOCAL: &[&str] = &[
    "data_dir",
    "listen",
    "listen_also",
    "admin_listen",
    "arakoon_listen",
    "arakoon_user",
    "riak_listen",
    "pbc_listen",
    "advertise",
    "peer_listen",
    "peer_advertise",
    "peer_networks",
    "peer_tls",
    "tls",
    "tls_cert_file",
    "tls_key_file",
    "tls_ca_file",
    "tls_crl_file",
    "tls_client_certs",
    "tls_min",
    "access_bootstrap_file",
    "join",
    "bootstrap_peers",
    "join_token_file",
    "insecure",
    "allowed_hosts",
];

/// Placeholders of values that are paths, addresses or names of hosts.
#[cfg(test)]
pub const PLACEHOLDERS: &[&str] =
    &["DIR", "FILE", "ADDRESS", "ADDRESSES", "HOST:PORT", "NETWORKS", "PROGRAM", "URL"];
