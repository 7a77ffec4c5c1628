//! Too little memory: a sentence and an exit code, and never a signal.
//!
//! What may be large is asked for in a way that can fail, and then an error says what it was for. Everything
//! else, which is small, is allocated as Rust does it: where that fails, the program aborts. So the allocator
//! here makes a note when it has nothing more to give, and whoever then aborts says a sentence and ends as
//! any command that failed. The C library allocates by itself, for threads, and aborts likewise: so one also
//! looks whether there is any memory left. An abort for another reason is a fault of ours and stays one. The
//! way through the allocator costs nothing but a comparison.

#![expect(unsafe_code, reason = "is the allocator, and handles a signal")]

use crate::exit::FAILED;
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The allocator of the system, which remembers that it had nothing more to give.
struct Noting;

#[global_allocator]
static ALLOCATOR: Noting = Noting;

/// Whether an allocation has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// The exit code of a command without memory.
static CODE: AtomicU8 = AtomicU8::new(FAILED);

#[cfg(unix)]
const MESSAGE: &[u8] = b"dahl: not enough memory: use a smaller --batch, --limit or --workers, smaller files, or end other programs\n";

/// What the standard library says when there is no memory for a part of a thread that is being started.
const NO_STACK: &str = "failed to allocate an alternative stack";

#[cold]
fn note() {
    HAS_FAILED.store(true, Ordering::Relaxed);
}

#[inline]
fn noted(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        note();
    }
    pointer
}

// SAFETY: every call is handed on to the allocator of the system as it is, and so is what that returns.
unsafe impl GlobalAlloc for Noting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises of the layout what the system asks for; so below.
        noted(unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        noted(unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above; the pointer came from the system's allocator.
        noted(unsafe { System.realloc(pointer, layout, size) })
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: see above; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// From now on, too little memory ends the command with a sentence.
pub fn watch() {
    #[cfg(unix)]
    // SAFETY: `sigaction` is a plain structure for which all zeros is valid, and outlives the call, which
    // copies it. The handler looks at atomics and calls only what may be called at any moment
    // (signal-safety(7)). It stays in place, because several threads may abort at once; where it returns,
    // `abort` ends the program as always.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = aborted as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGABRT, &action, std::ptr::null_mut());
    }
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|text| text.contains(NO_STACK)) {
            end();
        }
        // Whatever aborts after a panic does so because of it.
        HAS_FAILED.store(false, Ordering::Relaxed);
        before(panic);
    }));
}

/// From now on, too little memory ends the command with this exit code.
pub fn exit_with(code: u8) {
    CODE.store(code, Ordering::Relaxed);
}

#[cfg(unix)]
extern "C" fn aborted(_: libc::c_int) {
    if HAS_FAILED.load(Ordering::Relaxed) || is_short() {
        end();
    }
}

/// Whether the system has no more memory to give; what it gives is left to the end of the program.
#[cfg(unix)]
fn is_short() -> bool {
    const N_BYTES: usize = 1 << 20;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: it asks for new memory, which nobody uses, and may be called in a handler.
    unsafe { libc::mmap(std::ptr::null_mut(), N_BYTES, access, kind, -1, 0) == libc::MAP_FAILED }
}

/// Says the sentence and ends the program, without asking for anything.
#[cfg(unix)]
fn end() -> ! {
    // SAFETY: the message is there for the whole program; both functions may be called in a handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(CODE.load(Ordering::Relaxed).into())
    }
}

#[cfg(not(unix))]
fn end() -> ! {
    std::process::exit(CODE.load(Ordering::Relaxed).into())
}
