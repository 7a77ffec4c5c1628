//! Elementwise work, which may be in place: input and output are never slices at the same time.

#![expect(unsafe_code, reason = "reads and writes memory that may be shared by an input and an output")]

use super::call::Call;
use super::spec::ArgSpec;
use super::view::for_each_index;
use crate::shape::Element;

impl<'a> Call<'a> {
    /// One end of elementwise work: an argument that is checked to have the region of output 0 to itself.
    fn elementwise<T: Element>(&self, arg: usize) -> (*mut T, &'a ArgSpec) {
        let (_, out) = self.parts::<T>(self.spec().n_inputs);
        let (pointer, spec) = self.parts::<T>(arg);
        let has_region = spec.region.rank() == out.region.rank() && spec.region.contains(&out.region);
        assert!(
            out.region.is_empty() || has_region,
            "argument {arg} is given for {}, not for the region {} of the output",
            spec.region,
            out.region
        );
        (pointer, spec)
    }

    /// Elementwise work: `out[i] = f(a[i])` over the region of output 0, which input 0 holds too. Both may be
    /// the same memory.
    pub fn map<T: Element>(&self, f: impl Fn(T) -> T) {
        let _taken = self.take(0);
        let (from, a) = self.elementwise::<T>(0);
        let (to, out) = self.elementwise::<T>(self.spec().n_inputs);
        for_each_index(&out.region, |index| {
            let i = a.layout.offset(&a.tile, index);
            let o = out.layout.offset(&out.tile, index);
            // SAFETY: `elementwise` checked that the index is in the regions of both, which are valid by
            // `Call::new`, and the read ends before the write, so that shared memory is fine.
            unsafe { to.add(o).write(f(from.add(i).read())) }
        });
    }

    /// Elementwise work on two inputs: `out[i] = f(a[i], b[i])` over the region of output 0, which inputs 0
    /// and 1 hold too. The output may be the same memory as either.
    pub fn map2<T: Element>(&self, f: impl Fn(T, T) -> T) {
        let _taken = self.take(0);
        let (first, a) = self.elementwise::<T>(0);
        let (second, b) = self.elementwise::<T>(1);
        let (to, out) = self.elementwise::<T>(self.spec().n_inputs);
        for_each_index(&out.region, |index| {
            let i = a.layout.offset(&a.tile, index);
            let j = b.layout.offset(&b.tile, index);
            let o = out.layout.offset(&out.tile, index);
            // SAFETY: as in `map`: the index is in all three regions, and both reads end before the write.
            unsafe { to.add(o).write(f(first.add(i).read(), second.add(j).read())) }
        });
    }

    /// The memory of the region of argument `arg`, checked to be laid out as that of output 0.
    fn flat<T: Element>(&self, arg: usize) -> (*mut T, usize) {
        let (_, out) = self.parts::<T>(self.spec().n_inputs);
        let (pointer, spec) = self.parts::<T>(arg);
        // There is nothing to lie anywhere in empty regions, and they may come in any layout, with padding.
        if out.region.is_empty() && spec.region.is_empty() {
            return (pointer, 0);
        }
        assert!(
            spec.layout == out.layout
                && spec.region == out.region
                && spec.is_contiguous()
                && out.is_contiguous(),
            "argument {arg} must be contiguous and laid out like the output"
        );
        let range = spec.contiguous_range(spec.span());
        // SAFETY: `contiguous_range` lies inside the tile, which is valid by `Call::new`.
        (unsafe { pointer.add(range.start) }, range.len())
    }

    /// [`Call::map`] in pieces of `N` elements in memory order, for arguments that are contiguous and laid
    /// out alike. Padding lanes are mapped too; the last piece is filled up with zeros whose images are
    /// dropped.
    #[inline(always)]
    pub fn map_flat<T: Element, const N: usize>(&self, f: impl Fn([T; N]) -> [T; N]) {
        let _taken = self.take(0);
        let (from, len) = self.flat::<T>(0);
        let (to, _) = self.flat::<T>(self.spec().n_inputs);
        for at in (0..len - len % N).step_by(N) {
            // SAFETY: `flat` checked that both hold `len` elements and `at + N <= len`; the piece is read
            // before it is written, so that shared memory is fine.
            unsafe { to.add(at).cast::<[T; N]>().write(f(from.add(at).cast::<[T; N]>().read())) }
        }
        let rest = len % N;
        let mut last = [T::default(); N];
        // SAFETY: the `rest` elements from `len - rest` lie inside both; `last` is memory of its own.
        unsafe {
            from.add(len - rest).copy_to_nonoverlapping(last.as_mut_ptr(), rest);
            last = f(last);
            to.add(len - rest).copy_from_nonoverlapping(last.as_ptr(), rest);
        }
    }

    /// [`Call::map2`] in pieces of `N` elements in memory order, as [`Call::map_flat`].
    #[inline(always)]
    pub fn map2_flat<T: Element, const N: usize>(&self, f: impl Fn([T; N], [T; N]) -> [T; N]) {
        let _taken = self.take(0);
        let (first, len) = self.flat::<T>(0);
        let (second, _) = self.flat::<T>(1);
        let (to, _) = self.flat::<T>(self.spec().n_inputs);
        for at in (0..len - len % N).step_by(N) {
            // SAFETY: `flat` checked that all three hold `len` elements and `at + N <= len`; both pieces are
            // read before the result is written, so that shared memory is fine.
            unsafe {
                let (a, b) = (first.add(at).cast::<[T; N]>().read(), second.add(at).cast::<[T; N]>().read());
                to.add(at).cast::<[T; N]>().write(f(a, b));
            }
        }
        let rest = len % N;
        let (mut a, mut b) = ([T::default(); N], [T::default(); N]);
        // SAFETY: the `rest` elements from `len - rest` lie inside all three; `a` and `b` are memory of their
        // own.
        unsafe {
            first.add(len - rest).copy_to_nonoverlapping(a.as_mut_ptr(), rest);
            second.add(len - rest).copy_to_nonoverlapping(b.as_mut_ptr(), rest);
            a = f(a, b);
            to.add(len - rest).copy_from_nonoverlapping(a.as_ptr(), rest);
        }
    }
}
