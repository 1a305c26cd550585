//! Dotted version vectors: every value has a version vector of servers and a dot of its own.

use super::{Kind, SERVER_ID_BYTES, TERM_BYTES, Write, Writer, actor};
use base::dots::DotContext;

/// Servers and their counts, by server.
type Vector = Vec<(u8, u32)>;

/// A value's clock: what its writer had seen, and which write it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock {
    dot: (u8, u32),
    past: Vector,
    write: Write,
}

/// The kind.
#[derive(Clone, Copy, Debug)]
pub struct Dotted;

impl Kind for Dotted {
    const NAME: &'static str = "DVV";
    const MINTED: bool = true;
    /// Values with their clocks, by dot.
    type Row = Vec<Clock>;
    type Context = Vector;
    /// The server.
    type Vnode = u8;

    fn vnode(node: usize, _partition: u32) -> u8 {
        node as u8
    }

    fn write(
        &self,
        vnode: &mut u8,
        local: &Vec<Clock>,
        context: &Vector,
        write: Write,
        _by: Writer,
    ) -> Vec<Clock> {
        let server = *vnode;
        let highest = joined(local).iter().chain(context).fold(0, |highest, (id, count)| {
            if *id == server { highest.max(*count) } else { highest }
        });
        let clock = Clock { dot: (server, highest + 1), past: context.clone(), write };
        self.merge(local, &vec![clock])
    }

    fn merge(&self, one: &Vec<Clock>, other: &Vec<Clock>) -> Vec<Clock> {
        let stays = |clock: &&Clock, beside: &[Clock]| {
            !beside.iter().any(|newer| covers(&newer.past, clock.dot))
        };
        let ours = one.iter().filter(|clock| stays(clock, other));
        let theirs = other.iter().filter(|clock| stays(clock, one));
        let mut row: Vec<_> = ours.chain(theirs).cloned().collect();
        row.sort_unstable();
        row.dedup();
        row
    }

    fn context(row: &Vec<Clock>) -> Vector {
        joined(row)
    }

    fn values(row: &Vec<Clock>) -> Vec<Write> {
        let mut values: Vec<_> = row.iter().map(|clock| clock.write).collect();
        values.sort_unstable();
        values
    }

    fn term_bytes(row: &Vec<Clock>) -> usize {
        let entries: usize = row.iter().map(|clock| clock.past.len() + 1).sum();
        entries * (TERM_BYTES + SERVER_ID_BYTES)
    }

    fn coded_bytes(row: &Vec<Clock>) -> usize {
        let id = |server: u8| actor(server.into(), PARTITION);
        let clock = |clock: &Clock| {
            let past = clock.past.iter().map(|(server, count)| (id(*server), u64::from(*count)));
            let (server, count) = clock.dot;
            // Past and dot together, and a byte that says which of the dots is the value's own.
            DotContext::of(past).and(id(server), count.into()).encode(0).len() + 1
        };
        row.iter().map(clock).sum()
    }
}

/// Any partition: the size of its number is all that counts.
const PARTITION: u32 = 40;

fn covers(past: &[(u8, u32)], (server, count): (u8, u32)) -> bool {
    past.iter().any(|(id, seen)| *id == server && *seen >= count)
}

/// What somebody has seen who was shown all of these.
fn joined(row: &[Clock]) -> Vector {
    let mut all: Vector = Vec::new();
    let entries = row.iter().flat_map(|clock| clock.past.iter().chain([&clock.dot]));
    for (server, count) in entries {
        match all.binary_search_by_key(server, |(id, _)| *id) {
            Ok(at) => all[at].1 = all[at].1.max(*count),
            Err(at) => all.insert(at, (*server, *count)),
        }
    }
    all
}
