//! Dotted version vectors: every value has a version vector of servers and a dot of its own.

use super::{ClockKind, DvvWriter, SERVER_ID_BYTES, TERM_BYTES, Write, actor};
use base::dots::DotContext;

/// Servers with their counts, sorted by server.
type Vector = Vec<(u8, u32)>;

/// A value's clock: the past that its writer had seen, and the write's own dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DottedClock {
    dot: (u8, u32),
    past: Vector,
    write: Write,
}

/// The kind.
#[derive(Clone, Copy, Debug)]
pub struct Dotted;

impl ClockKind for Dotted {
    const NAME: &'static str = "DVV";
    const MINTED: bool = true;
    /// Values with their clocks, by dot.
    type Row = Vec<DottedClock>;
    type Context = Vector;
    /// The server.
    type Vnode = u8;

    fn vnode(node: usize, _partition: u32) -> u8 {
        node as u8
    }

    fn write(
        &self,
        vnode: &mut u8,
        local: &Vec<DottedClock>,
        context: &Vector,
        write: Write,
        _writer: DvvWriter,
    ) -> Vec<DottedClock> {
        let server = *vnode;
        let highest =
            joined_context(local).iter().chain(context).fold(0, |highest, (id, count)| {
                if *id == server { highest.max(*count) } else { highest }
            });
        let clock = DottedClock { dot: (server, highest + 1), past: context.clone(), write };
        self.merge(local, &vec![clock])
    }

    fn merge(&self, one: &Vec<DottedClock>, other: &Vec<DottedClock>) -> Vec<DottedClock> {
        let is_kept = |clock: &&DottedClock, others: &[DottedClock]| {
            !others.iter().any(|newer| covers(&newer.past, clock.dot))
        };
        let ours = one.iter().filter(|clock| is_kept(clock, other));
        let theirs = other.iter().filter(|clock| is_kept(clock, one));
        let mut row: Vec<_> = ours.chain(theirs).cloned().collect();
        row.sort_unstable();
        row.dedup();
        row
    }

    fn context(row: &Vec<DottedClock>) -> Vector {
        joined_context(row)
    }

    fn values(row: &Vec<DottedClock>) -> Vec<Write> {
        let mut values: Vec<_> = row.iter().map(|clock| clock.write).collect();
        values.sort_unstable();
        values
    }

    fn term_bytes(row: &Vec<DottedClock>) -> usize {
        let entries: usize = row.iter().map(|clock| clock.past.len() + 1).sum();
        entries * (TERM_BYTES + SERVER_ID_BYTES)
    }

    fn coded_bytes(row: &Vec<DottedClock>) -> usize {
        let id = |server: u8| actor(server.into(), PARTITION);
        let clock = |clock: &DottedClock| {
            let past = clock.past.iter().map(|(server, count)| (id(*server), u64::from(*count)));
            let (server, count) = clock.dot;
            // Encodes the past and the dot together, and one byte for the index of the value's own
            // dot.
            DotContext::from_counts(past).with_dot(id(server), count.into()).encode(0).len() + 1
        };
        row.iter().map(clock).sum()
    }
}

/// An arbitrary partition: only the size of its number matters.
const PARTITION: u32 = 40;

fn covers(past: &[(u8, u32)], (server, count): (u8, u32)) -> bool {
    past.iter().any(|(id, seen)| *id == server && *seen >= count)
}

/// Returns the context of a reader of all these values.
fn joined_context(row: &[DottedClock]) -> Vector {
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

#[cfg(test)]
mod tests {
    use super::*;
    use load_generator::generators::SeededRng;

    /// Passes pairs of rows to `judge`: of three replicas, two at a time, with every kind of
    /// context.
    fn pairs(mut judge: impl FnMut(&Vec<DottedClock>, &Vec<DottedClock>)) {
        for seed in 0..500 {
            let mut rng = SeededRng::new(seed, 44);
            let mut rows = [(); 3].map(|()| Vec::new());
            let mut contexts = vec![Vector::new()];
            for write in 1..40 {
                let (at, other) = (rng.below(3) as usize, rng.below(3) as usize);
                let writer = DvvWriter { client: 0, now_ms: 0 };
                match rng.below(3) {
                    0 => {
                        let context = &contexts[rng.below(contexts.len() as u64) as usize];
                        let mut vnode = at as u8;
                        rows[at] = Dotted.write(&mut vnode, &rows[at], context, write, writer);
                    }
                    1 => contexts.push(Dotted::context(&rows[at])),
                    _ => rows[at] = Dotted.merge(&rows[at], &rows[other]),
                }
                judge(&rows[at], &rows[other]);
            }
        }
    }

    #[test]
    fn merged_siblings_are_concurrent_and_come_from_inputs() {
        let mut several = 0;
        pairs(|one, other| {
            let both = Dotted.merge(one, other);
            for clock in &both {
                assert!(one.contains(clock) || other.contains(clock));
                let newer = |other: &DottedClock| covers(&other.past, clock.dot);
                assert!(!both.iter().any(newer), "{both:?}");
            }
            several += usize::from(both.len() > 1);
        });
        assert!(several > 1_000, "{several}");
    }

    #[test]
    fn merge_is_commutative_and_joins_causal_histories() {
        pairs(|one, other| {
            let both = Dotted.merge(one, other);
            assert_eq!(both, Dotted.merge(other, one));
            let mut entries = joined_context(one);
            for (server, count) in joined_context(other) {
                match entries.iter_mut().find(|(id, _)| *id == server) {
                    Some((_, known)) => *known = count.max(*known),
                    None => entries.push((server, count)),
                }
            }
            entries.sort_unstable();
            assert_eq!(joined_context(&both), entries);
            // A client that was shown a row has seen each of its values, and all that they had
            // seen.
            let seen = Dotted::context(&both);
            let dots = both.iter().flat_map(|clock| clock.past.iter().chain([&clock.dot]));
            assert!(dots.copied().all(|dot| covers(&seen, dot)));
        });
    }
}
