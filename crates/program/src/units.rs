//! Sizes, times and switches: parsing, and display.

const SIZES: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const TIMES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a size in bytes: `65536`, `64KiB`, `512 MiB`, `1GiB`.
pub fn size(text: &str) -> Result<u64, String> {
    parse_with_unit(text, &SIZES, "bytes, or a number with KiB, MiB, GiB or TiB")
}

/// Parses a time of a setting in milliseconds: `1500`, `1500ms`, `30s`, `5m`, `1h30m`, `1d`.
pub fn time_ms(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(ms) => Ok(ms),
        Err(_) => sum_of_units(text).ok_or_else(|| {
            "expected milliseconds, or numbers with ms, s, m, h or d (1h30m)".to_string()
        }),
    }
}

/// Parses a time of the command line in milliseconds, which must have a unit. A bare number means
/// seconds in Redis and etcd, so it would be misunderstood.
pub fn time_with_unit_ms(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with('-') {
        return Err("a time is not negative: expected 30s, 1h30m or 1d, say".into());
    }
    if text.trim().parse::<u64>().is_ok() {
        let number = text.trim();
        return Err(format!(
            "the unit is missing: {number}s is {number} seconds, {number}ms is {number} \
             milliseconds"
        ));
    }
    sum_of_units(text).ok_or_else(|| "expected a time such as 500ms, 30s, 5m, 1h30m or 1d".into())
}

/// Adds up numbers with units of time.
fn sum_of_units(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let (_, factor) = TIMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
        rest = after.trim_start();
    }
    Some(sum)
}

/// Parses a switch: `true` or `false`, `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err("on or off is wanted".into()),
    }
}

/// Parses a whole number from `min` to `max`, both inclusive.
pub fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let wanted = || format!("a number from {min} to {max} is wanted");
    let number = text.parse().map_err(|_| wanted())?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(wanted()) }
}

/// Formats a size with the largest unit that it reaches.
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

/// Formats a whole number in groups of three digits.
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

fn parse_with_unit(text: &str, units: &[(&str, u64)], wanted: &str) -> Result<u64, String> {
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
    fn sizes_and_times_parse_with_and_without_units() {
        assert_eq!(size("65536"), Ok(65_536));
        assert_eq!(size("64 MiB"), Ok(64 << 20));
        assert_eq!(size("1gib"), Ok(1 << 30));
        assert_eq!(time_ms("1500"), Ok(1_500));
        assert_eq!(time_ms("30s"), Ok(30_000));
        assert_eq!(time_ms("5 m"), Ok(300_000));
        for bad in ["", "MiB", "-1", "1.5GiB", "64MB", "99999999999999999999", "9999999999TiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn time_may_combine_several_units() {
        for read in [time_ms, time_with_unit_ms] {
            assert_eq!(read("1h30m"), Ok(5_400_000));
            assert_eq!(read("1d"), Ok(86_400_000));
            assert_eq!(read("1D 2h 3MS"), Ok(93_600_003));
            assert_eq!(read("0s"), Ok(0));
            let bad = ["", " ", "s", "1x", "1h30", "h1", "1.5h", "1h-1m", "1\u{e9}"];
            for bad in bad.into_iter().chain(["99999999999999d"]) {
                assert!(read(bad).is_err(), "{bad}");
            }
        }
    }

    #[test]
    fn time_flag_without_unit_is_refused() {
        let error = |text| time_with_unit_ms(text).expect_err("refused");
        for number in ["30", "0", " 7 "] {
            let error = error(number);
            let number = number.trim();
            assert!(
                error.contains(&format!("{number}s")) && error.contains(&format!("{number}ms"))
            );
        }
        assert!(error("-1").contains("not negative") && error("-1s").contains("not negative"));
        assert!(error("soon").contains("1h30m"));
    }

    #[test]
    fn sizes_and_counts_are_formatted_compactly() {
        assert_eq!(show_size(0), "0 B");
        assert_eq!(show_size(64 << 20), "64 MiB");
        assert_eq!(show_size((1 << 30) + (1 << 29)), "1.5 GiB");
        let counts = [0, 999, 1_000, 1_234_567].map(show_count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
    }
}
