//! What the borrow checker accepts and refuses, each as a program that is compiled with the documentation.
//!
//! Submission takes inputs by `&` and outputs by `&mut`; guards, parts and arenas borrow like slices do.
//! Tasks themselves hold no borrow: they may outlive every name that the program had for their data.
//!
//! All programs share this beginning:
//!
//! ```
//! use dahl_runtime::array::{Array, Dtype, Owned, Params, submit};
//! use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
//! use dahl_runtime::{Result, Runtime, machine::Machine};
//!
//! static ADD: Codelet = Codelet::new("add", "a[i] b[i] -> c[i]", 1.0, &[
//!     Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, add),
//! ]);
//!
//! fn add(call: &Call<'_>) -> Result<()> {
//!     let (a, b, mut c) = (call.input::<f32>(0), call.input::<f32>(1), call.output::<f32>(0));
//!     c.region().range(0).for_each(|i| c.set([i], a.at([i]) + b.at([i])));
//!     Ok(())
//! }
//! ```
//!
//! # Accepted
//!
//! A task that reads the same array twice, and a chain of tasks that nobody waits for before the end:
//! ```
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! let (mut y, mut z) = (arena.array::<f32, 1>([8])?, arena.array::<f32, 1>([8])?);
//! submit(&ADD, "reference", &[&x, &x], &mut [&mut y], Params::default())?;
//! submit(&ADD, "reference", &[&x, &y], &mut [&mut z], Params::default())?;
//! assert_eq!(z.read()?[[7]], 3.0);
//! # Ok(())
//! # }
//! ```
//!
//! Several partitions in turn, also along different dimensions, and the parent afterwards, without a barrier:
//! ```
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! let mut y = arena.array::<f32, 1>([8])?;
//! for n in [2, 4, 8] {
//!     for (from, mut to) in x.split(0, n)?.zip(y.split_mut(0, n)?) {
//!         submit(&ADD, "reference", &[&from, &from], &mut [&mut to], Params::default())?;
//!     }
//! }
//! assert_eq!(y.read()?.as_slice(), Some(&[2.0f32; 8][..]));
//! # Ok(())
//! # }
//! ```
//!
//! A parent that is partitioned for reading stays readable, by tasks and by the program:
//! ```
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! let mut y = arena.array::<f32, 1>([8])?;
//! let halves: Vec<_> = x.split(0, 2)?.collect();
//! submit(&ADD, "reference", &[&x, &x], &mut [&mut y], Params::default())?;
//! assert_eq!((x.read()?[[0]], halves[1].read()?[[3]], y.read()?[[5]]), (1.0, 1.0, 2.0));
//! # Ok(())
//! # }
//! ```
//!
//! Names may go while their tasks are in flight, and so may the arena's content:
//! ```
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let mut sum: Owned<f32, 1> = runtime.owned([1000])?;
//! let mut batch = runtime.arena("batch");
//! for _ in 0..10 {
//!     let one = batch.filled([1000], 1.0f32)?;
//!     let mut next = batch.array::<f32, 1>([1000])?;
//!     submit(&ADD, "reference", &[&sum, &one], &mut [&mut next], Params::default())?;
//!     sum = next.to_owned()?;
//!     batch.reset()?;
//! }
//! assert_eq!(sum.read()?[[999]], 10.0);
//! # Ok(())
//! # }
//! ```
//!
//! Reshaping moves the name and shares the memory; tasks in flight do not matter:
//! ```
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.5f32)?;
//! let mut y = arena.array::<f32, 1>([8])?;
//! submit(&ADD, "reference", &[&x, &x], &mut [&mut y], Params::default())?;
//! let y: Array<'_, f32, 2> = y.into_reshaped([2, 4])?;
//! assert_eq!(format!("{:.1}", y.read()?), "[[3.0 3.0 3.0 3.0]\n [3.0 3.0 3.0 3.0]]");
//! # Ok(())
//! # }
//! ```
//!
//! Partitions of parts, tiles whose reads overlap, and a matrix seen transposed:
//! ```
#![doc = beginning!()]
//! # use dahl_runtime::array::TileSize;
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let mut x: Owned<f32, 2> = runtime.owned([6, 8])?;
//! for band in x.split_mut(0, 2)? {
//!     for mut tile in band.into_grid([TileSize::Size(2), TileSize::Count(3)])? {
//!         tile.write()?.fill(1.0);
//!     }
//! }
//! let windows: Vec<_> = x.grid([TileSize::Count(2), TileSize::Count(3)])?.with_halo([1, 1])?.collect();
//! assert_eq!((windows[5].shape(), x.read()?[[5, 7]]), ([4, 4], 1.0));
//! let turned = x.view().into_transposed();
//! assert_eq!((turned.shape(), x.shape()), ([8, 6], [6, 8]));
//! # Ok(())
//! # }
//! ```
//!
//! # Refused
//!
//! Using a parent while it is split for writing:
//! ```compile_fail,E0502
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let mut x = arena.filled([8], 1.0f32)?;
//! let mut halves: Vec<_> = x.split_mut(0, 2)?.collect();
//! x.read()?;
//! halves[0].write()?;
//! # Ok(())
//! # }
//! ```
//!
//! Resetting an arena while an array of it is alive:
//! ```compile_fail,E0502
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let mut arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! arena.reset()?;
//! x.read()?;
//! # Ok(())
//! # }
//! ```
//!
//! Using an array after it was reshaped:
//! ```compile_fail,E0382
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let x = arena.filled([2, 4], 1.0f32)?;
//! let flat = x.into_flat()?;
//! x.read()?;
//! # Ok(())
//! # }
//! ```
//!
//! An output that is also an input:
//! ```compile_fail,E0502
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let mut x = arena.filled([8], 1.0f32)?;
//! submit(&ADD, "reference", &[&x, &x], &mut [&mut x], Params::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! A guard that outlives its array:
//! ```compile_fail,E0505
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let x: Owned<f32, 1> = runtime.owned([8])?;
//! let guard = x.read()?;
//! drop(x);
//! println!("{guard}");
//! # Ok(())
//! # }
//! ```
//!
//! An array that outlives its arena:
//! ```compile_fail,E0597
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let x = {
//!     let arena = runtime.arena("work");
//!     arena.filled([8], 1.0f32)?
//! };
//! x.read()?;
//! # Ok(())
//! # }
//! ```
//!
//! A second name for the same memory:
//! ```compile_fail,E0599
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! let y = x.clone();
//! # Ok(())
//! # }
//! ```
//!
//! Submitting a write while the program reads:
//! ```compile_fail,E0502
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! let mut y = arena.filled([8], 1.0f32)?;
//! let guard = y.read()?;
//! submit(&ADD, "reference", &[&x, &x], &mut [&mut y], Params::default())?;
//! println!("{guard}");
//! # Ok(())
//! # }
//! ```
//!
//! And one more: writing through a part that was cut for reading:
//! ```compile_fail,E0277
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let x = arena.filled([8], 1.0f32)?;
//! let mut part = x.split(0, 2)?.next().unwrap();
//! submit(&ADD, "reference", &[&x, &x], &mut [&mut part], Params::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! Writing to a parent that is partitioned for reading:
//! ```compile_fail,E0502
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let mut x = arena.filled([8], 1.0f32)?;
//! let halves: Vec<_> = x.split(0, 2)?.collect();
//! x.write()?;
//! halves[0].read()?;
//! # Ok(())
//! # }
//! ```
//!
//! Two views for writing at the same time:
//! ```compile_fail,E0499
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let mut x = arena.filled([8], 1.0f32)?;
//! let (mut low, mut high) = (x.view_mut().into_region([0..5])?, x.view_mut().into_region([4..8])?);
//! submit(&ADD, "reference", &[&low, &low], &mut [&mut high], Params::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! A part of a part that outlives the whole:
//! ```compile_fail,E0597
#![doc = beginning!()]
//! # use dahl_runtime::array::TileSize;
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! let mut part = {
//!     let mut x: Owned<f32, 1> = runtime.owned([8])?;
//!     x.view_mut().into_grid([TileSize::Count(2)])?.next().unwrap()
//! };
//! part.write()?;
//! # Ok(())
//! # }
//! ```
//!
//! Parts for writing that overlap:
//! ```compile_fail,E0599
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let mut x = arena.filled([8], 1.0f32)?;
//! let parts = x.split_mut(0, 2)?.with_halo([1])?;
//! # Ok(())
//! # }
//! ```
//!
//! A slice of a guard that outlives it:
//! ```compile_fail,E0716
#![doc = beginning!()]
//! # fn main() -> Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(2))?;
//! # let arena = runtime.arena("work");
//! let mut x = arena.filled([8], 1.0f32)?;
//! let elements = x.read()?.as_slice().unwrap();
//! x.write()?.fill(2.0);
//! println!("{elements:?}");
//! # Ok(())
//! # }
//! ```
