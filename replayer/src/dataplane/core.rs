//! Which core a thread runs on, and whether it may keep it busy.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores that this process may use.
pub(super) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Keeps this thread on the `number`-th of the cores that it may use.
///
/// # Errors
/// What the system answers.
pub(super) fn pin(number: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    if let Some(&core) = cores.get(number % cores.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core() {
        std::thread::spawn(|| {
            pin(7).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        })
        .join()
        .unwrap();
    }
}
