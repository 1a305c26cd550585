//! Commands on the bucket as a whole and on the node.

use super::{CommandContext, MultiStep, RespPlan, RespShape, Translated, update};
use crate::resp::errors;
use crate::resp::frame::Words;
use base::{DirectoryCall, Key, Read, Update};

/// Section of `INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoSection {
    /// Program, process, port and uptime.
    Server,
    /// Connections.
    Clients,
    /// Memory of the store and of the process.
    Memory,
    /// Log and store.
    Persistence,
    /// Counts of connections and commands.
    Stats,
    /// Processor time.
    Cpu,
    /// Role of this node in the bucket's group.
    Replication,
    /// Redis Cluster, which is never enabled.
    Cluster,
    /// Number of keys.
    Keyspace,
    /// Figures of Credenza alone: groups, sync times, warnings.
    Credenza,
}

/// All sections, in the order in which they are shown.
pub const SECTIONS: [(&str, InfoSection); 10] = [
    ("server", InfoSection::Server),
    ("clients", InfoSection::Clients),
    ("memory", InfoSection::Memory),
    ("persistence", InfoSection::Persistence),
    ("stats", InfoSection::Stats),
    ("cpu", InfoSection::Cpu),
    ("replication", InfoSection::Replication),
    ("cluster", InfoSection::Cluster),
    ("keyspace", InfoSection::Keyspace),
    ("credenza", InfoSection::Credenza),
];

pub fn info(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let named = |name: &str| (1..words.len()).any(|at| words.is(at, name));
    let everything =
        words.len() == 1 || ["all", "default", "everything"].iter().any(|name| named(name));
    let wanted = SECTIONS.iter().filter(|(name, _)| everything || named(name));
    Ok(RespPlan::Run(MultiStep::Info(wanted.map(|(_, section)| *section).collect())))
}

pub fn dbsize(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.read(Read::KeyCount, RespShape::Number)
}

/// Empties the connection's bucket: one metadata operation, whatever its size. In a transaction the
/// keys are deleted one by one, because this must be atomic with the other steps.
pub fn flush(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.len() > 2 || (words.len() == 2 && !words.is(1, "ASYNC") && !words.is(1, "SYNC")) {
        return Err(errors::SYNTAX);
    }
    if talk.as_step {
        return update(Update::DeletePrefix { prefix: Key::new() }, RespShape::Ok);
    }
    Ok(RespPlan::Directory(talk.client.bucket.clone(), DirectoryCall::ClearBucket, RespShape::Ok))
}

pub fn time(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let now = talk.clock.since_1970();
    talk.out.array(2);
    talk.out.text(now.as_secs().to_string());
    talk.out.text(now.subsec_micros().to_string());
    Ok(RespPlan::Said)
}

/// Answers `SAVE`: acknowledged writes are on disk already. In a bucket with sync=interval they may
/// not be, and the answer is an error.
fn saved(talk: &CommandContext<'_>, text: &'static str) -> Translated {
    let bucket = talk.client.bucket.clone();
    Ok(RespPlan::Directory(bucket, DirectoryCall::DescribeBucket, RespShape::Saved(text)))
}

pub fn save(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    saved(talk, "OK")
}

pub fn bgsave(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.len() > 2 || (words.len() == 2 && !words.is(1, "SCHEDULE")) {
        return Err(errors::SYNTAX);
    }
    saved(talk, "Everything acknowledged is on disk already")
}

pub fn lastsave(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.count(talk.clock.since_1970().as_secs());
    Ok(RespPlan::Said)
}

pub fn role(_words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    Ok(RespPlan::Run(MultiStep::Role))
}

/// Answers `WAIT`, the number of replicas that confirmed the connection's writes, with 0 at once.
pub fn wait(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    words.integer(1)?;
    let timeout = base::codec::decimal(words.get(2));
    match timeout
        .ok_or(errors::RespRefusal::new("ERR timeout is not an integer or out of range"))?
    {
        ..0 => Err(errors::RespRefusal::new("ERR timeout is negative")),
        _ => {
            talk.out.integer(0);
            Ok(RespPlan::Said)
        }
    }
}
