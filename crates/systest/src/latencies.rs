//! Latencies of calls: their percentiles, and the distance of two samples.

use std::time::Duration;

/// Durations of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds the duration of a call.
    pub fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    /// Adds the durations of another sample.
    pub fn join(&mut self, other: Latencies) {
        self.0.extend(other.0);
    }

    /// Returns the number of calls.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the duration that this part of the calls, in parts per thousand, does not exceed;
    /// zero if there was no call.
    pub fn per_mille(&self, part: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * part / 1_000).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().unwrap_or_default()
    }

    /// Returns the milliseconds of [`Latencies::per_mille`].
    pub fn per_mille_ms(&self, part: usize) -> f64 {
        self.per_mille(part).as_secs_f64() * 1e3
    }

    /// Returns the largest difference, over all durations, of the parts of both samples that do not
    /// exceed it (Kolmogorov and Smirnov): 0 if both are alike, 1 if they do not overlap. NaN if a
    /// sample is empty.
    pub fn distance(&self, other: &Latencies) -> f64 {
        let [mut one, mut two] = [self.0.clone(), other.0.clone()];
        one.sort_unstable();
        two.sort_unstable();
        if one.is_empty() || two.is_empty() {
            return f64::NAN;
        }
        let part = |sorted: &[Duration], limit: Duration| {
            sorted.partition_point(|duration| *duration <= limit) as f64 / sorted.len() as f64
        };
        let limits = one.iter().chain(&two);
        limits
            .fold(0.0, |most: f64, limit| most.max((part(&one, *limit) - part(&two, *limit)).abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(milliseconds: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies(milliseconds.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_sample() {
        let sample = latencies((1..=100).rev());
        let ms = |part| sample.per_mille(part).as_millis();
        assert_eq!((ms(0), ms(500), ms(990), ms(1_000)), (1, 51, 100, 100));
        assert_eq!(Latencies::default().per_mille(990), Duration::ZERO);
        assert_eq!(latencies([7]).per_mille_ms(990), 7.0);
    }

    #[test]
    fn distance_is_0_for_equal_samples_and_1_for_disjoint_ones() {
        let low = latencies(1..=100);
        assert_eq!(low.distance(&latencies(1..=100)), 0.0);
        assert_eq!(low.distance(&latencies(101..=200)), 1.0);
        assert_eq!(latencies(101..=200).distance(&low), 1.0);
        let shifted = low.distance(&latencies(26..=125));
        assert!((shifted - 0.25).abs() < 1e-9, "{shifted}");
        assert!(low.distance(&Latencies::default()).is_nan());
        // Samples of different sizes with one distribution.
        assert_eq!(low.distance(&latencies((1..=100).chain(1..=100))), 0.0);
    }
}
