//! DVV sets: the database's own clocks and minters, as its vnodes use them.

use super::{ClockKind, DvvWriter, SERVER_ID_BYTES, TERM_BYTES, Write, actor};
use base::Actor;
use base::dots::DotContext;
use logic::causal::{Clock, Minter, StartState};

/// DVV sets as a kind of clock.
#[derive(Clone, Copy, Debug)]
pub struct Sets;

impl ClockKind for Sets {
    const NAME: &'static str = "DVV sets";
    const MINTED: bool = true;
    type Row = Clock<Actor, Write>;
    type Context = DotContext<Actor>;
    type Vnode = Minter;

    fn vnode(node: usize, partition: u32) -> Minter {
        Minter::start(actor(node, partition).node, partition, StartState::FIRST, 0).0
    }

    fn write(
        &self,
        vnode: &mut Minter,
        local: &Clock<Actor, Write>,
        context: &DotContext<Actor>,
        write: Write,
        _writer: DvvWriter,
    ) -> Clock<Actor, Write> {
        vnode.write(local.clone(), context, write, 0).clock
    }

    fn merge(&self, one: &Clock<Actor, Write>, other: &Clock<Actor, Write>) -> Clock<Actor, Write> {
        one.clone().sync(other.clone())
    }

    fn context(row: &Clock<Actor, Write>) -> DotContext<Actor> {
        row.join()
    }

    fn values(row: &Clock<Actor, Write>) -> Vec<Write> {
        let mut values: Vec<_> = row.values().copied().collect();
        values.sort_unstable();
        values
    }

    fn term_bytes(row: &Clock<Actor, Write>) -> usize {
        row.entries().len() * (TERM_BYTES + SERVER_ID_BYTES)
    }

    fn coded_bytes(row: &Clock<Actor, Write>) -> usize {
        row.join().encode(0).len()
    }
}
