//! Durations as people read them: one number and one unit.

/// Returns a duration in milliseconds as text: `0.4 s`, `12 s`, `5 min`, `3 h`, `4 d`. The next
/// larger unit is used from two of it on, so that the text is never off by more than half.
pub fn format_ms(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("0.{} s", ms / 100),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::format_ms;

    #[test]
    fn duration_text_uses_larger_unit_from_two_units_on() {
        let texts =
            [0, 450, 1_999, 119_999, 120_000, 7_199_999, 7_200_000, 172_800_000].map(format_ms);
        assert_eq!(texts, ["0.0 s", "0.4 s", "1 s", "119 s", "2 min", "119 min", "2 h", "2 d"]);
    }
}
