//! When something was measured or chosen.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970, so that what happened within one second is in order too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub u64);

impl Date {
    /// Before all others.
    pub const UNKNOWN: Date = Date(0);

    /// A date in seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Date {
        Date(seconds.saturating_mul(1_000_000_000))
    }

    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// A day later: clocks may be set back or differ between time zones, but not by more.
    pub(super) fn next_day(self) -> Date {
        Date(self.0.saturating_add(Date::of_seconds(86_400).0))
    }
}

impl From<SystemTime> for Date {
    fn from(time: SystemTime) -> Date {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Date(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}
