//! One file per command.
//!
//! Promises: a command that fails says so in one line that names the remedy, and exits with its
//! kind's code.
//! Never: does the work itself: online commands call the native front-end, offline ones the store's
//! tools.
//! Read next: `serve.rs`, then `get.rs`.

mod access;
mod access_file;
mod alarm_lines;
mod audit;
mod bench;
mod bootstrap;
mod bucket;
mod bucket_info;
mod cert;
mod certificates;
mod checkpoint;
mod cluster;
mod cluster_status;
mod convergence;
mod copy;
mod datatype;
mod delete;
mod dev;
mod empty_prefix;
mod export;
mod feed;
mod generate;
mod get;
mod group;
mod group_verify;
mod hot;
mod import;
mod index;
mod index_query;
mod join;
mod keys;
mod log_levels;
mod moves;
mod properties;
mod put;
mod range;
mod recover;
mod rejoin;
mod reload;
mod replace;
mod restore;
mod ring;
mod ring_table;
mod secret;
mod sequence;
mod serve;
mod settings;
mod siblings;
mod slow;
mod status;
mod steps;
mod token;
mod trust_log;
mod types;
mod upgrade;
mod user_quota;
mod verify;
mod wait;

use crate::args::{Encoding, shell_word};
use ::settings::misspelt_variables;
use base::{BucketName, Kind};
use clap::Subcommand;
use client::{Address, Client};
use program::{Failure, Outcome};
use std::future::Future;

/// All commands.
#[derive(Subcommand)]
pub enum Command {
    /// Serve: start a node
    #[command(after_help = serve::EXAMPLES, alias = "start")]
    Serve(serve::Serve),
    /// Show the value of a key
    #[command(after_help = get::EXAMPLES)]
    Get(get::Get),
    /// Write a value
    #[command(after_help = put::EXAMPLES, alias = "set")]
    Put(put::Put),
    /// Delete a key
    #[command(after_help = delete::EXAMPLES, aliases = ["del", "rm"])]
    Delete(delete::Delete),
    /// Show all values of a key that were written without knowledge of each other
    #[command(after_help = siblings::EXAMPLES)]
    Siblings(siblings::SiblingsCommand),
    /// Show or change a counter, set, map or HyperLogLog of an available bucket
    #[command(subcommand, after_help = datatype::EXAMPLES)]
    Datatype(datatype::Datatype),
    /// Show keys in order, of consistent and of available buckets
    #[command(after_help = keys::EXAMPLES, alias = "ls")]
    Keys(keys::KeysCommand),
    /// Show keys and values in order
    #[command(after_help = range::EXAMPLES, alias = "scan")]
    Range(range::Range),
    /// Apply several steps together or not at all
    #[command(after_help = sequence::EXAMPLES)]
    Sequence(sequence::Sequence),
    /// Load records from a file
    #[command(after_help = import::EXAMPLES)]
    Import(import::Import),
    /// Write records to a file
    #[command(after_help = export::EXAMPLES)]
    Export(export::Export),
    /// Show the changes of a bucket, also as they happen
    #[command(after_help = feed::EXAMPLES, alias = "watch")]
    Feed(feed::FeedCommand),
    /// Make a bucket the copy of another one, also of another cluster, and have it follow
    #[command(after_help = copy::EXAMPLES)]
    Copy(copy::CopyCommand),
    /// Make, show, change and drop buckets
    #[command(subcommand, after_help = bucket::EXAMPLES)]
    Bucket(bucket::BucketCommand),
    /// Make, show, query and drop indexes of the values of a bucket
    #[command(subcommand, after_help = index::EXAMPLES)]
    Index(index::IndexCommand),
    /// Make, show, change and drop bucket types
    #[command(subcommand, after_help = types::EXAMPLES)]
    Type(types::Type),
    /// Show whether a node serves, why not, and how it is
    #[command(after_help = status::EXAMPLES)]
    Status(status::Status),
    /// Show the slowest requests of a node
    #[command(after_help = slow::EXAMPLES)]
    Slow(slow::Slow),
    /// Show the keys that most requests of a node concern
    #[command(after_help = hot::EXAMPLES)]
    Hot(hot::Hot),
    /// Copy a running node's data into its folder `checkpoints`
    #[command(after_help = checkpoint::EXAMPLES, alias = "backup")]
    Checkpoint(checkpoint::Checkpoint),
    /// Make a data directory out of a checkpoint
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::Restore),
    /// Verify every byte of a data directory that no node has open
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Verify),
    /// Members of a cluster: show, add, promote, remove, replace them; move mastership
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterCommand),
    /// Turn access on and off, and show which grant decides
    #[command(after_help = access::EXAMPLES)]
    Access(access::AccessCommand),
    /// Users: add, change, disable, remove and list them; their API tokens
    #[command(after_help = access::EXAMPLES)]
    User(access::UserCommand),
    /// Roles: their grants
    #[command(after_help = access::EXAMPLES)]
    Role(access::RoleCommand),
    /// The audit log of a node: its last lines, and whether its chain is sound
    #[command(subcommand, after_help = audit::EXAMPLES)]
    Audit(audit::AuditCommand),
    /// Groups: their masters, their desired and their actual members
    #[command(subcommand, after_help = group::EXAMPLES)]
    Group(group::Group),
    /// Certificates of nodes and users for TLS, and the authority that signs them
    #[command(subcommand, after_help = cert::EXAMPLES)]
    Cert(cert::CertCommand),
    /// Run a cluster of several nodes on this machine, to try things out
    #[command(after_help = dev::EXAMPLES)]
    Dev(dev::Dev),
    /// Load servers and measure them
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::Bench),
    /// Show or change how much a running node logs
    #[command(after_help = log_levels::EXAMPLES)]
    LogLevels(log_levels::LogLevels),
    /// Have a running node read its settings file again
    #[command(after_help = reload::EXAMPLES)]
    Reload(reload::ReloadCommand),
    /// Write manual pages and completions for shells, as packages do
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::Generate),
    /// Show every setting of `serve`: its value in force and where it came from
    #[command(after_help = settings::EXAMPLES)]
    Settings(settings::SettingsCommand),
}

impl Command {
    /// Runs the command to its end. `json`: report a load in JSON; the other commands have their
    /// own flag.
    pub fn run(self, json: bool) -> Outcome {
        match self {
            Command::Serve(command) => command.run(),
            Command::Get(command) => run_online(command.run()),
            Command::Put(command) => run_online(command.run()),
            Command::Delete(command) => run_online(command.run()),
            Command::Siblings(command) => run_online(command.run()),
            Command::Datatype(command) => run_online(command.run()),
            Command::Keys(command) => run_online(command.run()),
            Command::Range(command) => run_online(command.run()),
            Command::Sequence(command) => run_online(command.run()),
            Command::Import(command) => run_online(command.run()),
            Command::Export(command) => run_online(command.run()),
            Command::Feed(command) => run_online(command.run()),
            Command::Copy(command) => run_online(command.run()),
            Command::Bucket(command) => run_online(command.run()),
            Command::Index(command) => run_online(command.run()),
            Command::Type(command) => run_online(command.run()),
            Command::Status(command) => run_online(command.run()),
            Command::Slow(command) => run_online(command.run()),
            Command::Hot(command) => run_online(command.run()),
            Command::Checkpoint(command) => run_online(command.run()),
            Command::Restore(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Cluster(command) => command.run(),
            Command::Access(command) => run_online(command.run()),
            Command::User(command) => run_online(command.run()),
            Command::Role(command) => run_online(command.run()),
            Command::Audit(command) => command.run(),
            Command::Group(command) => run_online(command.run()),
            Command::Cert(command) => command.run(),
            Command::Dev(command) => run_online(command.run()),
            Command::Bench(command) => command.run(json),
            Command::LogLevels(command) => run_online(command.run()),
            Command::Reload(command) => run_online(command.run()),
            Command::Generate(command) => command.run(crate::command_line()),
            Command::Settings(command) => command.run(),
        }
    }
}

/// Address of a node, and the format of the answer.
#[derive(clap::Args)]
pub struct NodeArguments {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Address of a bucket on a node, and the format of the answer.
#[derive(clap::Args)]
pub struct BucketAddress {
    #[command(flatten)]
    address: Address,
    /// The bucket: `type/bucket`, or `bucket` of the type `default`
    #[arg(short, long, env = "CREDENZA_BUCKET", default_value = "default/default")]
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl BucketAddress {
    fn client(&self) -> Outcome<Client> {
        Client::new(&self.address)
    }

    /// Returns a command on this bucket as a user types it.
    fn command(&self, verb: &str, key: &str, encoding: Encoding) -> String {
        let bucket = match self.bucket == BucketName::default() {
            true => String::new(),
            false => format!(" -b {}", self.bucket),
        };
        format!("credenza {verb} {}{bucket}{}", shell_word(key), encoding.flags())
    }

    /// Returns a path below the bucket.
    fn path(&self, rest: &str) -> String {
        format!("/v1/buckets/{}{rest}", self.bucket)
    }
}

/// Arguments: one index.
#[derive(clap::Args)]
pub struct IndexArguments {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    /// The index's name
    name: String,
    #[command(flatten)]
    node: NodeArguments,
}

/// Read level of a request.
#[derive(clap::Args)]
pub struct ReadLevelArguments {
    /// `consistent`, `dirty` (whatever the node has), or `at_least:INDEX`
    #[arg(long, default_value = "consistent")]
    consistency: String,
}

fn parse_bucket(text: &str) -> Result<BucketName, String> {
    BucketName::parse(text).map_err(|error| error.text())
}

/// Runs a command that calls a node.
fn run_online(command: impl Future<Output = Outcome>) -> Outcome {
    for warning in misspelt_variables() {
        eprintln!("credenza: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Kind::Unavailable, format!("can't start: {error}")))?;
    runtime.block_on(command)
}
