//! Verbs: kinds of rights, and sets of them.

use crate::{Error, Reason, Result};
use std::fmt;

/// Kind of a right. The first five concern buckets, the others the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads values, and whatever tells a value.
    Read,
    /// Writes and deletes keys.
    Write,
    /// Lists keys and buckets, and counts keys.
    List,
    /// Calls functions.
    Call,
    /// Creates, alters, clears and drops buckets and types.
    Own,
    /// Reads status, metrics, members and the ring.
    Watch,
    /// Takes checkpoints, changes log levels, closes connections, compares replicas.
    Operate,
    /// Changes members, groups, their masters, the ring, and the groups of buckets.
    Place,
    /// Changes users, roles and tokens, and reads what exposes them.
    Secure,
}

impl Verb {
    /// All verbs, in the order of their bits.
    pub const ALL: [Verb; 9] = [
        Verb::Read,
        Verb::Write,
        Verb::List,
        Verb::Call,
        Verb::Own,
        Verb::Watch,
        Verb::Operate,
        Verb::Place,
        Verb::Secure,
    ];

    /// Returns the name of the verb at every front-end.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::List => "list",
            Verb::Call => "call",
            Verb::Own => "own",
            Verb::Watch => "watch",
            Verb::Operate => "operate",
            Verb::Place => "place",
            Verb::Secure => "secure",
        }
    }

    /// Parses that name.
    pub fn parse(name: &str) -> Result<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == name).ok_or_else(|| {
            let names = Verb::ALL.map(Verb::name).join(", ");
            Error::new(Reason::Malformed, format!("a verb must be one of {names}"))
        })
    }

    /// Returns true if the verb concerns the cluster, not buckets.
    pub fn is_of_cluster(self) -> bool {
        match self {
            Verb::Read | Verb::Write | Verb::List | Verb::Call | Verb::Own => false,
            Verb::Watch | Verb::Operate | Verb::Place | Verb::Secure => true,
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Set of verbs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// The empty set.
    pub const NONE: Verbs = Verbs(0);

    /// Returns the set of these verbs.
    pub fn of(verbs: &[Verb]) -> Verbs {
        Verbs(verbs.iter().fold(0, |bits, verb| bits | verb.bit()))
    }

    /// Returns true if the verb is in the set.
    #[inline]
    pub fn contains(self, verb: Verb) -> bool {
        self.0 & verb.bit() != 0
    }

    /// Returns the verbs that are in this set or in the other.
    pub fn union(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }

    /// Returns true if no verb is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the verbs of the set, in the order of [`Verb::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.contains(*verb))
    }

    /// Returns the set as bits: bit 0 is the first verb of [`Verb::ALL`].
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Returns the set of these bits. `None`: a bit is of no verb.
    pub fn from_bits(bits: u16) -> Option<Verbs> {
        (bits >> Verb::ALL.len() == 0).then_some(Verbs(bits))
    }
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Verb::name).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verbs({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_round_trip_as_names_and_bits() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.name()), Ok(verb));
            let set = Verbs::of(&[verb]);
            assert_eq!(Verbs::from_bits(set.bits()), Some(set));
            assert_eq!(set.iter().collect::<Vec<_>>(), [verb]);
        }
        assert!(Verb::parse("Read").is_err() && Verb::parse("").is_err());
        let all = Verbs::of(&Verb::ALL);
        assert_eq!((all.bits(), all.iter().count()), (0b1_1111_1111, 9));
        assert_eq!(Verbs::from_bits(1 << 9), None, "a verb of a later version");
        let some = Verbs::of(&[Verb::Write, Verb::Read]);
        assert_eq!(some.to_string(), "read,write");
        assert!(some.contains(Verb::Read) && !some.contains(Verb::List) && !some.is_empty());
        assert_eq!(some.union(Verbs::of(&[Verb::List])).to_string(), "read,write,list");
    }
}
