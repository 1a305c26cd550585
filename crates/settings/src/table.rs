//! Table of settings: flag, file key, environment variable, default, help line, docs line and
//! check.

use crate::access;
use crate::background;
use crate::checks::{
    BUFFER_BYTES_MIN, MEMORY_BYTES_MIN, at_least, bounded_time_ms, comma_separated, host_addresses,
    idle_ms, is_cluster_id, memory_share, not_empty, parse_advertised,
};
use crate::listeners;
use crate::masters;
use crate::row::SettingRow;
use crate::tls;
use base::Part;
use program::units;
use std::path::PathBuf;

/// All settings of `credenza serve`.
pub const TABLE: &[SettingRow] = &[
    SettingRow {
        name: "data_dir",
        value: "DIR",
        default: "data",
        doc: "data directory; created with mode 0700 if it does not exist",
        apply: |settings, text| {
            settings.node.data_dir = PathBuf::from(not_empty(text)?);
            Ok(())
        },
    },
    listeners::LISTEN,
    listeners::LISTEN_ALSO,
    listeners::ADMIN_LISTEN,
    listeners::ARAKOON_LISTEN,
    listeners::ARAKOON_USER,
    listeners::RIAK_LISTEN,
    listeners::PBC_LISTEN,
    SettingRow {
        name: "arakoon_clusters",
        value: "NAMES",
        default: "none",
        doc: "Arakoon cluster ids to serve, comma-separated; each is a bucket, created when its \
              first client connects",
        apply: |settings, text| {
            settings.server.arakoon_clusters = comma_separated(text);
            match settings.server.arakoon_clusters.iter().find(|id| !is_cluster_id(id)) {
                None => Ok(()),
                Some(id) => Err(format!("`{id}` is no cluster id: 1 to 63 bytes are wanted")),
            }
        },
    },
    SettingRow {
        name: "advertise",
        value: "HOST:PORT",
        default: "listen",
        doc: "address of this node for clients, given to those that ask another node; `listen`: \
              the same as that",
        apply: |settings, text| {
            settings.advertise = parse_advertised(text, "listen")?;
            Ok(())
        },
    },
    listeners::PEER_LISTEN,
    listeners::PEER_ADVERTISE,
    listeners::PEER_NETWORKS,
    tls::PEER_TLS,
    tls::TLS,
    tls::TLS_CERT_FILE,
    tls::TLS_KEY_FILE,
    tls::TLS_CA_FILE,
    tls::TLS_CRL_FILE,
    tls::TLS_CLIENT_CERTS,
    tls::TLS_MIN,
    tls::TLS_SESSION_MS_MAX,
    access::ACCESS_BOOTSTRAP_FILE,
    SettingRow {
        name: "join",
        value: "ADDRESSES",
        default: "none",
        doc: "client addresses (HOST:PORT) of members of the cluster to join, comma-separated; one \
              is enough. Used by an empty data directory only: a node that has joined ignores it",
        apply: |settings, text| {
            settings.join = host_addresses(text)?;
            Ok(())
        },
    },
    SettingRow {
        name: "bootstrap_peers",
        value: "ADDRESSES",
        default: "none",
        doc: "client addresses of the other first members of a new cluster, comma-separated; used \
              by an empty data directory only. The node joins the cluster of any of them; it \
              creates a cluster only when a majority answers that none of them belongs to one, so \
              a founder that lost its disk never creates a second cluster",
        apply: |settings, text| {
            settings.bootstrap_peers = host_addresses(text)?;
            Ok(())
        },
    },
    SettingRow {
        name: "join_as",
        value: "PART",
        default: "voter",
        doc: "role of a node that joins: `voter`, `learner` (a copy without a vote), or \
              `witness` (a vote without a copy, permanently)",
        apply: |settings, text| {
            settings.join_as = Part::parse(text).map_err(|error| error.text())?;
            Ok(())
        },
    },
    SettingRow {
        name: "join_token_file",
        value: "FILE",
        default: "none",
        doc: "file with a join token (`credenza cluster token`), readable by this user only. A \
              node shows the token to join, or to join again after damage, if the members \
              listen beyond loopback; in a cluster that this node founds the token lets any \
              number of nodes in, until tokens are revoked",
        apply: |settings, text| {
            let path = Some(not_empty(text)?).filter(|path| *path != "none");
            settings.join_token_file = path.map(PathBuf::from);
            Ok(())
        },
    },
    SettingRow {
        name: "lease_ms",
        value: "TIME",
        default: "600ms",
        doc: "time for which the voters wait for a silent master before they elect another one; \
              half of it if the master's process has ended. For half of it a master answers reads \
              without asking the others; the same at every member",
        apply: |settings, text| {
            settings.node.lease_ms = bounded_time_ms(text, 100, "100ms to 60s is wanted")?;
            Ok(())
        },
    },
    SettingRow {
        name: "lease_reads",
        value: "SWITCH",
        default: "on",
        doc: "whether a master answers consistent reads under its lease; `off`: every read asks \
              a quorum first, at the cost of one round trip, as machines need that may be \
              paused as a whole (docs/run/virtual-machines.md); the same at every member",
        apply: |settings, text| {
            settings.node.lease_reads = units::switch(text)?;
            Ok(())
        },
    },
    masters::PREFERRED_MASTERS,
    masters::FORCED_MASTER,
    masters::PREFERRED_MASTER_DELAY_MS,
    SettingRow {
        name: "auto_repair",
        value: "SWITCH",
        default: "on",
        doc: "whether a member that finds its log or store damaged fetches the lost part, or \
              everything, from the others; `off`: it stops and says what is damaged",
        apply: |settings, text| {
            settings.auto_repair = units::switch(text)?;
            Ok(())
        },
    },
    background::SCRUB_BYTES_PER_SECOND,
    background::SCRUB_INTERVAL_MS,
    background::CATCH_UP_BYTES_PER_SECOND,
    background::HANDOFF_BYTES_PER_SECOND,
    SettingRow {
        name: "anti_entropy_interval_ms",
        value: "TIME",
        default: "10s",
        doc: "interval at which every two copies of a partition of available buckets are \
              compared and repaired; 0: never",
        apply: |settings, text| {
            units::time_ms(text)
                .map(|interval_ms| settings.node.anti_entropy_interval_ms = interval_ms)
        },
    },
    SettingRow {
        name: "insecure",
        value: "SWITCH",
        default: "off",
        doc: "serves clients beyond loopback although they need not encrypt (`tls`) or access is \
              off, and lets `peer_listen` be there without `peer_tls`",
        apply: |settings, text| {
            settings.server.insecure = units::switch(text)?;
            Ok(())
        },
    },
    SettingRow {
        name: "allowed_hosts",
        value: "NAMES",
        default: "none",
        doc: "names that a `Host` header may hold, besides localhost and addresses; `*`: any",
        apply: |settings, text| {
            let names = text.split(',').map(str::trim).filter(|name| *name != "none");
            settings.server.allowed_hosts = names.map(String::from).collect();
            if settings.server.allowed_hosts.iter().any(String::is_empty) {
                return Err("names with commas between them, `*` or `none` are wanted".into());
            }
            Ok(())
        },
    },
    SettingRow {
        name: "connections_max",
        value: "NUMBER",
        default: "10000",
        doc: "most client connections at a time; fewer if the process may not open as many files",
        apply: |settings, text| {
            settings.server.connections_max = units::number(text, 1, 1_000_000)? as usize;
            Ok(())
        },
    },
    SettingRow {
        name: "connections_per_address_max",
        value: "NUMBER",
        default: "auto",
        doc: "most connections from one address (IPv6: from one /64 network) beyond this \
              machine; `auto`: half of connections_max",
        apply: |settings, text| {
            let most = || units::number(text, 1, 1_000_000).map(|most| most as usize);
            settings.server.connections_per_address_max =
                (text != "auto").then(most).transpose()?;
            Ok(())
        },
    },
    SettingRow {
        name: "buffer_bytes_max",
        value: "SIZE",
        default: "auto",
        doc: "memory for large requests and pages of all connections together; `auto`: 128MiB, \
              or a quarter of this process' memory limit",
        apply: |settings, text| {
            settings.server.buffer_bytes_max = match text {
                "auto" => memory_share(4, BUFFER_BYTES_MIN, 128 << 20),
                _ => at_least(units::size(text)?, BUFFER_BYTES_MIN, "64MiB")?,
            } as usize;
            Ok(())
        },
    },
    SettingRow {
        name: "shutdown_timeout_ms",
        value: "TIME",
        default: "10s",
        doc: "time that a stopping node waits for requests in flight",
        apply: |settings, text| {
            settings.server.shutdown_timeout_ms = units::time_ms(text)?;
            Ok(())
        },
    },
    SettingRow {
        name: "http_idle_ms_max",
        value: "TIME",
        default: "120s",
        doc: "idle time after which an HTTP connection is closed",
        apply: |settings, text| {
            settings.server.http_idle_ms_max = idle_ms(text)?;
            Ok(())
        },
    },
    SettingRow {
        name: "resp_idle_ms_max",
        value: "TIME",
        default: "off",
        doc: "idle time after which a connection of Redis' protocol is closed; `off`: never, as \
              by default in Redis",
        apply: |settings, text| {
            settings.server.resp_idle_ms_max = match text {
                "off" => None,
                _ => Some(idle_ms(text)?),
            };
            Ok(())
        },
    },
    SettingRow {
        name: "name",
        value: "NAME",
        default: "node1",
        doc: "name of the node, as clients see it",
        apply: |settings, text| {
            base::cluster::check_member_name(text).map_err(|error| error.text())?;
            settings.node.name = text.into();
            Ok(())
        },
    },
    SettingRow {
        name: "threads",
        value: "NUMBER",
        default: "auto",
        doc: "threads that serve clients; `auto`: one per processor",
        apply: |settings, text| {
            settings.threads = match text {
                "auto" => std::thread::available_parallelism().map_or(1, usize::from),
                _ => units::number(text, 1, 1_024)? as usize,
            };
            Ok(())
        },
    },
    SettingRow {
        name: "memory_bytes_max",
        value: "SIZE",
        default: "auto",
        doc: "memory of the store, shared by memtables, block cache and row cache; `auto`: \
              640MiB, or an eighth of this process' memory limit",
        apply: |settings, text| {
            settings.node.memory_bytes_max = match text {
                "auto" => memory_share(8, MEMORY_BYTES_MIN, 640 << 20),
                _ => at_least(units::size(text)?, MEMORY_BYTES_MIN, "16MiB")?,
            };
            Ok(())
        },
    },
    SettingRow {
        name: "log_bytes_max",
        value: "SIZE",
        default: "1GiB",
        doc: "size of the transaction log at which it is truncated",
        apply: |settings, text| {
            settings.node.log_bytes_max = at_least(units::size(text)?, 128 << 20, "128MiB")?;
            Ok(())
        },
    },
    SettingRow {
        name: "segment_bytes",
        value: "SIZE",
        default: "64MiB",
        doc: "size of one segment (file) of the transaction log",
        apply: |settings, text| {
            settings.node.segment_bytes = at_least(units::size(text)?, 1 << 20, "1MiB")?;
            Ok(())
        },
    },
    SettingRow {
        name: "sync_interval_ms",
        value: "TIME",
        default: "1000ms",
        doc: "interval at which buckets with `sync=interval` are synced",
        apply: |settings, text| {
            settings.node.sync_interval_ms = bounded_time_ms(text, 1, "1ms to 60s is wanted")?;
            Ok(())
        },
    },
    SettingRow {
        name: "disk_reserve_bytes",
        value: "SIZE",
        default: "64MiB",
        doc: "free disk space below which writes are refused (reads and deletes continue); at \
              most an eighth of the disk, which the log says at start",
        apply: |settings, text| {
            settings.node.disk_reserve_bytes = units::size(text)?;
            Ok(())
        },
    },
    background::SLOW_MS,
    background::HOT_KEYS,
    background::AUDIT_FILES_MAX,
    background::AUDIT_FILE_BYTES_MAX,
    SettingRow {
        name: "log_level",
        value: "LEVELS",
        default: "info",
        doc: "log levels: off error warn info debug trace, also by section: `info,node=debug`",
        apply: |settings, text| {
            settings.levels = text.parse()?;
            Ok(())
        },
    },
    SettingRow {
        name: "crash_log",
        value: "SWITCH",
        default: "on",
        doc: "keeps the last 1,000 debug events in memory and writes them to DIR/crash when the \
              node fails",
        apply: |settings, text| {
            settings.crash_log = units::switch(text)?;
            Ok(())
        },
    },
    SettingRow {
        name: "open_files",
        value: "NUMBER",
        default: "65536",
        doc: "open files (connections, tables) that the node asks of the system at start; the \
              system's limit may be lower",
        apply: |settings, text| {
            settings.open_files = units::number(text, 64, 1 << 30)?;
            Ok(())
        },
    },
];
