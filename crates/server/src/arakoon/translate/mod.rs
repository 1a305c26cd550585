//! Frames to requests. Pure: what a command means is told here, what the node knows elsewhere.
//!
//! Promises: every command of the table becomes a question, an answer or a refusal.
//! Never: waits; asks the node.
//! Read next: `updates.rs`, `shape.rs`.

mod shape;
mod updates;

pub use shape::ArakoonShape;

use super::commands::{ArakoonCommand, CommandName};
use super::errors::ArakoonRefusal;
use super::nursery;
use super::words::{Malformed, ValueReader, Wire};
use base::range::{Direction, Extent};
use base::request::{Expiry, Missing, Steps};
use base::{Bound, Call, LogIndex, Range, Read, ReadLevel, Update, Want, limits};
use bytes::Bytes;

/// The version whose protocol this is.
pub const VERSION: (i32, i32, i32) = (1, 9, 25);
/// About how many bytes of keys and values one fringe has.
const FRINGE_BYTES: usize = 1024 * 1024;

const PLACED: &str = "keys are not spread over clusters by a nursery here: buckets are placed by \
                      the directory";
const NO_LOG_STREAM: &str = "the log is not given to Arakoon nodes: take a checkpoint, or export";
const NO_DB: &str = "there is no database file to copy: take a checkpoint";
/// Arakoon's words for what a slave alone does.
const ON_MASTER: &str = "Operation cannot be performed on master node";

/// What only the node's view of its cluster can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterQuery {
    /// The master's name.
    WhoMaster,
    /// This node's part.
    State,
    /// The last applied index.
    Txid,
    /// Whether enough nodes are about.
    Progress,
    /// Counts and times.
    Statistics,
    /// The nursery's configuration, with the nodes' addresses.
    NurseryConfiguration,
    /// Whether the master may go; on a node that is none there is nothing to do.
    DropMaster,
    /// What a slave alone does: done there, or refused.
    OnSlave(Option<ArakoonRefusal>),
}

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandPlan {
    /// The body of its answer is known.
    Say(Vec<u8>),
    /// It is a question to the node.
    Ask(Call, ArakoonShape),
    /// It is a range of any length: a page, and if that is not all, the whole.
    Range(Range, ReadLevel, ArakoonShape),
    /// The node's view answers.
    Look(ClusterQuery),
}

/// Turns a request's arguments into what is to be done.
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
        | CommandName::AssertExists => key(command, &mut reader)?,
        CommandName::MultiGet | CommandName::MultiGetOption => many(command.name, &mut reader)?,
        CommandName::Range | CommandName::RangeEntries | CommandName::RevRangeEntries => {
            range(command.name, &mut reader)?
        }
        CommandName::PrefixKeys => {
            let level = read_level(&mut reader)?;
            let range = Range { want: Want::Keys, ..Range::prefix(reader.text()?) };
            let rows_max = rows_max(reader.int()?);
            CommandPlan::Range(Range { rows_max, ..range }, level, ArakoonShape::Keys)
        }
        CommandName::GetFringe => fringe(&mut reader)?,
        CommandName::GetKeyCount => CommandPlan::Ask(
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
            let (name, _) = (reader.text()?, reader.maybe()?);
            on_master(ArakoonShape::Refused(ArakoonRefusal::no_such_function(&name)))
        }
        CommandName::UserHook => {
            let level = read_level(&mut reader)?;
            let refusal = ArakoonRefusal::no_such_hook(reader.text()?);
            asked_at(level, ArakoonShape::Refused(refusal))
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

fn key(command: &ArakoonCommand, reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    let level = read_level(reader)?;
    let key = reader.text()?;
    let (read, shape) = match command.name {
        CommandName::Exists => (Read::Exists(vec![key]), ArakoonShape::Exists),
        CommandName::Get => (Read::Get(key), ArakoonShape::Value),
        CommandName::Assert => {
            (Read::Assert { key, expected: reader.maybe()? }, ArakoonShape::Nothing)
        }
        _ => (Read::AssertExists(key), ArakoonShape::Nothing),
    };
    Ok(CommandPlan::Ask(Call::Read(read, level), shape))
}

/// The values of `MULTI_GET` come in the reverse of the wire's order, and the first missing key is
/// looked for in that order, too; the answers of `MULTI_GET_OPTION` come in the wire's.
fn many(name: CommandName, reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    let level = read_level(reader)?;
    let mut keys = reader.texts()?;
    let (read, shape) = match name {
        CommandName::MultiGet => {
            keys.reverse();
            (Read::MultiGetAll(keys), ArakoonShape::Values)
        }
        _ => (Read::MultiGet(keys), ArakoonShape::MaybeValues),
    };
    Ok(CommandPlan::Ask(Call::Read(read, level), shape))
}

fn range(name: CommandName, reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    let level = read_level(reader)?;
    let (first, first_in) = (reader.maybe()?, reader.flag()?);
    let (last, last_in) = (reader.maybe()?, reader.flag()?);
    let rows_max = rows_max(reader.int()?);
    let (first, last) = (bound(first, first_in), bound(last, last_in));
    let (low, high, direction) = match name {
        CommandName::RevRangeEntries => (last, first, Direction::Descending),
        _ => (first, last, Direction::Ascending),
    };
    let (want, shape) = match name {
        CommandName::Range => (Want::Keys, ArakoonShape::Keys),
        _ => (Want::Entries, ArakoonShape::Entries),
    };
    let range = Range { low, high, direction, rows_max, want, ..Range::default() };
    Ok(CommandPlan::Range(range, level, shape))
}

fn bound(key: Option<Bytes>, included: bool) -> Bound {
    match key {
        None => Bound::Open,
        Some(key) if included => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
    }
}

/// Negative: as many as there are.
fn rows_max(max: i32) -> Option<usize> {
    usize::try_from(max).ok()
}

/// The rows at one end of the key space, up to a boundary: what a nursery carries elsewhere.
fn fringe(reader: &mut ValueReader) -> Result<CommandPlan, ArakoonRefusal> {
    const UPPER: i32 = 0;
    let boundary = reader.maybe()?;
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
    Ok(CommandPlan::Ask(Call::Read(Read::Range(range), ReadLevel::Dirty), ArakoonShape::Entries))
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
            (updates::sequence(reader.text()?, Steps::AllOrNothing)?, ArakoonShape::Nothing)
        }
        CommandName::SyncedSequence => {
            (updates::sequence(reader.text()?, Steps::Synced)?, ArakoonShape::Nothing)
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
                    (Update::Delete { key, missing: Missing::Fails }, ArakoonShape::Nothing)
                }
                CommandName::TestAndSet => {
                    let (expected, wanted) = (reader.maybe()?, reader.maybe()?);
                    (Update::TestAndSet { key, expected, wanted }, ArakoonShape::Old)
                }
                CommandName::Replace => {
                    (Update::Replace { key, wanted: reader.maybe()? }, ArakoonShape::Old)
                }
                _ => (Update::DeletePrefix { prefix: key }, ArakoonShape::Count),
            }
        }
    };
    Ok(CommandPlan::Ask(Call::Update(update), shape))
}

/// A question that any node answers that may answer reads of this freshness.
fn asked_at(level: ReadLevel, shape: ArakoonShape) -> CommandPlan {
    CommandPlan::Ask(Call::Read(Read::Exists(Vec::new()), level), shape)
}

/// A question for the master alone.
fn on_master(shape: ArakoonShape) -> CommandPlan {
    asked_at(ReadLevel::Consistent, shape)
}

fn nursery_plan(
    name: CommandName,
    reader: &mut ValueReader,
    cluster: &[u8],
) -> Result<CommandPlan, ArakoonRefusal> {
    let mut routing = Vec::new();
    routing.text(&nursery::leaf(cluster));
    let as_it_is = match name {
        CommandName::GetInterval => {
            return Ok(on_master(ArakoonShape::Said(nursery::open_interval())));
        }
        CommandName::GetRouting => return Ok(on_master(ArakoonShape::Said(routing))),
        CommandName::GetNurseryCfg => {
            return Ok(on_master(ArakoonShape::View(ClusterQuery::NurseryConfiguration)));
        }
        CommandName::SetInterval => nursery::read_interval(reader)?,
        CommandName::SetRouting => nursery::routes_to(reader.text()?, cluster)?,
        CommandName::SetRoutingDelta => {
            let (left, _, right) = (reader.text()?, reader.text()?, reader.text()?);
            left == cluster && right == cluster
        }
        CommandName::MigrateRange if nursery::read_interval(reader)? => {
            let update = updates::sequence(reader.text()?, Steps::AllOrNothing)?;
            return Ok(CommandPlan::Ask(Call::Update(update), ArakoonShape::Nothing));
        }
        _ => false,
    };
    Ok(on_master(match as_it_is {
        true => ArakoonShape::Nothing,
        false => ArakoonShape::Refused(ArakoonRefusal::not_supported(PLACED)),
    }))
}

fn administration(
    name: CommandName,
    reader: &mut ValueReader,
    cluster: &[u8],
) -> Result<CommandPlan, ArakoonRefusal> {
    let slave = |refusal| Ok(CommandPlan::Look(ClusterQuery::OnSlave(refusal)));
    match name {
        CommandName::Ping => {
            let (_, named) = (reader.text()?, reader.text()?);
            if named != cluster {
                return Err(ArakoonRefusal::failure("unknown failure"));
            }
            let (major, minor, patch) = VERSION;
            let mut body = Vec::new();
            body.text(format!("Arakoon {major}.{minor}.{patch}").as_bytes());
            Ok(CommandPlan::Say(body))
        }
        CommandName::Version => Ok(CommandPlan::Say(version())),
        CommandName::WhoMaster => Ok(CommandPlan::Look(ClusterQuery::WhoMaster)),
        CommandName::CurrentState => Ok(CommandPlan::Look(ClusterQuery::State)),
        CommandName::GetTxid => Ok(CommandPlan::Look(ClusterQuery::Txid)),
        CommandName::ExpectProgressPossible => Ok(CommandPlan::Look(ClusterQuery::Progress)),
        CommandName::Statistics => Ok(CommandPlan::Look(ClusterQuery::Statistics)),
        CommandName::DropMaster => Ok(CommandPlan::Look(ClusterQuery::DropMaster)),
        // What is acknowledged is in the store already.
        CommandName::FlushStore => Ok(CommandPlan::Say(Vec::new())),
        // The log collapses by itself: nothing is left to do, and nothing will be told of.
        CommandName::CollapseTlogs => match reader.int()? {
            files if files < 1 => {
                Err(ArakoonRefusal::complaint(format!("{files} is not acceptable")))
            }
            _ => Ok(CommandPlan::Say(vec![0; 4])),
        },
        CommandName::CopyDbToHead => match reader.int()? {
            files if files < 1 => {
                Err(ArakoonRefusal::complaint(format!("tlogs_to_keep={files} is not acceptable")))
            }
            _ => slave(None),
        },
        CommandName::OptDb | CommandName::DefragDb => slave(None),
        CommandName::GetDb => slave(Some(ArakoonRefusal::not_supported(NO_DB))),
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

/// The refusal of what a slave alone does, on a master.
pub fn on_master_refusal() -> ArakoonRefusal {
    ArakoonRefusal::not_supported(ON_MASTER)
}

/// The whole of a range whose first page was not all.
pub fn whole(range: Range) -> Range {
    Range { extent: Extent::Whole, ..range }
}
