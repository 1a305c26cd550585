//! Benchmark of the codec of numbers and strings.
//!
//! Three ways, each verified value by value: a loop over single bytes, the whole words of
//! `base::codec`, and its strings. `black_box` keeps the compiler from turning the loop into a
//! word, and from seeing that what is read was written just before.

use crate::median::median;
use base::codec::{Reader, Writer};
use load_generator::charts::short;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Round trips between two readings of the clock.
const STRIDE: u32 = 1 << 16;
/// Measurements of each implementation; the median counts.
const ROUNDS: usize = 5;
/// Length of the strings, bytes: that of a usual key.
const STRING_BYTES: usize = 20;
/// Million int32 round trips a second published for a naive loop, a second attempt, and whole
/// words, in OCaml on a machine of 2013: incubaid.wordpress.com, "Int32 serialization in OCaml".
pub const PUBLISHED: [f64; 3] = [16.0, 32.0, 139.0];

/// One implementation that is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodecResult {
    /// Description of the implementation.
    pub name: String,
    /// Round trips a second; the median of the rounds.
    pub per_second: f64,
}

/// Measures all implementations, each for about `budget`.
pub fn measure(budget: Duration) -> Result<Vec<CodecResult>, String> {
    let mut bytes = Vec::with_capacity(64);
    let mut text = [b'k'; STRING_BYTES];
    Ok(vec![
        measure_codec("int32, byte by byte", budget, |number| byte_u32(number, &mut bytes))?,
        measure_codec("int32, whole words", budget, |number| word_u32(number, &mut bytes))?,
        measure_codec("int64, whole words", budget, |number| word_u64(number, &mut bytes))?,
        measure_codec("string of 20 bytes", budget, |number| {
            word_string(number, &mut text, &mut bytes)
        })?,
    ])
}

/// Measures all implementations; returns the results as text or JSON.
pub fn run(budget: Duration, json: bool) -> Result<String, String> {
    let results = measure(budget)?;
    if json {
        let published = PUBLISHED.map(|millions| millions * 1e6);
        return Ok(format!(
            "{:#}\n",
            serde_json::json!({ "codec": results, "published": published })
        ));
    }
    let mut text = String::new();
    for result in &results {
        text.push_str(&format!(
            "{:<24}{:>8} round trips/s\n",
            result.name,
            short(result.per_second)
        ));
    }
    let [naive, second, words] = PUBLISHED;
    text.push_str(&format!(
        "published for int32 (OCaml, 2013): {naive}M a naive loop, {second}M a second attempt, \
         {words}M whole words\n"
    ));
    Ok(text)
}

/// Measures the rate of `round_trip`, which must return its input.
fn measure_codec(
    name: &str,
    budget: Duration,
    mut round_trip: impl FnMut(u32) -> Option<u32>,
) -> Result<CodecResult, String> {
    let mut rates = Vec::new();
    for round in 0..ROUNDS as u32 {
        let (begin, mut count, mut mismatches) = (Instant::now(), 0u64, 0u32);
        let mut number = round.wrapping_mul(0x9E37_79B9);
        loop {
            for _ in 0..STRIDE {
                number = number.wrapping_add(0x0101_0101);
                mismatches += u32::from(round_trip(black_box(number)) != Some(number));
            }
            count += u64::from(STRIDE);
            if mismatches > 0 {
                return Err(format!("{name}: what was read is not what was written"));
            }
            if begin.elapsed() >= budget / ROUNDS as u32 {
                break;
            }
        }
        rates.push(count as f64 / begin.elapsed().as_secs_f64());
    }
    Ok(CodecResult { name: name.into(), per_second: median(rates.into_iter()) })
}

/// Encodes and decodes a number byte by byte, as naive code does.
fn byte_u32(number: u32, bytes: &mut Vec<u8>) -> Option<u32> {
    bytes.clear();
    for index in 0..4 {
        bytes.push((number >> (8 * black_box(index))) as u8);
    }
    let bytes = black_box(&*bytes);
    let mut decoded = 0;
    for index in 0..4 {
        decoded |= u32::from(*bytes.get(black_box(index))?) << (8 * index);
    }
    Some(decoded)
}

fn word_u32(number: u32, bytes: &mut Vec<u8>) -> Option<u32> {
    bytes.clear();
    bytes.put_u32(number);
    Reader::new(black_box(bytes)).u32("number").ok()
}

fn word_u64(number: u32, bytes: &mut Vec<u8>) -> Option<u32> {
    bytes.clear();
    bytes.put_u64(u64::from(number) << 32 | u64::from(!number));
    let decoded = Reader::new(black_box(bytes)).u64("number").ok()?;
    ((decoded as u32) == !number).then_some((decoded >> 32) as u32)
}

/// Encodes and decodes a string that contains the number, so that a wrong string is detected.
fn word_string(number: u32, text: &mut [u8; STRING_BYTES], bytes: &mut Vec<u8>) -> Option<u32> {
    bytes.clear();
    *text.first_chunk_mut::<4>()? = number.to_le_bytes();
    bytes.put_string(black_box(&*text));
    let decoded = Reader::new(black_box(bytes)).string(STRING_BYTES, "text").ok()?;
    (decoded == &text[..])
        .then(|| decoded.first_chunk::<4>().map(|word| u32::from_le_bytes(*word)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_round_trip_and_optimized_bytes_match_the_naive_codec() {
        let (mut bytes, mut loops, mut text) = (Vec::new(), Vec::new(), [0; STRING_BYTES]);
        for number in [0, 1, 0x7F, 0x80, 0xFF00, 0x1234_5678, i32::MAX as u32, u32::MAX] {
            assert_eq!(byte_u32(number, &mut loops), Some(number));
            assert_eq!(word_u32(number, &mut bytes), Some(number));
            assert_eq!(bytes, loops);
            assert_eq!(word_u64(number, &mut bytes), Some(number));
            assert_eq!(word_string(number, &mut text, &mut bytes), Some(number));
            assert_eq!(bytes.len(), 4 + STRING_BYTES);
        }
    }

    #[test]
    fn codec_with_wrong_result_yields_error_instead_of_rate() {
        let budget = Duration::from_millis(1);
        assert!(measure_codec("fine", budget, Some).is_ok_and(|result| result.per_second > 0.0));
        let lossy = measure_codec("off", budget, |number| Some(number & !0x8000_0000));
        assert!(lossy.expect_err("found").contains("not what was written"));
        assert!(measure_codec("lost", budget, |_| None).is_err());
    }

    #[test]
    fn codec_report_lists_four_codecs_with_positive_rates() {
        let text = run(Duration::from_millis(5), true).expect("measured");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let results = json["codec"].as_array().expect("a list");
        assert_eq!(results.len(), 4);
        assert!(
            results
                .iter()
                .all(|result| result["per_second"].as_f64().is_some_and(|rate| rate > 0.0))
        );
    }
}
