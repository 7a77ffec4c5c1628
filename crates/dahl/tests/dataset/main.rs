//! Data sets through the public interface: what is read, and that every fault is an error that tells the
//! reader what to do.

mod check;
mod cifar;
mod folder;
mod idx;
mod images;
mod open;
