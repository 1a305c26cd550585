//! Sizes, times and switches as people write them, and as we show them.

const SIZES: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const TIMES: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// A size in bytes: `65536`, `64KiB`, `512 MiB`, `1GiB`.
pub fn size(text: &str) -> Result<u64, String> {
    with_unit(text, &SIZES, "bytes, or a number with KiB, MiB, GiB or TiB")
}

/// A time in milliseconds: `1500`, `1500ms`, `30s`, `5m`, `1h`.
pub fn time_ms(text: &str) -> Result<u64, String> {
    with_unit(text, &TIMES, "milliseconds, or a number with ms, s, m or h")
}

/// `true` or `false`, `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err("on or off is wanted".into()),
    }
}

/// A whole number between two others, both allowed.
pub fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let wanted = || format!("a number from {min} to {max} is wanted");
    let number = text.parse().map_err(|_| wanted())?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(wanted()) }
}

/// A size with the largest unit that leaves about one to three digits before the point.
pub fn show_size(bytes: u64) -> String {
    for (unit, factor) in SIZES {
        if bytes >= factor {
            let whole = bytes as f64 / factor as f64;
            let digits = if bytes.is_multiple_of(factor) { 0 } else { 1 };
            return format!("{whole:.digits$} {unit}");
        }
    }
    format!("{bytes} B")
}

/// A whole number in groups of three digits.
pub fn show_count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn with_unit(text: &str, units: &[(&str, u64)], wanted: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor = if unit.is_empty() {
        Some(1)
    } else {
        units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor)
    };
    factor
        .and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor))
        .ok_or_else(|| format!("{wanted} is wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_with_and_without_units() {
        assert_eq!(size("65536"), Ok(65_536));
        assert_eq!(size("64 MiB"), Ok(64 << 20));
        assert_eq!(size("1gib"), Ok(1 << 30));
        assert_eq!(time_ms("1500"), Ok(1_500));
        assert_eq!(time_ms("30s"), Ok(30_000));
        for bad in ["", "MiB", "-1", "1.5GiB", "64MB", "99999999999999999999", "9999999999TiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!(show_size(0), "0 B");
        assert_eq!(show_size(64 << 20), "64 MiB");
        assert_eq!(show_size((1 << 30) + (1 << 29)), "1.5 GiB");
        let counts = [0, 999, 1_000, 1_234_567].map(show_count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
    }
}
