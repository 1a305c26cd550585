//! Translation of frames into requests. Pure: independent of the state of the node.
//!
//! Promises: every command of the table becomes a request, an answer or a refusal.
//! Never: waits; calls the node.
//! Read next: `updates.rs`, `shape.rs`.

mod shape;
mod updates;

pub use shape::ArakoonShape;

use super::commands::{ArakoonCommand, CommandName};
use super::errors::ArakoonRefusal;
use super::nursery;
use super::values::{Malformed, ValueReader, Wire};
use base::range::{Direction, Extent};
use base::request::{Expiry, OnMissing, SequenceMode};
use base::rights::Operate;
use base::{Bound, Call, LogIndex, Range, Read, ReadLevel, RowContent, Update, limits};
use bytes::Bytes;

/// Arakoon version of the protocol, as reported to clients.
pub const VERSION: (i32, i32, i32) = (1, 9, 25);
/// Approximate maximum of keys and values in one fringe, in bytes.
const FRINGE_BYTES: usize = 1024 * 1024;

const NURSERY_UNSUPPORTED: &str =
    "nurseries are not supported: the directory places buckets in groups";
const NO_LOG_STREAM: &str = "log streaming to Arakoon nodes is not supported: take a checkpoint, \
                             or export";
const NO_DB_COPY: &str = "copying a database file is not supported: take a checkpoint";
/// Arakoon's message of a master for commands that only a slave executes.
const REFUSED_BY_MASTER: &str = "Operation cannot be performed on master node";

/// Query that only the node's view of its cluster can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterQuery {
    /// Name of the master.
    WhoMaster,
    /// Role of this node.
    State,
    /// Index of the last applied log entry.
    Txid,
    /// True if enough members are connected to make progress.
    Progress,
    /// Counts and durations.
    Statistics,
    /// The nursery's configuration, with the nodes' addresses.
    NurseryConfiguration,
    /// Drop of the mastership; a node that is no master succeeds without effect.
    DropMaster,
    /// Command that only slaves execute. On a slave it succeeds (`None`) or is refused with this
    /// answer; a master always refuses it.
    SlaveCommand(Option<ArakoonRefusal>),
}

impl ClusterQuery {
    /// Returns the act of operators that the query is. `None`: whoever may enter the bucket may
    /// ask.
    pub fn act(&self) -> Option<Operate> {
        match self {
            ClusterQuery::Statistics => Some(Operate::ShowStatistics),
            ClusterQuery::DropMaster => Some(Operate::TransferMaster),
            ClusterQuery::WhoMaster
            | ClusterQuery::State
            | ClusterQuery::Txid
            | ClusterQuery::Progress
            | ClusterQuery::NurseryConfiguration
            | ClusterQuery::SlaveCommand(_) => None,
        }
    }
}

/// Way in which a command is carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandPlan {
    /// The answer's body is known without the node.
    Answer(Vec<u8>),
    /// Call to the node, and the layout of its answer.
    Submit(Call, ArakoonShape),
    /// Range of any length: first a page, then the complete range if there is more.
    Range(Range, ReadLevel, ArakoonShape),
    /// Query of the node's view of the cluster.
    Query(ClusterQuery),
}

/// Translates a request's arguments into a plan. Fails with the refusal to send.
pub fn translate(
    command: &ArakoonCommand,
    body: Bytes,
    cluster: &[u8],
) -> Result<CommandPlan, ArakoonRefusal> {
    let mut reader = ValueReader::new(body);
    let plan = match command.name {
        CommandName::Exists
        | CommandName::Get
        | CommandName::Assert
        | CommandName::AssertExists => key_read(command, &mut reader)?,
        CommandName::MultiGet | CommandName::MultiGetOption => {
            multi_get(command.name, &mut reader)?
        }
        CommandName::Range | CommandName::RangeEntries | CommandName::RevRangeEntries => {
            range(command.name, &mut reader)?
        }
        CommandName::PrefixKeys => {
            let level = read_level(&mut reader)?;
            let range = Range { want: RowContent::Keys, ..Range::prefix(reader.text()?) };
            let rows_max = rows_max(reader.int()?);
            CommandPlan::Range(Range { rows_max, ..range }, level, ArakoonShape::Keys)
        }
        CommandName::GetFringe => fringe(&mut reader)?,
        CommandName::GetKeyCount => CommandPlan::Submit(
            Call::Read(Read::KeyCount, ReadLevel::Consistent),
            ArakoonShape::LongCount,
        ),
        CommandName::Set
        | CommandName::Confirm
        | CommandName::Delete
        | CommandName::TestAndSet
        | CommandName::Replace
        | CommandName::DeletePrefix
        | CommandName::Nop
        | CommandName::Sequence
        | CommandName::SyncedSequence => update(command.name, &mut reader)?,
        CommandName::UserFunction => {
            let (name, _) = (reader.text()?, reader.option()?);
            answer_if_master(ArakoonShape::Refused(ArakoonRefusal::no_such_function(&name)))
        }
        CommandName::UserHook => {
            let level = read_level(&mut reader)?;
            let refusal = ArakoonRefusal::no_such_hook(reader.text()?);
            answer_if_readable(level, ArakoonShape::Refused(refusal))
        }
        CommandName::SetInterval
        | CommandName::GetInterval
        | CommandName::GetRouting
        | CommandName::SetRouting
        | CommandName::SetRoutingDelta
        | CommandName::SetNurseryCfg
        | CommandName::GetNurseryCfg
        | CommandName::MigrateRange => nursery_plan(command.name, &mut reader, cluster)?,
        _ => administration(command.name, &mut reader, cluster)?,
    };
    Ok(plan)
}

fn key_read(
    command: &ArakoonCommand,
    reader: &mut ValueReader,
) -> Result<CommandPlan, ArakoonRefusal> {
    let level = read_level(reader)?;
    let key = reader.text()?;
    let (read, shape) = match command.name {
        CommandName::Exists => (Read::Exists(vec![key]), ArakoonShape::Exists),
        CommandName::Get => (Read::Get(key), ArakoonShape::Value),
        CommandName::Assert => {
            (Read::Assert { key, expected: reader.option()? }, ArakoonShape::Nothing)
        }
        _ => (Read::AssertExists(key), ArakoonShape::Nothing),
    };
    Ok(CommandPlan::Submit(Call::Read(read, level), shape))
}

/// Translates a read of several keys. `MULTI_GET` returns values in reverse order of the wire, and
/// reports the first missing key in that order; `MULTI_GET_OPTION` keeps the wire's order.
fn multi_get(name: CommandName, reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    let level = read_level(reader)?;
    let mut keys = reader.texts()?;
    let (read, shape) = match name {
        CommandName::MultiGet => {
            keys.reverse();
            (Read::MultiGetAll(keys), ArakoonShape::Values)
        }
        _ => (Read::MultiGet(keys), ArakoonShape::MaybeValues),
    };
    Ok(CommandPlan::Submit(Call::Read(read, level), shape))
}

fn range(name: CommandName, reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    let level = read_level(reader)?;
    let (first, is_first_included) = (reader.option()?, reader.flag()?);
    let (last, is_last_included) = (reader.option()?, reader.flag()?);
    let rows_max = rows_max(reader.int()?);
    let (first, last) = (bound(first, is_first_included), bound(last, is_last_included));
    let (low, high, direction) = match name {
        CommandName::RevRangeEntries => (last, first, Direction::Descending),
        _ => (first, last, Direction::Ascending),
    };
    let (want, shape) = match name {
        CommandName::Range => (RowContent::Keys, ArakoonShape::Keys),
        _ => (RowContent::Entries, ArakoonShape::Entries),
    };
    let range = Range { low, high, direction, rows_max, want, ..Range::default() };
    Ok(CommandPlan::Range(range, level, shape))
}

fn bound(key: Option<Bytes>, is_included: bool) -> Bound {
    match key {
        None => Bound::Open,
        Some(key) if is_included => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
    }
}

/// Returns the maximum number of rows. A negative number means no maximum: `None`.
fn rows_max(max: i32) -> Option<usize> {
    usize::try_from(max).ok()
}

/// Translates `GET_FRINGE`: the rows at one end of the key space, up to a boundary. A nursery moves
/// these to another cluster.
fn fringe(reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    const UPPER: i32 = 0;
    let boundary = reader.option()?;
    let mut range = Range {
        rows_max: Some(limits::PAGE_ROWS_MAX),
        bytes_max: Some(FRINGE_BYTES),
        ..Range::default()
    };
    if reader.int()? == UPPER {
        range.high = bound(boundary, false);
    } else {
        range.low = bound(boundary, true);
        range.direction = Direction::Descending;
    }
    Ok(CommandPlan::Submit(Call::Read(Read::Range(range), ReadLevel::Dirty), ArakoonShape::Entries))
}

fn read_level(reader: &mut ValueReader) -> Result<ReadLevel, Malformed> {
    Ok(match reader.byte()? {
        0 => ReadLevel::Consistent,
        1 => ReadLevel::Dirty,
        2 => ReadLevel::AtLeast(LogIndex(u64::try_from(reader.long()?).unwrap_or(0))),
        _ => return Err(Malformed),
    })
}

fn update(name: CommandName, reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    let (update, shape) = match name {
        CommandName::Nop => (Update::Nop, ArakoonShape::Nothing),
        CommandName::Sequence => {
            (updates::sequence(reader.text()?, SequenceMode::AllOrNothing)?, ArakoonShape::Nothing)
        }
        CommandName::SyncedSequence => {
            (updates::sequence(reader.text()?, SequenceMode::Synced)?, ArakoonShape::Nothing)
        }
        _ => {
            let key = reader.text()?;
            match name {
                CommandName::Set => {
                    let value = reader.text()?;
                    (Update::Set { key, value, expiry: Expiry::Default }, ArakoonShape::Nothing)
                }
                CommandName::Confirm => {
                    (Update::Confirm { key, value: reader.text()? }, ArakoonShape::Nothing)
                }
                CommandName::Delete => {
                    (Update::Delete { key, missing: OnMissing::Fail }, ArakoonShape::Nothing)
                }
                CommandName::TestAndSet => {
                    let (expected, wanted) = (reader.option()?, reader.option()?);
                    (Update::TestAndSet { key, expected, wanted }, ArakoonShape::Old)
                }
                CommandName::Replace => {
                    (Update::Replace { key, wanted: reader.option()? }, ArakoonShape::Old)
                }
                _ => (Update::DeletePrefix { prefix: key }, ArakoonShape::Count),
            }
        }
    };
    Ok(CommandPlan::Submit(Call::Update(update), shape))
}

/// Returns a plan that sends `shape` if this node may serve reads at this level. The read itself
/// names no key.
fn answer_if_readable(level: ReadLevel, shape: ArakoonShape) -> CommandPlan {
    CommandPlan::Submit(Call::Read(Read::Exists(Vec::new()), level), shape)
}

/// Returns a plan that sends `shape` if this node is the master.
fn answer_if_master(shape: ArakoonShape) -> CommandPlan {
    answer_if_readable(ReadLevel::Consistent, shape)
}

fn nursery_plan(
    name: CommandName,
    reader: &mut ValueReader,
    cluster: &[u8],
) -> Result<CommandPlan, ArakoonRefusal> {
    let mut routing = Vec::new();
    routing.text(&nursery::leaf_routing(cluster));
    let is_unchanged = match name {
        CommandName::GetInterval => {
            return Ok(answer_if_master(ArakoonShape::Fixed(nursery::open_interval())));
        }
        CommandName::GetRouting => return Ok(answer_if_master(ArakoonShape::Fixed(routing))),
        CommandName::GetNurseryCfg => {
            return Ok(answer_if_master(ArakoonShape::View(ClusterQuery::NurseryConfiguration)));
        }
        CommandName::SetInterval => nursery::parse_is_open_interval(reader)?,
        CommandName::SetRouting => nursery::routes_only_to(reader.text()?, cluster)?,
        CommandName::SetRoutingDelta => {
            let (left, _, right) = (reader.text()?, reader.text()?, reader.text()?);
            left == cluster && right == cluster
        }
        CommandName::MigrateRange if nursery::parse_is_open_interval(reader)? => {
            let update = updates::sequence(reader.text()?, SequenceMode::AllOrNothing)?;
            return Ok(CommandPlan::Submit(Call::Update(update), ArakoonShape::Nothing));
        }
        _ => false,
    };
    Ok(answer_if_master(match is_unchanged {
        true => ArakoonShape::Nothing,
        false => ArakoonShape::Refused(ArakoonRefusal::not_supported(NURSERY_UNSUPPORTED)),
    }))
}

fn administration(
    name: CommandName,
    reader: &mut ValueReader,
    cluster: &[u8],
) -> Result<CommandPlan, ArakoonRefusal> {
    let slave_command = |refusal| Ok(CommandPlan::Query(ClusterQuery::SlaveCommand(refusal)));
    match name {
        CommandName::Ping => {
            let (_, requested_cluster) = (reader.text()?, reader.text()?);
            if requested_cluster != cluster {
                return Err(ArakoonRefusal::fatal("unknown failure"));
            }
            let (major, minor, patch) = VERSION;
            let mut body = Vec::new();
            body.text(format!("Arakoon {major}.{minor}.{patch}").as_bytes());
            Ok(CommandPlan::Answer(body))
        }
        CommandName::Version => Ok(CommandPlan::Answer(version())),
        CommandName::WhoMaster => Ok(CommandPlan::Query(ClusterQuery::WhoMaster)),
        CommandName::CurrentState => Ok(CommandPlan::Query(ClusterQuery::State)),
        CommandName::GetTxid => Ok(CommandPlan::Query(ClusterQuery::Txid)),
        CommandName::ExpectProgressPossible => Ok(CommandPlan::Query(ClusterQuery::Progress)),
        CommandName::Statistics => Ok(CommandPlan::Query(ClusterQuery::Statistics)),
        CommandName::DropMaster => Ok(CommandPlan::Query(ClusterQuery::DropMaster)),
        // Acknowledged updates are in the store already.
        CommandName::FlushStore => Ok(CommandPlan::Answer(Vec::new())),
        // The node truncates its log by itself, so the command has no effect: 0 files to report on.
        CommandName::CollapseTlogs => match reader.int()? {
            files if files < 1 => {
                Err(ArakoonRefusal::unknown_failure(format!("{files} is not acceptable")))
            }
            _ => Ok(CommandPlan::Answer(vec![0; 4])),
        },
        CommandName::CopyDbToHead => match reader.int()? {
            files if files < 1 => Err(ArakoonRefusal::unknown_failure(format!(
                "tlogs_to_keep={files} is not acceptable"
            ))),
            _ => slave_command(None),
        },
        CommandName::OptDb | CommandName::DefragDb => slave_command(None),
        CommandName::GetDb => slave_command(Some(ArakoonRefusal::not_supported(NO_DB_COPY))),
        _ => Err(ArakoonRefusal::not_supported(NO_LOG_STREAM)),
    }
}

fn version() -> Vec<u8> {
    let (major, minor, patch) = VERSION;
    let mut body = Vec::new();
    [major, minor, patch].into_iter().for_each(|number| body.int(number));
    let ours = env!("CARGO_PKG_VERSION");
    let machine = if cfg!(target_os = "linux") { "Linux" } else { "other" };
    let text = format!("revision: \"credenza {ours}\"\ncompiled: \"\"\nmachine: \"{machine}\"\n");
    body.text(text.as_bytes());
    body
}

/// Returns a master's refusal of a command that only slaves execute.
pub fn on_master_refusal() -> ArakoonRefusal {
    ArakoonRefusal::not_supported(REFUSED_BY_MASTER)
}

/// Returns the same range without a limit to one page.
pub fn without_page_limit(range: Range) -> Range {
    Range { extent: Extent::Whole, ..range }
}
