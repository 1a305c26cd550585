//! Estimates are within the stated error, merge, and can be coarsened.

use crate::types::{PRECISION_MAX, PRECISION_MIN, Registers};

fn counted(precision: u8, values: std::ops::Range<u64>) -> Registers {
    let mut registers = Registers::new(precision).expect("a precision");
    values.for_each(|value| registers.add(&value.to_le_bytes()));
    registers
}

#[test]
fn hll_estimate_is_within_stated_error() {
    for precision in PRECISION_MIN..=PRECISION_MAX {
        let error = 1.04 / f64::from(1_u32 << precision).sqrt();
        let mut squares = 0.0;
        let trials = 20;
        for trial in 0..trials {
            let count = 20_000 + 1_000 * trial;
            let from = trial << 32;
            let estimate = counted(precision, from..from + count).estimate() as f64;
            squares += (estimate / count as f64 - 1.0).powi(2);
        }
        let found = (squares / trials as f64).sqrt();
        assert!(found < 1.5 * error, "{precision}: {found} instead of {error}");
    }
}

#[test]
fn hll_estimate_is_near_exact_for_few_values() {
    for count in [0, 1, 2, 10, 100] {
        assert!(counted(14, 0..count).estimate().abs_diff(count) <= count / 50);
        assert_eq!(counted(16, 0..count).estimate(), count);
    }
    let mut merged = counted(14, 0..100);
    merged.merge(&counted(14, 50..100));
    assert_eq!(merged, counted(14, 0..100), "the same values count once");
}

#[test]
fn hll_merge_equals_union_across_precisions() {
    let (one, other) = (counted(12, 0..3_000), counted(12, 2_000..6_000));
    let mut both = one.clone();
    both.merge(&other);
    assert_eq!(both, counted(12, 0..6_000));
    for coarse in PRECISION_MIN..12 {
        let less = counted(coarse, 2_000..6_000);
        let (mut left, mut right) = (one.clone(), less.clone());
        left.merge(&less);
        right.merge(&one);
        assert_eq!(left, counted(coarse, 0..6_000), "{coarse}");
        assert_eq!(right, left);
    }
}

#[test]
fn hll_precision_outside_4_to_16_is_rejected() {
    assert_eq!(Registers::new(3), None);
    assert_eq!(Registers::new(17), None);
    assert_eq!(Registers::new(4).map(|it| it.precision()), Some(4));
}

/// Registers full to the last rank, as no values would make them.
#[test]
fn hll_estimate_of_full_registers_saturates() {
    let mut registers = Registers::new(4).expect("a precision");
    registers.ranks.fill(Registers::rank_max(4));
    assert_eq!(registers.estimate(), u64::MAX);
}
