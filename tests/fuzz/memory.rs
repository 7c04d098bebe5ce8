//! The heap, counted: how much an input made the program hold at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with a count of what is held and of the most that was.
pub(crate) struct Counted;

/// What is held now.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most that was held since [`measured`] began.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Runs `work`, and gives the most bytes that it held at once beyond what was held before.
///
/// All threads count, so nothing else may run that allocates.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = work();
    (result, MOST.load(Relaxed).saturating_sub(before))
}

/// Whether the heap may grow by so much. Without this bound one input could take the machine's memory
/// before anyone can say which.
fn admit(bytes: usize) -> bool {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    if held > REFUSED {
        HELD.fetch_sub(bytes, Relaxed);
        return false;
    }
    MOST.fetch_max(held, Relaxed);
    true
}

// SAFETY: every block comes from `System` with the layout that the caller gave, and goes back to it with the same; the
// counters beside it are atomic and allocate nothing. A null pointer is how an allocator says that it has no more.
#[expect(unsafe_code, reason = "an allocator cannot be written without; this one only counts")]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !admit(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !admit(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `System` with this `layout`, as all blocks of this allocator do.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves, both blocks may exist: count the new one before the old one goes.
        if !admit(size) {
            return std::ptr::null_mut();
        }
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `System` with this `layout`, and the caller promises that `size` fits.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// What no run of a target comes near: an allocation beyond it ends the process, and the input is there to be read.
const REFUSED: usize = 1 << 30;
