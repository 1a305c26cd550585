//! Date and time of day in UTC, from seconds since 1970, for names and lines that people read.

/// Length of a day in seconds; Unix time has no leap seconds.
const DAY_SECONDS: u64 = 86_400;

/// Date and time of day in UTC, in the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    /// Year.
    pub year: u64,
    /// Month, from 1.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
    /// Hour, 0 to 23.
    pub hour: u64,
    /// Minute.
    pub minute: u64,
    /// Second.
    pub second: u64,
}

impl UtcTime {
    /// Returns the time from a number of seconds since 1970.
    pub fn from_unix(seconds: u64) -> UtcTime {
        let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
        // Years count from March, so that a leap day is the last one (H. Hinnant, `civil_from_days`
        // of the "chrono-Compatible Low-Level Date Algorithms").
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
        let year_of_era = (day_of_era - leap_days) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        UtcTime {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

/// Returns a time in milliseconds since 1970 in the form of RFC 3339: `2026-02-28T23:59:59.123Z`.
pub fn rfc3339(unix_ms: u64) -> String {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_unix(unix_ms / 1_000);
    let ms = unix_ms % 1_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_date_matches_calendar_for_800_years() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let mut expected = (1970, 1, 1);
        for day in 0..800 * 365 {
            let time = UtcTime::from_unix(day * DAY_SECONDS + DAY_SECONDS - 1);
            assert_eq!((time.year, time.month, time.day), expected);
            assert_eq!((time.hour, time.minute, time.second), (23, 59, 59));
            let (year, month, day) = expected;
            let days = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (day < days, month < 12) {
                (true, _) => (year, month, day + 1),
                (false, true) => (year, month + 1, 1),
                (false, false) => (year + 1, 1, 1),
            };
        }
    }
}
