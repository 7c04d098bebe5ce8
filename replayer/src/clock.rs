//! The one room that reads clocks.
//!
//! Everything else takes time as an argument: nanoseconds since an epoch that a run chose, which is an instant of
//! the system's monotonic clock. All processes of one machine read the same monotonic clock, whatever their network
//! namespace, so instants that they exchange are comparable without any error. Between machines they are not.

use std::num::NonZeroU64;
use std::time::SystemTime;

use rustix::time::{ClockId, Timespec, clock_gettime};
use traces::unit::Nanos;

/// A monotonic clock that counts from an epoch.
///
/// ```
/// use replayer::clock::Clock;
/// let clock = Clock::since(Clock::MONOTONIC.now());
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    epoch: Nanos,
}

impl Clock {
    /// The monotonic clock as the system counts it: from an arbitrary instant that all processes of the machine share.
    pub const MONOTONIC: Self = Self { epoch: Nanos::ZERO };

    /// The clock that shows zero at `epoch`, an instant of [`Self::MONOTONIC`], and before it.
    #[must_use]
    pub const fn since(epoch: Nanos) -> Self {
        Self { epoch }
    }

    /// Its epoch, as an instant of [`Self::MONOTONIC`].
    #[must_use]
    pub const fn epoch(&self) -> Nanos {
        self.epoch
    }

    /// The time; zero before the epoch.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(monotonic().0.saturating_sub(self.epoch.0))
    }

    /// The time until `deadline`; zero when it has passed. Knows instants before the epoch too.
    #[must_use]
    pub fn until(&self, deadline: Nanos) -> Nanos {
        Nanos(self.epoch.0.saturating_add(deadline.0).saturating_sub(monotonic().0))
    }

    /// Sleeps until `deadline` and not less.
    pub fn sleep_until(&self, deadline: Nanos) {
        let instant = self.epoch.0.saturating_add(deadline.0);
        while monotonic().0 < instant {
            // Interrupted by a signal: sleep on.
            let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &timespec(Nanos(instant)));
        }
    }
}

/// The wall clock: nanoseconds since 1970, for names and for people, never for durations.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the module that reads clocks")]
pub fn wall() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Lets this thread's sleeps end when they should: by default the kernel may add 50 us to each to save power
/// (measured here: `clock_nanosleep` 55 us late at the median).
///
/// # Errors
/// What the system answers.
pub fn wake_on_time() -> std::io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// The identity of this boot of this machine: two processes that see the same one share the monotonic clock.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// A duration as the system takes it.
#[must_use]
pub fn timespec(duration: Nanos) -> Timespec {
    let field = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec { tv_sec: field(duration.0 / NANOS_PER_SECOND), tv_nsec: field(duration.0 % NANOS_PER_SECOND) }
}

fn monotonic() -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    let field = |value: i64| u64::try_from(value).unwrap_or(0);
    Nanos(field(tv_sec) * NANOS_PER_SECOND + field(tv_nsec))
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_zero_until_its_epoch() {
        let clock = Clock::since(Nanos(Clock::MONOTONIC.now().0 + 3_600_000_000_000));
        assert_eq!(clock.now(), Nanos::ZERO);
        assert!(clock.until(Nanos(5)).0 > 3_500_000_000_000);
    }

    #[test]
    fn no_sleep_ends_early() {
        let clock = Clock::since(Clock::MONOTONIC.now());
        clock.sleep_until(Nanos(2_000_000));
        assert!(clock.now() >= Nanos(2_000_000));
        assert_eq!(clock.until(Nanos(2_000_000)), Nanos::ZERO);
    }

    #[test]
    fn the_wall_clock_is_past_the_year_2020() {
        assert!(wall() > Nanos(1_577_836_800_000_000_000));
    }
}
