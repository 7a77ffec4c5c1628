//! Printing with aligned columns.

use std::fmt::{self, Display, Formatter, Write};

/// Arrays that would show more elements (or empty rows) than this are shortened to the first and last few
/// along every dimension, unless `{:#}` asks for all.
const MAX_SHOWN: usize = 1000;
/// Rows with more elements than this are shortened as well: a line should fit a wide screen.
const MAX_ROW: usize = 40;
const N_EDGE: usize = 3;

/// Prints an array in nested brackets, each column as wide as the widest element, with the precision of the
/// format (`{:.3}`). `show` prints one element.
pub(super) fn print<T: Copy, const R: usize>(
    f: &mut Formatter<'_>,
    shape: [usize; R],
    at: impl Fn([usize; R]) -> T,
    show: impl Fn(T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    let all = f.alternate();
    let n_shown = shape.iter().fold(1usize, |n, &extent| n.saturating_mul(extent.max(1)));
    let printer = Printer { shape, whole: all || n_shown <= MAX_SHOWN, whole_rows: all };
    let precision = f.precision();
    let mut shown = Vec::new();
    printer.collect(0, &mut [0; R], &mut |index| {
        let element = Shown(at(index), &show);
        shown.push(match precision {
            Some(precision) => format!("{element:.precision$}"),
            None => element.to_string(),
        });
    });
    let width = shown.iter().map(String::len).max().unwrap_or(0).max(f.width().unwrap_or(0));
    let mut shown = shown.into_iter();
    printer.print(f, 0, &mut |f| write!(f, "{:>width$}", shown.next().unwrap_or_default()))
}

/// An element and the way to print it.
struct Shown<'a, T, S>(T, &'a S);

impl<T: Copy, S: Fn(T, &mut Formatter<'_>) -> fmt::Result> Display for Shown<'_, T, S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.1(self.0, f)
    }
}

struct Printer<const R: usize> {
    shape: [usize; R],
    /// Whether nothing is left out because there are too many elements in all.
    whole: bool,
    /// Whether nothing is left out because a row is long.
    whole_rows: bool,
}

impl<const R: usize> Printer<R> {
    /// The indices of a dimension that are shown; `None` stands for a gap.
    fn indices(&self, dim: usize) -> impl Iterator<Item = Option<usize>> + use<R> {
        let n = self.shape[dim];
        let is_long = dim + 1 == R && n > MAX_ROW && !self.whole_rows;
        let gap = (!self.whole || is_long) && n > 2 * N_EDGE + 1;
        let head = if gap { N_EDGE } else { n };
        let tail = if gap { n - N_EDGE } else { n };
        (0..head).map(Some).chain(gap.then_some(None)).chain((tail..n).map(Some))
    }

    fn collect(&self, dim: usize, index: &mut [usize; R], f: &mut impl FnMut([usize; R])) {
        if dim == R {
            return f(*index);
        }
        for at in self.indices(dim).flatten() {
            index[dim] = at;
            self.collect(dim + 1, index, f);
        }
    }

    fn print(
        &self,
        f: &mut Formatter<'_>,
        dim: usize,
        next: &mut impl FnMut(&mut Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        if dim == R {
            return next(f);
        }
        let is_row = dim + 1 == R;
        f.write_char('[')?;
        for (position, index) in self.indices(dim).enumerate() {
            if position > 0 {
                match is_row {
                    true => f.write_char(' ')?,
                    // Blocks are set apart by one empty line per dimension above the rows.
                    false => write!(f, "{}{:indent$}", "\n".repeat(R - dim - 1), "", indent = dim + 1)?,
                }
            }
            match index {
                Some(_) => self.print(f, dim + 1, next)?,
                None => f.write_char('…')?,
            }
        }
        f.write_char(']')
    }
}

#[cfg(test)]
mod tests {
    use super::super::Element;
    use super::*;

    struct Array<'a, T, const R: usize>([usize; R], &'a [T]);

    impl<T: Element, const R: usize> Array<'_, T, R> {
        fn at(&self, index: [usize; R]) -> T {
            self.1[(0..R).fold(0, |offset, dim| offset * self.0[dim] + index[dim])]
        }
    }

    impl<T: Element, const R: usize> Display for Array<'_, T, R> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            print(f, self.0, |index| self.at(index), |x, f| Display::fmt(&x, f))
        }
    }

    impl<T: Element, const R: usize> fmt::LowerExp for Array<'_, T, R> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            print(f, self.0, |index| self.at(index), |x, f| fmt::LowerExp::fmt(&x, f))
        }
    }

    #[test]
    fn columns_are_aligned_in_the_chosen_precision() {
        let values = [1.0, -22.5, 3.25, 0.0, 5.0, 6.0, 7.0, 8.0];
        assert_eq!(format!("{:.2}", Array([], &values[..1])), "1.00");
        assert_eq!(format!("{}", Array([3], &values[..3])), "[    1 -22.5  3.25]");
        assert_eq!(format!("{:.1}", Array([2, 2], &values[..4])), "[[  1.0 -22.5]\n [  3.2   0.0]]");
        assert_eq!(
            format!("{:.1}", Array([2, 2, 2], &values)),
            "[[[  1.0 -22.5]\n  [  3.2   0.0]]\n\n [[  5.0   6.0]\n  [  7.0   8.0]]]"
        );
        assert_eq!(format!("{:5.0}", Array([2], &values[2..4])), "[    3     0]");
        assert_eq!(format!("{:.1e}", Array([2, 1], &[1234.5f32, -0.01])), "[[  1.2e3]\n [-1.0e-2]]");
    }

    #[test]
    fn what_is_no_number_keeps_its_column() {
        let values = [f32::NAN, f32::INFINITY, 1.0, f32::NEG_INFINITY, -0.0, 12.0];
        assert_eq!(format!("{:.1}", Array([2, 3], &values)), "[[ NaN  inf  1.0]\n [-inf -0.0 12.0]]");
    }

    #[test]
    fn every_rank_and_type_has_its_form() {
        assert_eq!(format!("{}", Array([1, 1, 1, 1], &[7u32])), "[[[[7]]]]");
        assert_eq!(format!("{}", Array([2, 2], &[0u8, 1, 255, 3])), "[[  0   1]\n [255   3]]");
        assert_eq!(
            format!("{}", Array([2, 2, 1, 2], &[0u8, 1, 2, 3, 4, 5, 6, 70])),
            "[[[[ 0  1]]\n\n  [[ 2  3]]]\n\n\n [[[ 4  5]]\n\n  [[ 6 70]]]]"
        );
        assert_eq!(format!("{}", Array([], &[-1.5f64])), "-1.5");
    }

    #[test]
    fn empty_arrays_show_their_shape() {
        assert_eq!(format!("{}", Array::<f64, 1>([0], &[])), "[]");
        assert_eq!(format!("{}", Array::<f64, 2>([2, 0], &[])), "[[]\n []]");
        assert_eq!(format!("{}", Array::<f64, 2>([0, 2], &[])), "[]");
        assert_eq!(format!("{}", Array::<f64, 2>([100_000, 0], &[])).lines().count(), 7);
    }

    #[test]
    fn long_arrays_are_shortened() {
        let values: Vec<f64> = (0..2000).map(f64::from).collect();
        assert_eq!(format!("{}", Array([2000], &values)), "[   0    1    2 … 1997 1998 1999]");
        assert_eq!(format!("{}", Array([50], &values)), "[ 0  1  2 … 47 48 49]");
        assert!(format!("{:#}", Array([2000], &values)).contains("1000"));
        assert_eq!(
            format!("{}", Array([1000, 2], &values)),
            "[[   0    1]\n [   2    3]\n [   4    5]\n …\n [1994 1995]\n [1996 1997]\n [1998 1999]]"
        );
        // Elements that are not shown do not widen the columns.
        let mut tall = vec![0.0; 2000];
        tall[1000] = -123_456.0;
        assert_eq!(format!("{}", Array([2000], &tall)), "[0 0 0 … 0 0 0]");
        let images = format!("{}", Array([2, 10, 10, 10], &values));
        assert!(images.lines().all(|line| line.chars().count() <= 40), "{images}");
    }
}
