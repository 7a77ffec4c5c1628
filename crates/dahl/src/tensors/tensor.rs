//! One tensor of a file: extents and elements, last dimension fastest.

use super::number::{Data, Dtype, Number};
use super::value::Value;
use crate::error::{Error, Result};
use std::fmt;

/// The most dimensions a tensor of a file may have; more mean that the file is damaged.
pub(super) const MAX_RANK: usize = 64;

/// A tensor as files hold it, of any rank and element type. Two are equal if type, extents and bits are.
#[derive(Clone)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    /// A tensor of these elements. Fails if there are not as many as the extents say.
    ///
    /// ```
    /// use dahl::tensors::Tensor;
    /// let tensor = Tensor::new(&[2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(tensor.get::<f32>().map(|values| values[5]), Some(6.0));
    /// assert!(tensor.get::<f64>().is_none());
    /// # Ok::<(), dahl::Error>(())
    /// ```
    pub fn new<T: Number>(shape: &[usize], values: Vec<T>) -> Result<Tensor> {
        Tensor::of(shape, T::wrap(values))
    }

    /// A tensor of `dtype` (f32 or f64), its elements rounded from `values`.
    pub fn from_f64(dtype: impl Into<Dtype>, shape: &[usize], values: &[f64]) -> Result<Tensor> {
        let dtype = dtype.into();
        let data = Data::round(dtype, values);
        let data =
            data.ok_or_else(|| Error::setting(format!("a tensor of {dtype} cannot be rounded from f64")))?;
        Tensor::of(shape, data)
    }

    pub(super) fn of(shape: &[usize], data: Data) -> Result<Tensor> {
        if n_elements(shape) != Some(data.len()) {
            let message = format!("{} values do not fit a tensor of shape {}", data.len(), Extents(shape));
            return Err(Error::setting(message));
        }
        Ok(Tensor { shape: shape.to_vec(), data })
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.data.dtype()
    }

    /// The extents, slowest dimension first. A scalar has none.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements (1 for a scalar).
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, last dimension fastest, if they are of type `T`.
    pub fn get<T: Number>(&self) -> Option<&[T]> {
        T::unwrap(&self.data)
    }

    /// All elements as `f64`. Fails at an integer that needs more than the 53 bits of an `f64`.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        let exact = |(i, value): (usize, Value)| {
            value.exact().ok_or_else(|| {
                Error::setting(format!("element {i} is {value}, which needs more than the 53 bits of an f64"))
            })
        };
        self.values().enumerate().map(exact).collect()
    }

    /// All elements, as numbers of any type.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Value> + '_ {
        (0..self.len()).map(|i| self.data.value(i))
    }

    /// All elements beside those of another tensor of as many, prepared for comparison: steps are counted in
    /// the coarser of the two types.
    pub fn pairs<'a>(&'a self, other: &'a Tensor) -> impl Iterator<Item = (Value, Value)> + 'a {
        self.values().zip(other.values()).map(|(a, b)| (a.graded(b), b.graded(a)))
    }

    /// The same elements with other extents. Fails if there are not as many.
    pub fn into_shape(self, shape: &[usize]) -> Result<Tensor> {
        Tensor::of(shape, self.data)
    }

    /// The elements of a tensor whose first dimension was the fastest one.
    pub(super) fn from_first_fastest(shape: &[usize], data: &Data) -> Result<Tensor> {
        let mut strides = Vec::with_capacity(shape.len());
        let mut stride = 1;
        for &extent in shape {
            strides.push(stride);
            stride *= extent;
        }
        let mut index = vec![0; shape.len()];
        let mut at = 0;
        let positions = (0..data.len()).map(|_| {
            let now = at;
            // The next index, last dimension fastest.
            for dim in (0..shape.len()).rev() {
                index[dim] += 1;
                at += strides[dim];
                if index[dim] < shape[dim] {
                    break;
                }
                at -= strides[dim] * shape[dim];
                index[dim] = 0;
            }
            now
        });
        Tensor::of(shape, data.gather(positions).map_err(Error::setting)?)
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype().bytes()
    }

    /// Hands the bytes of all elements to `take`, little endian, in pieces of at most 64 KiB.
    pub(super) fn encode<E>(
        &self,
        mut take: impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        const PIECE: usize = (1 << 16) / 8;
        let mut bytes = Vec::new();
        for start in (0..self.len()).step_by(PIECE) {
            bytes.clear();
            self.data.encode(start, PIECE.min(self.len() - start), &mut bytes);
            take(&bytes)?;
        }
        Ok(())
    }
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        let bytes = |tensor: &Tensor| {
            let mut all = Vec::with_capacity(tensor.bytes());
            tensor.data.encode(0, tensor.len(), &mut all);
            all
        };
        self.dtype() == other.dtype() && self.shape == other.shape && bytes(self) == bytes(other)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "{}{} ", self.dtype(), Extents(&self.shape))?;
        f.debug_list().entries(self.values().take(SHOWN).map(|value| value.to_string())).finish()?;
        f.write_str(if self.len() > SHOWN { " …" } else { "" })
    }
}

/// The number of elements that extents stand for, if it can be told.
pub(super) fn n_elements(shape: &[usize]) -> Option<usize> {
    // Nothing is in there however large the other extents are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))
}

/// Extents as they are shown.
pub(super) struct Extents<'a>(pub &'a [usize]);

impl fmt::Display for Extents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, extent) in self.0.iter().enumerate() {
            write!(f, "{}{extent}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_must_fill_the_extents() {
        assert!(Tensor::new(&[2, 2], vec![1u8; 3]).is_err());
        assert!(Tensor::new(&[], vec![1.5f64]).is_ok());
        assert!(Tensor::new::<i64>(&[usize::MAX, 7, 0], vec![]).is_ok());
        assert!(Tensor::new::<i64>(&[usize::MAX, 7], vec![]).is_err());
        assert!(Tensor::from_f64(Dtype::I32, &[1], &[1.0]).is_err());
        let single = Tensor::from_f64(dahl_runtime::array::Dtype::F32, &[1], &[0.1]).expect("rounded");
        assert_eq!(single.get::<f32>(), Some(&[0.1f32][..]));
    }

    #[test]
    fn conversion_is_exact_or_refused() {
        let tensor = |values: Vec<i64>| Tensor::new(&[values.len()], values).expect("fits");
        assert_eq!(tensor(vec![-3, 1 << 60]).to_f64().expect("exact"), [-3.0, (1u64 << 60) as f64]);
        let error = tensor(vec![0, (1 << 53) + 1]).to_f64().expect_err("one bit too many");
        assert!(error.to_string().starts_with("element 1 is 9007199254740993"), "{error}");
        assert_eq!(Tensor::new(&[2], vec![true, false]).and_then(|t| t.to_f64()).expect("exact"), [1.0, 0.0]);
    }

    #[test]
    fn equal_means_the_same_bits() {
        let tensor = |x: f32| Tensor::new(&[1], vec![x]).expect("fits");
        assert_eq!(tensor(f32::NAN), tensor(f32::NAN));
        assert_ne!(tensor(0.0), tensor(-0.0));
        assert_ne!(tensor(1.0), tensor(1.0).into_shape(&[1, 1]).expect("fits"));
    }

    #[test]
    fn the_first_dimension_can_be_the_fastest() {
        let data = Data::U8(vec![0, 3, 1, 4, 2, 5]);
        let tensor = Tensor::from_first_fastest(&[2, 3], &data).expect("fits");
        assert_eq!(tensor.get::<u8>(), Some(&[0, 1, 2, 3, 4, 5][..]));
        assert_eq!(tensor.shape(), [2, 3]);
        assert!(Tensor::from_first_fastest(&[], &Data::U8(vec![7])).is_ok());
        assert!(Tensor::from_first_fastest(&[3, 0], &Data::U8(vec![])).is_ok());
    }
}
