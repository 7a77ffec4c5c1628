//! Printing with aligned columns.

use std::fmt::{self, Display, Formatter, Write};

/// Arrays with more elements than this are shortened to the first and last few along every dimension, unless
/// `{:#}` asks for all.
const MAX_ELEMENTS: usize = 1000;
const N_EDGE: usize = 3;

/// Prints row-major elements in nested brackets, each column as wide as the widest element, with the precision
/// of the format (`{:.3}`).
pub(super) fn print<T: Display>(f: &mut Formatter<'_>, shape: &[usize], elements: &[T]) -> fmt::Result {
    let shortened = elements.len() > MAX_ELEMENTS && !f.alternate();
    let printer = Printer { shape, shortened, precision: f.precision() };
    let mut shown = Vec::new();
    printer.collect(0, 0, &mut |i| shown.push(printer.text(&elements[i])));
    let width = shown.iter().map(String::len).max().unwrap_or(0).max(f.width().unwrap_or(0));
    let mut shown = shown.into_iter();
    printer.print(f, 0, &mut |f| write!(f, "{:>width$}", shown.next().unwrap_or_default()))
}

struct Printer<'a> {
    shape: &'a [usize],
    shortened: bool,
    precision: Option<usize>,
}

impl Printer<'_> {
    fn text(&self, element: &impl Display) -> String {
        match self.precision {
            Some(precision) => format!("{element:.precision$}"),
            None => element.to_string(),
        }
    }

    /// The indices of a dimension that are shown; `None` stands for a gap.
    fn indices(&self, dim: usize) -> impl Iterator<Item = Option<usize>> {
        let n = self.shape[dim];
        let gap = self.shortened && n > 2 * N_EDGE + 1;
        let head = if gap { N_EDGE } else { n };
        let tail = if gap { n - N_EDGE } else { n };
        (0..head).map(Some).chain(gap.then_some(None)).chain((tail..n).map(Some))
    }

    fn collect(&self, dim: usize, offset: usize, f: &mut impl FnMut(usize)) {
        if dim == self.shape.len() {
            return f(offset);
        }
        for index in self.indices(dim).flatten() {
            self.collect(dim + 1, offset * self.shape[dim] + index, f);
        }
    }

    fn print(
        &self,
        f: &mut Formatter<'_>,
        dim: usize,
        next: &mut impl FnMut(&mut Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        if dim == self.shape.len() {
            return next(f);
        }
        let is_row = dim + 1 == self.shape.len();
        f.write_char('[')?;
        for (position, index) in self.indices(dim).enumerate() {
            if position > 0 {
                match is_row {
                    true => f.write_char(' ')?,
                    // Blocks are set apart by one empty line per dimension above the rows.
                    false => write!(
                        f,
                        "{}{:indent$}",
                        "\n".repeat(self.shape.len() - dim - 1),
                        "",
                        indent = dim + 1
                    )?,
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
    use super::*;

    struct Shown<'a>(&'a [usize], &'a [f64]);
    impl Display for Shown<'_> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            print(f, self.0, self.1)
        }
    }

    #[test]
    fn columns_are_aligned_in_the_chosen_precision() {
        let values = [1.0, -22.5, 3.25, 0.0, 5.0, 6.0, 7.0, 8.0];
        assert_eq!(format!("{:.2}", Shown(&[], &values[..1])), "1.00");
        assert_eq!(format!("{}", Shown(&[3], &values[..3])), "[    1 -22.5  3.25]");
        assert_eq!(format!("{:.1}", Shown(&[2, 2], &values[..4])), "[[  1.0 -22.5]\n [  3.2   0.0]]");
        assert_eq!(
            format!("{:.1}", Shown(&[2, 2, 2], &values)),
            "[[[  1.0 -22.5]\n  [  3.2   0.0]]\n\n [[  5.0   6.0]\n  [  7.0   8.0]]]"
        );
        assert_eq!(format!("{}", Shown(&[2, 0], &[])), "[[]\n []]");
    }

    #[test]
    fn long_arrays_are_shortened() {
        let values: Vec<f64> = (0..2000).map(f64::from).collect();
        assert_eq!(format!("{}", Shown(&[2000], &values)), "[   0    1    2 … 1997 1998 1999]");
        assert!(format!("{:#}", Shown(&[2000], &values)).contains("1000"));
    }
}
