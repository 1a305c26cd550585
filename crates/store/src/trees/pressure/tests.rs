//! Tests of the write pressure: the delay grows with the debt, up to a stated maximum.

use super::*;

const TABLE: u64 = 64 * MIB;

fn with_runs(unmerged_runs: usize, runs: usize) -> Pressure {
    Pressure { active_bytes_max: TABLE, unmerged_runs, runs, ..Pressure::default() }
}

fn with_active(active_bytes: u64) -> Pressure {
    Pressure { active_bytes, active_bytes_max: TABLE, ..Pressure::default() }
}

/// Checks that pressures of growing debt slow writers ever more, from not at all to the most.
fn check_grows(pressures: impl Iterator<Item = Pressure>) {
    let pauses: Vec<_> = pressures.map(|pressure| pressure.pause(MIB / 8)).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!(pauses.first(), Some(&Duration::ZERO));
    assert_eq!(pauses.last(), Some(&(PAUSE_PER_MIB_MAX / 8)));
    let distinct = pauses.chunk_by(|one, other| one == other).count();
    assert!(distinct > 20, "the delay grows in steps: {pauses:?}");
}

#[test]
fn write_delay_grows_with_each_kind_of_debt_and_reaches_the_stated_maximum() {
    check_grows((0..60).map(|unmerged| with_runs(unmerged, 0)));
    check_grows((0..130).map(|runs| with_runs(0, runs)));
    check_grows((0..=220).map(|part| with_active(TABLE * part / 100)));
}

#[test]
fn write_delay_is_zero_up_to_the_normal_debt_and_proportional_above() {
    let (from, to) = UNMERGED_RUNS_SLOW;
    assert_eq!(with_runs(from, RUNS_SLOW.0).slowdown_permille(), 0);
    assert_eq!(with_active(TABLE).slowdown_permille(), 0);
    let half = with_runs(from + (to - from) / 2, 0);
    assert_eq!(half.slowdown_permille(), PERMILLE / 2);
    assert_eq!(half.pause(MIB / 8), PAUSE_PER_MIB_MAX / 16);
    assert_eq!(half.pause(MIB / 16), PAUSE_PER_MIB_MAX / 32, "half the bytes, half the pause");
    assert_eq!(half.pause(0), Duration::ZERO);
    let most = with_runs(usize::MAX, usize::MAX);
    assert_eq!(most.slowdown_permille(), PERMILLE);
    assert!(!most.must_wait(), "merges that lag never stop a writer");
}

#[test]
fn pause_after_a_batch_is_bounded_and_bytes_between_pauses_fit_it() {
    for slowdown in 0..=48 {
        let pressure = with_runs(slowdown, 0);
        assert!(pressure.pause(u64::MAX) <= PAUSE_MAX);
        let bytes = pressure.bytes_per_pause(4 << 20);
        let pause = pressure.pause(bytes as u64);
        if bytes < 4 << 20 {
            let difference = PAUSE_MAX - pause;
            assert!(difference < Duration::from_micros(10), "{bytes} bytes for {pause:?}");
        }
        assert!(bytes >= 64 * 1024, "at {slowdown} runs only {bytes} bytes for a pause");
    }
    assert_eq!(with_runs(0, 0).bytes_per_pause(4 << 20), 4 << 20);
}

#[test]
fn writers_stop_only_for_memory_and_are_slowed_the_most_before() {
    let almost = with_active(ACTIVE_TABLES_MAX * TABLE - MIB);
    assert!(!almost.must_wait() && almost.slowdown_permille() > PERMILLE * 95 / 100);
    assert!(with_active(ACTIVE_TABLES_MAX * TABLE).must_wait());
    let sealed = Pressure { sealed_tables: SEALED_TABLES_MAX, ..with_runs(0, 0) };
    assert!(sealed.must_wait());
}
