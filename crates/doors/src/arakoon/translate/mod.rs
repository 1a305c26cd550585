//! Frames to requests. Pure: what a command means is told here, what the node knows elsewhere.
//!
//! Promises: every command of the table becomes a question, an answer or a refusal.
//! Never: waits; asks the node.
//! Read next: `updates.rs`, `shape.rs`.

mod shape;
mod updates;

pub use shape::Shape;

use super::commands::{Command, Name};
use super::errors::Refusal;
use super::nursery;
use super::words::{Malformed, Reader, Wire};
use base::range::{Direction, Extent};
use base::request::{Expiry, Missing, Steps};
use base::{Bound, Call, Consistency, LogIndex, Range, Read, Update, Want, limits};
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
pub enum View {
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
    OnSlave(Option<Refusal>),
}

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The body of its answer is known.
    Say(Vec<u8>),
    /// It is a question to the node.
    Ask(Call, Shape),
    /// It is a range of any length: a page, and if that is not all, the whole.
    Range(Range, Consistency, Shape),
    /// The node's view answers.
    Look(View),
}

/// Turns a request's arguments into what is to be done.
pub fn translate(command: &Command, body: Bytes, cluster: &[u8]) -> Result<Plan, Refusal> {
    let mut reader = Reader::new(body);
    let plan = match command.name {
        Name::Exists | Name::Get | Name::Assert | Name::AssertExists => key(command, &mut reader)?,
        Name::MultiGet | Name::MultiGetOption => many(command.name, &mut reader)?,
        Name::Range | Name::RangeEntries | Name::RevRangeEntries => {
            range(command.name, &mut reader)?
        }
        Name::PrefixKeys => {
            let consistency = consistency(&mut reader)?;
            let range = Range { want: Want::Keys, ..Range::prefix(reader.text()?) };
            let rows_max = rows_max(reader.int()?);
            Plan::Range(Range { rows_max, ..range }, consistency, Shape::Keys)
        }
        Name::GetFringe => fringe(&mut reader)?,
        Name::GetKeyCount => {
            Plan::Ask(Call::Read(Read::KeyCount, Consistency::Consistent), Shape::LongCount)
        }
        Name::Set
        | Name::Confirm
        | Name::Delete
        | Name::TestAndSet
        | Name::Replace
        | Name::DeletePrefix
        | Name::Nop
        | Name::Sequence
        | Name::SyncedSequence => update(command.name, &mut reader)?,
        Name::UserFunction => {
            let (name, _) = (reader.text()?, reader.maybe()?);
            on_master(Shape::Refused(Refusal::no_such_function(&name)))
        }
        Name::UserHook => {
            let consistency = consistency(&mut reader)?;
            let refusal = Refusal::no_such_hook(reader.text()?);
            asked_at(consistency, Shape::Refused(refusal))
        }
        Name::SetInterval
        | Name::GetInterval
        | Name::GetRouting
        | Name::SetRouting
        | Name::SetRoutingDelta
        | Name::SetNurseryCfg
        | Name::GetNurseryCfg
        | Name::MigrateRange => nursery_plan(command.name, &mut reader, cluster)?,
        _ => administration(command.name, &mut reader, cluster)?,
    };
    Ok(plan)
}

fn key(command: &Command, reader: &mut Reader) -> Result<Plan, Refusal> {
    let consistency = consistency(reader)?;
    let key = reader.text()?;
    let (read, shape) = match command.name {
        Name::Exists => (Read::Exists(vec![key]), Shape::Exists),
        Name::Get => (Read::Get(key), Shape::Value),
        Name::Assert => (Read::Assert { key, expected: reader.maybe()? }, Shape::Nothing),
        _ => (Read::AssertExists(key), Shape::Nothing),
    };
    Ok(Plan::Ask(Call::Read(read, consistency), shape))
}

/// The values of `MULTI_GET` come in the reverse of the wire's order, and the first missing key is
/// looked for in that order, too; the answers of `MULTI_GET_OPTION` come in the wire's.
fn many(name: Name, reader: &mut Reader) -> Result<Plan, Refusal> {
    let consistency = consistency(reader)?;
    let mut keys = reader.texts()?;
    let (read, shape) = match name {
        Name::MultiGet => {
            keys.reverse();
            (Read::MultiGetAll(keys), Shape::Values)
        }
        _ => (Read::MultiGet(keys), Shape::MaybeValues),
    };
    Ok(Plan::Ask(Call::Read(read, consistency), shape))
}

fn range(name: Name, reader: &mut Reader) -> Result<Plan, Refusal> {
    let consistency = consistency(reader)?;
    let (first, first_in) = (reader.maybe()?, reader.flag()?);
    let (last, last_in) = (reader.maybe()?, reader.flag()?);
    let rows_max = rows_max(reader.int()?);
    let (first, last) = (bound(first, first_in), bound(last, last_in));
    let (low, high, direction) = match name {
        Name::RevRangeEntries => (last, first, Direction::Descending),
        _ => (first, last, Direction::Ascending),
    };
    let (want, shape) = match name {
        Name::Range => (Want::Keys, Shape::Keys),
        _ => (Want::Entries, Shape::Entries),
    };
    let range = Range { low, high, direction, rows_max, want, ..Range::default() };
    Ok(Plan::Range(range, consistency, shape))
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
fn fringe(reader: &mut Reader) -> Result<Plan, Refusal> {
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
    Ok(Plan::Ask(Call::Read(Read::Range(range), Consistency::Dirty), Shape::Entries))
}

fn consistency(reader: &mut Reader) -> Result<Consistency, Malformed> {
    Ok(match reader.byte()? {
        0 => Consistency::Consistent,
        1 => Consistency::Dirty,
        2 => Consistency::AtLeast(LogIndex(u64::try_from(reader.long()?).unwrap_or(0))),
        _ => return Err(Malformed),
    })
}

fn update(name: Name, reader: &mut Reader) -> Result<Plan, Refusal> {
    let (update, shape) = match name {
        Name::Nop => (Update::Nop, Shape::Nothing),
        Name::Sequence => (updates::sequence(reader.text()?, Steps::AllOrNothing)?, Shape::Nothing),
        Name::SyncedSequence => (updates::sequence(reader.text()?, Steps::Synced)?, Shape::Nothing),
        _ => {
            let key = reader.text()?;
            match name {
                Name::Set => {
                    let value = reader.text()?;
                    (Update::Set { key, value, expiry: Expiry::Default }, Shape::Nothing)
                }
                Name::Confirm => (Update::Confirm { key, value: reader.text()? }, Shape::Nothing),
                Name::Delete => (Update::Delete { key, missing: Missing::Fails }, Shape::Nothing),
                Name::TestAndSet => {
                    let (expected, wanted) = (reader.maybe()?, reader.maybe()?);
                    (Update::TestAndSet { key, expected, wanted }, Shape::Old)
                }
                Name::Replace => (Update::Replace { key, wanted: reader.maybe()? }, Shape::Old),
                _ => (Update::DeletePrefix { prefix: key }, Shape::Count),
            }
        }
    };
    Ok(Plan::Ask(Call::Update(update), shape))
}

/// A question that any node answers that may answer reads of this freshness.
fn asked_at(consistency: Consistency, shape: Shape) -> Plan {
    Plan::Ask(Call::Read(Read::Exists(Vec::new()), consistency), shape)
}

/// A question for the master alone.
fn on_master(shape: Shape) -> Plan {
    asked_at(Consistency::Consistent, shape)
}

fn nursery_plan(name: Name, reader: &mut Reader, cluster: &[u8]) -> Result<Plan, Refusal> {
    let mut routing = Vec::new();
    routing.text(&nursery::leaf(cluster));
    let as_it_is = match name {
        Name::GetInterval => return Ok(on_master(Shape::Said(nursery::open_interval()))),
        Name::GetRouting => return Ok(on_master(Shape::Said(routing))),
        Name::GetNurseryCfg => return Ok(on_master(Shape::View(View::NurseryConfiguration))),
        Name::SetInterval => nursery::read_interval(reader)?,
        Name::SetRouting => nursery::routes_to(reader.text()?, cluster)?,
        Name::SetRoutingDelta => {
            let (left, _, right) = (reader.text()?, reader.text()?, reader.text()?);
            left == cluster && right == cluster
        }
        Name::MigrateRange if nursery::read_interval(reader)? => {
            let update = updates::sequence(reader.text()?, Steps::AllOrNothing)?;
            return Ok(Plan::Ask(Call::Update(update), Shape::Nothing));
        }
        _ => false,
    };
    Ok(on_master(match as_it_is {
        true => Shape::Nothing,
        false => Shape::Refused(Refusal::not_supported(PLACED)),
    }))
}

fn administration(name: Name, reader: &mut Reader, cluster: &[u8]) -> Result<Plan, Refusal> {
    let slave = |refusal| Ok(Plan::Look(View::OnSlave(refusal)));
    match name {
        Name::Ping => {
            let (_, named) = (reader.text()?, reader.text()?);
            if named != cluster {
                return Err(Refusal::failure("unknown failure"));
            }
            let (major, minor, patch) = VERSION;
            let mut body = Vec::new();
            body.text(format!("Arakoon {major}.{minor}.{patch}").as_bytes());
            Ok(Plan::Say(body))
        }
        Name::Version => Ok(Plan::Say(version())),
        Name::WhoMaster => Ok(Plan::Look(View::WhoMaster)),
        Name::CurrentState => Ok(Plan::Look(View::State)),
        Name::GetTxid => Ok(Plan::Look(View::Txid)),
        Name::ExpectProgressPossible => Ok(Plan::Look(View::Progress)),
        Name::Statistics => Ok(Plan::Look(View::Statistics)),
        Name::DropMaster => Ok(Plan::Look(View::DropMaster)),
        // What is acknowledged is in the store already.
        Name::FlushStore => Ok(Plan::Say(Vec::new())),
        // The log collapses by itself: nothing is left to do, and nothing will be told of.
        Name::CollapseTlogs => match reader.int()? {
            files if files < 1 => Err(Refusal::complaint(format!("{files} is not acceptable"))),
            _ => Ok(Plan::Say(vec![0; 4])),
        },
        Name::CopyDbToHead => match reader.int()? {
            files if files < 1 => {
                Err(Refusal::complaint(format!("tlogs_to_keep={files} is not acceptable")))
            }
            _ => slave(None),
        },
        Name::OptDb | Name::DefragDb => slave(None),
        Name::GetDb => slave(Some(Refusal::not_supported(NO_DB))),
        _ => Err(Refusal::not_supported(NO_LOG_STREAM)),
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
pub fn on_master_refusal() -> Refusal {
    Refusal::not_supported(ON_MASTER)
}

/// The whole of a range whose first page was not all.
pub fn whole(range: Range) -> Range {
    Range { extent: Extent::Whole, ..range }
}
