//! Labels into lanes. An array of rank 1 lies in lanes as it does row by row, apart from the padding, which
//! is left alone; and a gather of a few bytes gains nothing from vectors.

use crate::load::checked;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn load_labels(call: &Call<'_>) -> Result<()> {
    let (labels, index) = (call.input::<u8>(0), call.input::<u32>(1));
    let mut label = call.output::<u8>(0);
    let entries = labels.region().range(0);
    let data = labels.contiguous();
    for (n, (to, &from)) in label.contiguous().iter_mut().zip(index.contiguous()).enumerate() {
        *to = data[checked(from, index.region().lo()[0] + n, &entries)? - entries.start];
    }
    Ok(())
}
