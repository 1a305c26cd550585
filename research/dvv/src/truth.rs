//! The true history: for each replica the set of writes that it has received, and of those that no
//! write has replaced. It gets the same operations as the clocks under study; where the two differ,
//! the clocks are wrong.

use super::kinds::Write;

/// A set of a key's writes: all up to some number, and some above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    upto: Write,
    /// Writes above `upto`, ascending; `upto + 1` is not among them.
    beyond: Vec<Write>,
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
        write <= self.upto || self.beyond.binary_search(&write).is_ok()
    }

    /// Adds a write.
    pub fn add(&mut self, write: Write) {
        if let Err(at) = self.beyond.binary_search(&write)
            && write > self.upto
        {
            self.beyond.insert(at, write);
            self.close();
        }
    }

    /// Adds all writes of another set.
    pub fn union(&mut self, other: &Writes) {
        self.upto = self.upto.max(other.upto);
        self.beyond.extend_from_slice(&other.beyond);
        self.beyond.sort_unstable();
        self.beyond.dedup();
        self.close();
    }

    fn close(&mut self) {
        let mut below = 0;
        for write in &self.beyond {
            if *write > self.upto + 1 {
                break;
            }
            self.upto = self.upto.max(*write);
            below += 1;
        }
        self.beyond.drain(..below);
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
        let stays = |beside: &Truth, write: &Write| {
            beside.alive.binary_search(write).is_ok() || !beside.seen.contains(*write)
        };
        let ours = self.alive.iter().filter(|write| stays(other, write));
        let theirs = other.alive.iter().filter(|write| stays(self, write));
        let mut alive: Vec<_> = ours.chain(theirs).copied().collect();
        alive.sort_unstable();
        alive.dedup();
        Truth { seen, alive }
    }
}
