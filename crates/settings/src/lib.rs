//! Settings of a serving process. A flag overrides the environment, the environment the settings
//! file, the file an Arakoon configuration, and that the default.
//!
//! Knows every setting, its spellings and its checks, and fills the structs of `node`, `server` and
//! `tls` with their values. It knows no command: `cli` says when settings are read, and brings
//! changed ones into force.
//!
//! Promises: every setting is a row of `table.rs`, the only source of parser, file, help, docs page
//! and check.
//! Never: accepts an unknown setting, or an unchecked value.
//! Read next: `table.rs`.

mod access;
mod arakoon;
mod background;
mod checks;
mod file;
mod listeners;
mod local;
mod machine;
mod masters;
pub mod migrate;
pub mod page;
mod renames;
mod row;
mod table;
mod tls;
mod variables;

#[cfg(test)]
mod tests;

use ::tls::{CertificateDemand, ListenerMode, PeerMode, TlsClient, TlsSettings};
use base::Part;
use clap::{Arg, ArgMatches, Command};
pub use file::line_of;
use file::{FileSetting, read_file};
pub use local::LOCAL;
use logging::Levels;
pub use machine::memory_bytes;
use node::{NodeSettings, PeerAddresses};
use program::{Failure, Outcome};
pub use renames::current_name;
pub use row::{LIVE, SettingRow};
use server::ServerSettings;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
pub use table::TABLE;
pub use variables::misspelt_variables;

/// All settings of a serving process, checked.
#[derive(Clone)]
pub struct Settings {
    /// Settings of the node.
    pub node: NodeSettings,
    /// Settings of the front-ends.
    pub server: ServerSettings,
    /// Settings of TLS.
    pub tls: TlsSettings,
    /// Number of threads that serve clients.
    pub threads: usize,
    /// Log levels.
    pub levels: Levels,
    /// True if the last events are kept in memory for a crash log.
    pub crash_log: bool,
    /// Number of open files to request from the system.
    pub open_files: u64,
    /// Address at which clients reach the node. `None`: the address that it listens at.
    pub advertise: Option<String>,
    /// Address at which the node listens for other nodes. `None`: it has no cluster.
    pub peer_listen: Option<SocketAddr>,
    /// Address at which other nodes reach it. `None`: the address that it listens at.
    pub peer_advertise: Option<String>,
    /// Members of the cluster to join, in the order they are tried. Empty: it joins none.
    pub join: Vec<String>,
    /// Other nodes of a cluster that this one may found.
    pub bootstrap_peers: Vec<String>,
    /// Role in which the node joins.
    pub join_as: Part,
    /// File with the first users and roles.
    pub access_bootstrap_file: Option<PathBuf>,
    /// File with the join token.
    pub join_token_file: Option<PathBuf>,
    /// True if a member's damaged data are set aside and fetched again from others.
    pub auto_repair: bool,
    /// Warnings about keys of an Arakoon configuration without effect, and about misspelt
    /// variables.
    pub warnings: Vec<String>,
}

/// Source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Default of the table.
    Default,
    /// File, and line number in it.
    File(PathBuf, usize),
    /// Environment variable.
    Environment,
    /// Flag of the command line.
    Flag,
}

/// Value of a setting that is in force, with its source.
pub struct EffectiveSetting {
    /// The setting.
    pub row: &'static SettingRow,
    /// The value as it was written.
    pub text: String,
    /// The source.
    pub origin: Origin,
}

/// Flags of all settings, parsed but not yet combined with file and environment.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Path of the settings file.
    pub config: Option<PathBuf>,
    /// Path of an Arakoon configuration.
    pub arakoon_config: Option<PathBuf>,
    texts: Vec<(&'static str, String)>,
}

/// Settings in force, in the order of the table.
pub struct ResolvedSettings {
    /// The settings.
    pub effective: Vec<EffectiveSetting>,
    /// Warnings about keys of an Arakoon configuration without effect.
    pub warnings: Vec<String>,
}

/// Look-up of an environment variable; a parameter, so that tests need not change the real one.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Flags {
    /// Returns a command line that names a settings file alone.
    pub fn of_file(path: &Path) -> Flags {
        Flags { config: Some(path.into()), ..Flags::default() }
    }

    /// Sets a setting that no flag has set. Returns true if that was so.
    pub fn set_if_absent(&mut self, name: &'static str, text: String) -> bool {
        let is_absent = self.texts.iter().all(|(flag, _)| *flag != name);
        if is_absent {
            self.texts.push((name, text));
        }
        is_absent
    }

    /// Combines all sources. Returns the settings in force, each with its source.
    pub fn resolve(&self, environment: Environment) -> Outcome<ResolvedSettings> {
        let path = |flag: &Option<PathBuf>, variable: &str| {
            flag.clone().or_else(|| environment(variable).map(PathBuf::from))
        };
        renames::check_variables(environment)?;
        let mut sources = Vec::with_capacity(TABLE.len());
        for row in TABLE {
            let flag = self.texts.iter().find(|(key, _)| *key == row.name);
            let flag = flag.map(|(_, text)| (text.clone(), Origin::Flag));
            let variable = || environment(&row.variable()).map(|text| (text, Origin::Environment));
            sources.push((row, flag.or_else(variable)));
        }
        if let Some(config) = path(&self.config, "CREDENZA_CONFIG") {
            for FileSetting { name, text, line } in read_file(&config)? {
                fill(&mut sources, &name, text, &config, line);
            }
        }
        let mut warnings = Vec::new();
        if let Some(config) = path(&self.arakoon_config, "CREDENZA_ARAKOON_CONFIG") {
            let text = |name: &str| {
                let source = sources.iter().find(|(row, _)| row.name == name);
                source.and_then(|(_, source)| source.as_ref()).map(|(text, _)| text.clone())
            };
            let (node, listen) = (text("name"), text("listen"));
            let found = arakoon::read(&config, node.as_deref(), listen.as_deref())?;
            for setting in found.settings {
                fill(&mut sources, setting.name, setting.text, &config, setting.line);
            }
            warnings = found.warnings;
        }
        let effective = sources.into_iter().map(|(row, source)| {
            let (text, origin) = source.unwrap_or((row.default.to_string(), Origin::Default));
            EffectiveSetting { row, text, origin }
        });
        Ok(ResolvedSettings { effective: effective.collect(), warnings })
    }

    /// Returns the checked settings.
    pub fn settings(&self, environment: Environment) -> Outcome<Settings> {
        let mut settings = Settings {
            node: NodeSettings::default(),
            server: ServerSettings::default(),
            tls: TlsSettings::default(),
            threads: 1,
            levels: Levels::default(),
            crash_log: true,
            open_files: 0,
            advertise: None,
            peer_listen: None,
            peer_advertise: None,
            join: Vec::new(),
            bootstrap_peers: Vec::new(),
            join_as: Part::Voter,
            access_bootstrap_file: None,
            join_token_file: None,
            auto_repair: true,
            warnings: Vec::new(),
        };
        let resolved = self.resolve(environment)?;
        settings.warnings = resolved.warnings;
        settings.warnings.extend(misspelt_variables());
        for EffectiveSetting { row, text, origin } in resolved.effective {
            (row.apply)(&mut settings, &text).map_err(|wanted| {
                let from = match &origin {
                    Origin::Default => format!("default of {}", row.name),
                    Origin::File(path, line) => format!("{}:{line}: {}", path.display(), row.name),
                    Origin::Environment => row.variable(),
                    Origin::Flag => format!("--{}", row.flag()),
                };
                Failure::invalid(format!("{from}: `{text}`: {wanted}"))
            })?;
        }
        settings.server.checkpoints = Some(settings.node.data_dir.join("checkpoints"));
        settings.server.admin_socket = Some(settings.node.data_dir.join("admin.sock"));
        settings.set_advertised_addresses()?;
        settings.check()?;
        Ok(settings)
    }
}

/// Setting with its text and source. `None`: no source has set it yet.
type SettingSource = (&'static SettingRow, Option<(String, Origin)>);

/// Sets a setting from a file, unless a source of higher precedence has set it.
fn fill(sources: &mut [SettingSource], name: &str, text: String, file: &Path, line: usize) {
    if let Some((_, source @ None)) = sources.iter_mut().find(|(row, _)| row.name == name) {
        *source = Some((text, Origin::File(file.to_path_buf(), line)));
    }
}

impl Settings {
    /// Determines the addresses that the node publishes to clients and other nodes.
    fn set_advertised_addresses(&mut self) -> Outcome {
        let advertised = |text: &Option<String>, listens: SocketAddr, row: &str| match text {
            Some(address) => Ok(address.clone()),
            None if !listens.ip().is_unspecified() && listens.port() != 0 => {
                Ok(listens.to_string())
            }
            None => Err(Failure::invalid(format!(
                "nobody reaches {listens}: set `{row}` to HOST:PORT as the others know this node"
            ))),
        };
        let is_clustered = self.peer_listen.is_some();
        let client = advertised(&self.advertise, self.server.listen, "advertise");
        self.node.client_address = if is_clustered { client? } else { client.unwrap_or_default() };
        if let Some(listen) = self.peer_listen {
            let advertise = advertised(&self.peer_advertise, listen, "peer_advertise")?;
            self.node.peers = Some(PeerAddresses { listen, advertise });
        }
        Ok(())
    }

    /// Returns the TLS with which this node calls other nodes as their client, to join them. It
    /// assumes that they encrypt if this node does.
    pub fn member_tls(&self) -> Outcome<Option<TlsClient>> {
        let Some(ca) = &self.tls.authorities else { return Ok(None) };
        if self.tls.listeners == ListenerMode::Off {
            return Ok(None);
        }
        let own = self.tls.certificate.as_deref().zip(self.tls.key.as_deref());
        // Where no certificate is required, this node is served by its address, as without TLS.
        let is_required = self.tls.client_certificates == CertificateDemand::Required;
        let own = own.filter(|_| is_required);
        let client = TlsClient::open(ca, own);
        client.map(Some).map_err(|error| Failure::invalid(error.text()))
    }

    /// Checks conditions that involve several settings.
    fn check(&self) -> Outcome {
        if self.node.segment_bytes * 2 > self.node.log_bytes_max {
            return Err(Failure::invalid(
                "log_bytes_max must hold two segments at least: raise it or lower segment_bytes",
            ));
        }
        if !self.server.listen.ip().is_loopback() && self.server.admin_listen.is_none() {
            return Err(Failure::invalid(
                "`listen` is not on loopback: set `admin_listen` to where status, metrics and \
                 administration shall be served (127.0.0.1:7712, say)",
            ));
        }
        let is_remote = |address: SocketAddr| !address.ip().is_loopback();
        let is_open =
            self.peer_listen.is_some_and(is_remote) && self.tls.peers != PeerMode::Required;
        if is_open && !self.server.insecure {
            return Err(Failure::invalid(
                "`peer_listen` is not on loopback, and nodes neither encrypt what they say nor \
                 prove who they are: set `peer_tls = required`, or `insecure` if that network is \
                 your own",
            ));
        }
        if self.tls.client_certificates != CertificateDemand::Off
            && self.tls.listeners == ListenerMode::Off
        {
            return Err(Failure::invalid(
                "`tls_client_certs` has no effect without encryption: set `tls`, too",
            ));
        }
        let is_alone = self.join.is_empty() && self.bootstrap_peers.is_empty();
        if !is_alone && self.peer_listen.is_none() {
            return Err(Failure::invalid(
                "a node that joins is reached by the others: set `peer_listen`, too",
            ));
        }
        if !self.join.is_empty() && !self.bootstrap_peers.is_empty() {
            return Err(Failure::invalid(
                "a node joins a cluster or may found one: set `join` or `bootstrap_peers`, not \
                 both",
            ));
        }
        Ok(())
    }
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .overrides_with("config")
            .help("A TOML file of settings [env: CREDENZA_CONFIG]");
        let arakoon = Arg::new("arakoon_config")
            .long("arakoon-config")
            .value_name("FILE")
            .overrides_with("arakoon_config")
            .help("An Arakoon configuration of the node [env: CREDENZA_ARAKOON_CONFIG]");
        let port = Arg::new("port")
            .long("port")
            .value_name("NUMBER")
            .value_parser(clap::value_parser!(u16))
            .overrides_with("port")
            .conflicts_with("listen")
            .help("Short for --listen 127.0.0.1:NUMBER");
        let command = command.arg(config).arg(arakoon).arg(port);
        TABLE.iter().fold(command, |command, row| {
            let help = format!("{} [default: {}] [env: {}]", row.doc, row.default, row.variable());
            // If a flag is given twice, the later one wins: scripts append to a line of defaults.
            let arg = Arg::new(row.name).long(row.flag()).value_name(row.value).help(help);
            let arg = arg.overrides_with(row.name);
            let arg = match row.name {
                "data_dir" => arg.visible_alias("data").alias("dir"),
                "name" => arg.visible_alias("node"),
                _ => arg,
            };
            // A switch needs no value: `--insecure` is `--insecure on`.
            let is_switch = row.value == "SWITCH";
            command.arg(if is_switch {
                arg.num_args(0..=1).default_missing_value("on")
            } else {
                arg
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let text = |key: &str| matches.get_one::<String>(key).cloned();
        let mut flags = Flags {
            config: text("config").map(PathBuf::from),
            arakoon_config: text("arakoon_config").map(PathBuf::from),
            texts: TABLE.iter().filter_map(|row| Some((row.name, text(row.name)?))).collect(),
        };
        if let Some(port) = matches.get_one::<u16>("port") {
            flags.texts.push(("listen", format!("127.0.0.1:{port}")));
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = <Flags as clap::FromArgMatches>::from_arg_matches(matches)?;
        Ok(())
    }
}
