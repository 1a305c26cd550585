//! Partition runs: a set of partitions as ranges without gaps, which is small in a message.

use base::Partition;
use std::fmt;

/// Partitions from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRun {
    /// First partition.
    pub first: Partition,
    /// Last partition; not before the first.
    pub last: Partition,
}

/// Set of partitions as the fewest runs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionRuns(Vec<PartitionRun>);

impl PartitionRuns {
    /// Returns the runs. Between two of them at least one partition is missing.
    pub fn runs(&self) -> &[PartitionRun] {
        &self.0
    }

    /// Returns the partitions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Partition> {
        self.0.iter().flat_map(|run| run.first.0..=run.last.0).map(Partition)
    }

    /// Returns true if a partition is in the set.
    pub fn contains(&self, partition: Partition) -> bool {
        let next = self.0.partition_point(|run| run.last < partition);
        self.0.get(next).is_some_and(|run| run.first <= partition)
    }

    /// Returns true if the set has no partition.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of partitions.
    pub fn len(&self) -> usize {
        self.0.iter().map(|run| (run.last.0 - run.first.0) as usize + 1).sum()
    }

    /// Adds the partitions of another set.
    pub(super) fn extend(&mut self, other: &PartitionRuns) {
        *self = self.iter().chain(other.iter()).collect();
    }
}

/// Collects partitions in any order, each any number of times.
impl FromIterator<Partition> for PartitionRuns {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> PartitionRuns {
        let mut sorted: Vec<_> = partitions.into_iter().collect();
        sorted.sort_unstable();
        let mut runs: Vec<PartitionRun> = Vec::new();
        for partition in sorted {
            match runs.last_mut() {
                Some(run) if partition.0 <= run.last.0.saturating_add(1) => run.last = partition,
                _ => runs.push(PartitionRun { first: partition, last: partition }),
            }
        }
        PartitionRuns(runs)
    }
}

/// Writes the runs as `3-5, 9`.
impl fmt::Display for PartitionRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, run) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            if run.first == run.last {
                write!(f, "{separator}{}", run.first)?;
            } else {
                write!(f, "{separator}{}-{}", run.first, run.last)?;
            }
        }
        Ok(())
    }
}
