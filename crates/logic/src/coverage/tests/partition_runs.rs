//! Partition runs as a set.

use crate::coverage::PartitionRuns;
use base::Partition;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn runs(numbers: &[u32]) -> PartitionRuns {
    numbers.iter().copied().map(Partition).collect()
}

#[test]
fn runs_are_written_as_ranges() {
    assert_eq!(runs(&[]).to_string(), "");
    assert_eq!(runs(&[7]).to_string(), "7");
    assert_eq!(runs(&[5, 3, 9, 4, 3, 0]).to_string(), "0, 3-5, 9");
    assert_eq!(runs(&[5, 3, 9, 4, 3, 0]).runs().len(), 3);
    assert_eq!(runs(&[u32::MAX, u32::MAX - 1]).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_hold_the_same_partitions_as_a_set(
        some in proptest::collection::vec(0..40_u32, 0..30),
        others in proptest::collection::vec(0..40_u32, 0..30),
    ) {
        let mut set: BTreeSet<_> = some.iter().copied().collect();
        let mut all = runs(&some);
        for part in [&some, &others] {
            set.extend(part);
            all.extend(&runs(part));
            prop_assert!(all.iter().map(|it| it.0).eq(set.iter().copied()));
            prop_assert!((0..42).all(|it| all.contains(Partition(it)) == set.contains(&it)));
            prop_assert_eq!((all.len(), all.is_empty()), (set.len(), set.is_empty()));
            let gaps = all.runs().windows(2).all(|two| two[0].last.0 + 1 < two[1].first.0);
            prop_assert!(gaps, "as few runs as possible: {}", all);
        }
    }
}
