//! Dates as HTTP writes them (IMF-fixdate, RFC 9110, section 5.6.7): `Sat, 21 Nov 2026 09:08:22
//! GMT`.

use std::fmt::{self, Display, Formatter};
use std::io::Write;

/// Bytes of a date until the year 9999.
pub const DATE_BYTES: usize = 29;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_S: u64 = 86_400;

/// Seconds since 1970, shown as a date.
struct Date(u64);

impl Display for Date {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0 / DAY_S, self.0 % DAY_S);
        let (year, month, day) = date(days);
        write!(
            f,
            "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
            DAYS[(days % 7) as usize],
            MONTHS[month as usize - 1],
            rest / 3_600,
            rest / 60 % 60,
            rest % 60
        )
    }
}

/// Milliseconds since 1970 as text.
pub fn text(ms: u64) -> String {
    Date(ms / 1_000).to_string()
}

/// The present date of a connection's answers. It is formatted once a second: most answers copy it.
#[derive(Clone, Copy, Debug)]
pub struct DateCache {
    /// Seconds since 1970 that `text` shows.
    second: u64,
    text: [u8; DATE_BYTES],
}

impl DateCache {
    /// The date of this time, in milliseconds since 1970.
    pub fn new(unix_ms: u64) -> DateCache {
        let second = unix_ms / 1_000;
        let mut text = [b' '; DATE_BYTES];
        // What a clock of the year 10000 shows is cut at its end.
        let _ = write!(&mut text[..], "{}", Date(second));
        DateCache { second, text }
    }

    /// The date of this time, which is most often that of the time before.
    pub fn at(&mut self, unix_ms: u64) -> &[u8; DATE_BYTES] {
        if self.second != unix_ms / 1_000 {
            *self = DateCache::new(unix_ms);
        }
        &self.text
    }
}

impl Default for DateCache {
    fn default() -> DateCache {
        DateCache::new(0)
    }
}

/// Seconds since 1970 of such a text; nothing if it is none.
pub fn seconds(text: &str) -> Option<u64> {
    let (_, rest) = text.trim().split_once(", ")?;
    let parts: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts[..] else { return None };
    let number = |text: &str| text.parse::<u64>().ok();
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (day, year) = (number(day)?, number(year)?);
    let clock: Vec<u64> = time.split(':').map_while(number).collect();
    let [hours, minutes, seconds] = clock[..] else { return None };
    let fits = (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && hours < 24
        && minutes < 60
        && seconds < 61;
    fits.then(|| days(year, month, day) * DAY_S + hours * 3_600 + minutes * 60 + seconds)
}

/// Days since 1970, years beginning in March so that leap days stand last (Richards, 1998).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}
