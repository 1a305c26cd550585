//! Quorum sizes: the number of replicas that must answer, and the error if fewer did.

use crate::{Error, Reason};
use std::fmt;

/// Quorum size: a number of replicas, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quorum {
    /// One replica.
    One,
    /// More than half of the replicas.
    Quorum,
    /// All replicas.
    All,
    /// Exactly this number of replicas.
    Number(u8),
}

impl Quorum {
    /// Returns the quorum size among this number of replicas.
    pub fn size_for(self, replicas: u8) -> u8 {
        match self {
            Quorum::One => 1,
            Quorum::Quorum => replicas / 2 + 1,
            Quorum::All => replicas,
            Quorum::Number(number) => number,
        }
    }

    /// Parses `one`, `quorum`, `all` or a number.
    pub fn parse(text: &str) -> Option<Quorum> {
        Some(match text {
            "one" => Quorum::One,
            "quorum" => Quorum::Quorum,
            "all" => Quorum::All,
            number => Quorum::Number(number.parse().ok()?),
        })
    }
}

impl fmt::Display for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quorum::One => f.write_str("one"),
            Quorum::Quorum => f.write_str("quorum"),
            Quorum::All => f.write_str("all"),
            Quorum::Number(number) => number.fmt(f),
        }
    }
}

/// Quorum requirement that was not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Replicas that answer a read.
    R,
    /// Primaries among the replicas that answer a read.
    Pr,
    /// Replicas that take a write.
    W,
    /// Replicas that sync a write.
    Dw,
    /// Primaries among the replicas that take a write.
    Pw,
    /// Distinct nodes.
    NodeConfirms,
}

impl Share {
    /// All of them.
    pub const ALL: [Share; 6] =
        [Share::R, Share::Pr, Share::W, Share::Dw, Share::Pw, Share::NodeConfirms];

    /// Returns the name of the property that sets it.
    pub fn name(self) -> &'static str {
        ["r", "pr", "w", "dw", "pw", "node_confirms"][self as usize]
    }
}

/// Shortfall of a quorum: the beginning of the detail of `read_quorum_unmet` and
/// `write_quorum_unmet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shortfall {
    /// Requirement that was not met.
    pub share: Share,
    /// Number of replicas or nodes that met it.
    pub got: u8,
    /// Number required.
    pub needed: u8,
}

impl Shortfall {
    /// Returns the error `read_quorum_unmet`: nothing was written.
    pub fn read_error(self, remedy: &str) -> Error {
        Error::new(Reason::ReadQuorumUnmet, format!("{self}: {remedy}"))
    }

    /// Returns the error `write_quorum_unmet`: some replicas have the write, and it may spread.
    pub fn write_error(self, remedy: &str) -> Error {
        Error::new(Reason::WriteQuorumUnmet, format!("{self}: {remedy}"))
    }

    /// Parses the shortfall at the beginning of an error's detail. `None` for errors of other
    /// reasons.
    pub fn from_error(error: &Error) -> Option<Shortfall> {
        if !matches!(error.reason, Reason::ReadQuorumUnmet | Reason::WriteQuorumUnmet) {
            return None;
        }
        let text = std::str::from_utf8(&error.detail).ok()?;
        let (name, rest) = text.split_once(' ')?;
        let (got, rest) = rest.split_once('/')?;
        let (needed, _) = rest.split_once(':')?;
        let share = Share::ALL.into_iter().find(|share| share.name() == name)?;
        Some(Shortfall { share, got: got.parse().ok()?, needed: needed.parse().ok()? })
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.share.name(), self.got, self.needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_is_majority_and_text_round_trips() {
        let quorums = (1..=5).map(|replicas| Quorum::Quorum.size_for(replicas));
        assert_eq!(quorums.collect::<Vec<_>>(), [1, 2, 2, 3, 3]);
        assert_eq!(
            (Quorum::One.size_for(3), Quorum::All.size_for(3), Quorum::Number(2).size_for(3)),
            (1, 3, 2)
        );
        for quorum in [Quorum::One, Quorum::Quorum, Quorum::All, Quorum::Number(7)] {
            assert_eq!(Quorum::parse(&quorum.to_string()), Some(quorum));
        }
        for text in ["", "two", "256", "-1", "Quorum"] {
            assert_eq!(Quorum::parse(text), None, "{text}");
        }
    }

    #[test]
    fn shortfall_round_trips_through_error_detail() {
        for share in Share::ALL {
            let shortfall = Shortfall { share, got: 1, needed: 2 };
            let error = shortfall.write_error("start the other nodes: or ask for less");
            assert_eq!(Shortfall::from_error(&error), Some(shortfall), "{error}");
            let error = shortfall.read_error("repeat");
            assert_eq!(Shortfall::from_error(&error), Some(shortfall), "{error}");
        }
        for (reason, text) in [
            (Reason::NoQuorum, "r 1/2: x"),
            (Reason::ReadQuorumUnmet, "r 1/2"),
            (Reason::WriteQuorumUnmet, "q 1/2: x"),
        ] {
            assert_eq!(Shortfall::from_error(&Error::new(reason, text)), None, "{text}");
        }
    }
}
