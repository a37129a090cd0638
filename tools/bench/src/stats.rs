//! The statistics that the experiments use.

/// The median of the samples: the middle one, or the mean of the two middle ones. `None` without
/// samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The smallest sample that at least `percent` of all samples do not exceed (nearest rank). `None`
/// without samples.
pub(crate) fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(samples);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The largest sample; `None` without samples.
pub(crate) fn maximum(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().reduce(f64::max)
}

/// The arithmetic mean; `None` without samples.
pub(crate) fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The geometric mean, for ratios. `None` without samples, or if one is not positive.
pub(crate) fn geometric_mean(samples: &[f64]) -> Option<f64> {
    let positive = !samples.is_empty() && samples.iter().all(|&sample| sample > 0.0);
    positive.then(|| {
        (samples.iter().map(|sample| sample.ln()).sum::<f64>() / samples.len() as f64).exp()
    })
}

/// The median of the quotients of two arms, round by round. So a slow moment of the machine affects
/// both sides alike.
pub(crate) fn median_of_ratios(numerators: &[f64], denominators: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(above, below)| above / below)
        .collect();
    median(&ratios)
}

/// The largest distance of a sample from the mean, as a fraction of the mean.
pub(crate) fn largest_deviation(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples)?;
    maximum(
        &samples
            .iter()
            .map(|sample| (sample / mean - 1.0).abs())
            .collect::<Vec<_>>(),
    )
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: Option<f64>, right: f64) -> bool {
        left.is_some_and(|left| (left - right).abs() < 1e-9)
    }

    #[test]
    fn the_median_is_the_middle_of_an_odd_number_and_between_the_middles_of_an_even_one() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 50.0), Some(50.0));
        assert_eq!(percentile(&samples, 99.0), Some(99.0));
        assert_eq!(percentile(&samples, 100.0), Some(100.0));
        assert_eq!(percentile(&samples, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!(close(geometric_mean(&[2.0, 0.5]), 1.0));
        assert!(close(geometric_mean(&[1.0, 4.0, 16.0]), 4.0));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        assert_eq!(
            median_of_ratios(&[2.0, 30.0, 4.0], &[1.0, 10.0, 4.0]),
            Some(2.0)
        );
    }

    #[test]
    fn the_largest_deviation_counts_both_sides() {
        assert!(close(largest_deviation(&[1.0, 1.0, 0.4, 1.6, 1.0]), 0.6));
        assert!(close(largest_deviation(&[3.0, 3.0]), 0.0));
    }

    #[test]
    fn statistics_without_samples_are_none() {
        assert_eq!(median(&[]), None);
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(maximum(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(median_of_ratios(&[], &[]), None);
        assert_eq!(largest_deviation(&[]), None);
    }
}
