//! Curves of any length in bounded memory.
//!
//! A series stays bounded while it is filled: neighbours are put together into their mean, lowest and
//! highest.

use super::json::{list, number, object, quoted};

/// Points that a series has at most.
pub const MAX_POINTS: usize = 2_000;

/// Several series over the same axis.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What is counted along, as `epoch`.
    pub x: String,
    /// The unit of the values, as `%`; empty if they have none.
    pub unit: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// Values over something that rises. Once there are more than [`MAX_POINTS`], neighbours are put together, as
/// often as is needed: a point is then a mean, with the lowest and the highest of its values.
#[derive(Clone, Debug, Default)]
pub struct Series {
    name: String,
    points: Vec<Point>,
    /// Values that belong into a point by now.
    n_per_point: usize,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    x: f64,
    sum: f64,
    low: f64,
    high: f64,
    /// Values that are finite, which the others count for.
    n: usize,
    n_all: usize,
}

impl Point {
    fn and(self, next: Point) -> Point {
        Point {
            x: next.x,
            sum: self.sum + next.sum,
            low: self.low.min(next.low),
            high: self.high.max(next.high),
            n: self.n + next.n,
            n_all: self.n_all + next.n_all,
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }
}

impl Series {
    /// A series without values.
    pub fn new(name: impl Into<String>) -> Self {
        Series { name: name.into(), points: Vec::new(), n_per_point: 1 }
    }

    /// A series of these values.
    pub fn of(name: impl Into<String>, values: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut series = Series::new(name);
        for (x, y) in values {
            series.push(x, y);
        }
        series
    }

    /// Adds a value. One that is not finite leaves a hole, where no other value is as near.
    pub fn push(&mut self, x: f64, y: f64) {
        let is_finite = y.is_finite();
        let (low, high) = if is_finite { (y, y) } else { (f64::INFINITY, f64::NEG_INFINITY) };
        let sum = if is_finite { y } else { 0.0 };
        let point = Point { x, sum, low, high, n: usize::from(is_finite), n_all: 1 };
        match self.points.last_mut() {
            Some(last) if last.n_all < self.n_per_point => *last = last.and(point),
            _ => self.points.push(point),
        }
        if self.points.len() > MAX_POINTS {
            self.points =
                self.points.chunks(2).map(|pair| pair[1..].iter().fold(pair[0], |a, &b| a.and(b))).collect();
            self.n_per_point = 2 * self.n_per_point.max(1);
        }
    }

    /// Number of values that were added.
    pub fn len(&self) -> usize {
        self.points.iter().map(|point| point.n_all).sum()
    }

    /// Whether no value was added.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    fn to_json(&self) -> String {
        let column = |value: fn(&Point) -> f64| list(self.points.iter().map(|point| number(value(point))));
        let mut fields =
            vec![("name", quoted(&self.name)), ("x", column(|p| p.x)), ("y", column(Point::mean))];
        if self.n_per_point > 1 {
            fields.extend([("low", column(|p| p.low)), ("high", column(|p| p.high))]);
            fields.push(("merged", self.n_per_point.to_string()));
        }
        object(&fields)
    }
}

impl Plot {
    pub(super) fn to_json(&self) -> String {
        object(&[
            ("title", quoted(&self.title)),
            ("x", quoted(&self.x)),
            ("unit", quoted(&self.unit)),
            ("series", list(self.series.iter().map(Series::to_json))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_series_is_as_it_was_given() {
        let series = Series::of("a", [(1.0, 0.5), (2.0, f64::NAN)]);
        assert_eq!(series.to_json(), r#"{"name":"a","x":[1,2],"y":[0.5,null]}"#);
        assert_eq!(Series::new("").to_json(), r#"{"name":"","x":[],"y":[]}"#);
    }

    #[test]
    fn a_long_series_keeps_its_mean_and_its_extremes() {
        for n in [MAX_POINTS, MAX_POINTS + 1, 2 * MAX_POINTS + 3, 1_234_567] {
            let value = |i: usize| if i == n / 3 { 1e9 } else { (i % 7) as f64 };
            let series = Series::of("a", (0..n).map(|i| (i as f64, value(i))));
            assert!(series.points.len() <= MAX_POINTS && series.points.len() >= MAX_POINTS / 2, "{n}");
            assert_eq!(series.len(), n);
            let sum: f64 = series.points.iter().map(|point| point.sum).sum();
            assert_eq!(sum, (0..n).map(value).sum::<f64>());
            assert!(series.points.iter().any(|point| point.high == 1e9));
            assert!(series.points.is_sorted_by(|a, b| a.x < b.x));
            assert_eq!(series.points.last().unwrap().x, (n - 1) as f64);
            // All but the last point stand for as many values.
            let (_, rest) = series.points.split_last().unwrap();
            assert!(rest.iter().all(|point| point.n_all == series.n_per_point), "{n}");
        }
    }

    #[test]
    fn values_that_are_not_finite_do_not_spoil_their_neighbours() {
        let series =
            Series::of("a", (0..=MAX_POINTS).map(|i| (i as f64, if i % 2 == 0 { f64::NAN } else { 3.0 })));
        let odd = series.points.iter().filter(|point| point.n > 0).all(|point| point.mean() == 3.0);
        assert!(odd && !series.to_json().contains("NaN") && !series.to_json().contains("inf"));
    }
}
