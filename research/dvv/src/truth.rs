//! The true history: for each replica the set of writes that it has received, and of those that no
//! write has replaced. It gets the same operations as the clocks under study; where the two differ,
//! the clocks are wrong.

use super::kinds::Write;

/// A set of a key's writes: all up to some number, and some above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    through: Write,
    /// Writes above `through`, ascending; `through + 1` is not among them.
    above: Vec<Write>,
}

/// True state of a key at a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Writes that it has received.
    pub seen: Writes,
    /// Received writes that no write has replaced, ascending.
    pub alive: Vec<Write>,
}

impl Writes {
    /// Returns true if the set contains a write.
    pub fn contains(&self, write: Write) -> bool {
        write <= self.through || self.above.binary_search(&write).is_ok()
    }

    /// Adds a write.
    pub fn add(&mut self, write: Write) {
        if let Err(at) = self.above.binary_search(&write)
            && write > self.through
        {
            self.above.insert(at, write);
            self.compact();
        }
    }

    /// Adds all writes of another set.
    pub fn union(&mut self, other: &Writes) {
        self.through = self.through.max(other.through);
        self.above.extend_from_slice(&other.above);
        self.above.sort_unstable();
        self.above.dedup();
        self.compact();
    }

    fn compact(&mut self) {
        let mut absorbed = 0;
        for write in &self.above {
            if *write > self.through + 1 {
                break;
            }
            self.through = self.through.max(*write);
            absorbed += 1;
        }
        self.above.drain(..absorbed);
    }
}

impl Truth {
    /// Adds a write whose client had seen `context`. A late write, whose replacement is known
    /// already, changes nothing.
    pub fn write(&self, context: &Writes, write: Write) -> Truth {
        let mut seen = context.clone();
        seen.add(write);
        self.merge(&Truth { seen, alive: vec![write] })
    }

    /// Merges the states of two replicas: a write is alive if it is alive in both, or unknown to
    /// one.
    pub fn merge(&self, other: &Truth) -> Truth {
        let mut seen = self.seen.clone();
        seen.union(&other.seen);
        let is_kept = |state: &Truth, write: &Write| {
            state.alive.binary_search(write).is_ok() || !state.seen.contains(*write)
        };
        let ours = self.alive.iter().filter(|write| is_kept(other, write));
        let theirs = other.alive.iter().filter(|write| is_kept(self, write));
        let mut alive: Vec<_> = ours.chain(theirs).copied().collect();
        alive.sort_unstable();
        alive.dedup();
        Truth { seen, alive }
    }
}
