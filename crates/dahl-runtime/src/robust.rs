//! Numbers about numbers that a few wild ones do not change: medians and what is made of them. Times of tasks
//! and steps are summed up by these, wherever they come from.

/// What a median distance to the median is multiplied with to be the standard deviation of a normal
/// distribution.
pub const DISTANCE_TO_DEVIATION: f64 = 1.4826;

/// The value in the middle (the mean of the two in the middle), or 0 of nothing.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `at` of all values lies, between neighbours in proportion; 0 of nothing.
pub fn quantile(values: &mut [f64], at: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    values.sort_unstable_by(f64::total_cmp);
    let place = at.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    // Also where both are infinite.
    if values[low] == values[high] {
        return values[low];
    }
    values[low] + (values[high] - values[low]) * place.fract()
}

/// What the standard deviation would be if the values were normally distributed, from the median distance to
/// the median.
pub fn deviation(values: &[f64], centre: f64) -> f64 {
    let mut distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    DISTANCE_TO_DEVIATION * median(&mut distances)
}

/// The median of values that count as much as their weights.
pub fn weighted_median(values: &mut [(f64, f64)]) -> f64 {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    for (value, weight) in values.iter() {
        sum += weight;
        if sum >= half {
            return *value;
        }
    }
    0.0
}

/// How many standard errors a mean of normally distributed values may be off, in one of the two directions
/// with probability `tail`, where the error was estimated with `freedom` degrees of freedom (Student's
/// distribution).
pub fn critical(tail: f64, freedom: f64) -> f64 {
    // With x = √freedom tan(angle), the density becomes a power of the cosine, on an interval that ends.
    let power = (freedom - 1.0).max(0.0);
    let area = |from: f64| {
        const STEPS: usize = 400;
        let width = (std::f64::consts::FRAC_PI_2 - from) / STEPS as f64;
        let middle = |i: usize| (from + (i as f64 + 0.5) * width).cos().max(0.0).powf(power);
        (0..STEPS).map(middle).sum::<f64>() * width
    };
    let wanted = 2.0 * area(0.0) * tail;
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if area(middle) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    freedom.sqrt() * low.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_spreads() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert_eq!(quantile(&mut [0.0, 10.0, 20.0], 0.25), 5.0);
        assert_eq!(quantile(&mut [1.0, 2.0], 7.0), 2.0);
        assert_eq!(median(&mut [f64::INFINITY, 1.0, f64::INFINITY]), f64::INFINITY);
        // One wild value changes neither.
        let mut values = [1.0, 2.0, 3.0, 4.0, 1e9];
        assert_eq!(median(&mut values), 3.0);
        assert!((deviation(&values, 3.0) - DISTANCE_TO_DEVIATION).abs() < 1e-12);
        assert_eq!(deviation(&[], 0.0), 0.0);
        assert_eq!(weighted_median(&mut [(5.0, 1.0), (1.0, 10.0), (9.0, 1.0)]), 1.0);
        assert_eq!(weighted_median(&mut []), 0.0);
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (tail, freedom, expected) in
            [(0.025, 5.0, 2.571), (0.025, 18.0, 2.101), (0.0005, 10.0, 4.587), (0.05, 1.0, 6.314)]
        {
            let found = critical(tail, freedom);
            assert!((found - expected).abs() < 0.01 * expected, "{tail} {freedom}: {found}");
        }
    }
}
