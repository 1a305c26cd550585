//! Checks of a setting's text that several settings share.

use super::units;
use crate::machine;

/// A store with less than this would write tables all day.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// The largest request must find room.
pub const BUFFER_BYTES_MIN: u64 = 64 << 20;

/// A part of the memory this process may use, within bounds: so that a small machine or container
/// is enough, too.
pub fn share(part: u64, least: u64, most: u64) -> u64 {
    machine::memory_bytes().map_or(most, |all| (all / part).clamp(least, most))
}

/// Less would close connections that are still being used.
pub fn idle(text: &str) -> Result<u64, String> {
    at_least(units::time_ms(text)?, 1_000, "1s")
}

/// A time of at most a minute.
pub fn time(text: &str, least: u64, words: &str) -> Result<u64, String> {
    let time = units::time_ms(text)?;
    if (least..=60_000).contains(&time) { Ok(time) } else { Err(words.into()) }
}

pub fn is_cluster(id: &str) -> bool {
    server::arakoon::bucket_of(id.as_bytes()).is_some()
}

/// An address to listen at. `localhost` is the one of version 4: what the system takes the name for
/// may be either, and a client that tries the other one would find nobody.
pub fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    let wrong = || "expected an address such as 127.0.0.1:7711 or localhost:7711".to_string();
    match text.strip_prefix("localhost:") {
        Some(port) => {
            let port: u16 = port.parse().map_err(|_| wrong())?;
            Ok((std::net::Ipv4Addr::LOCALHOST, port).into())
        }
        None => text.parse().map_err(|_| wrong()),
    }
}

/// Addresses with commas between, or none.
pub fn addresses(text: &str) -> Result<Vec<std::net::SocketAddr>, String> {
    let texts = text.split(',').map(str::trim).filter(|text| *text != "none");
    texts.map(address).collect()
}

pub fn maybe_address(text: &str) -> Result<Option<std::net::SocketAddr>, String> {
    if text == "none" { Ok(None) } else { address(text).map(Some) }
}

/// An address as others know it; none: the word that stands for it.
pub fn told(text: &str, word: &str) -> Result<Option<String>, String> {
    if text == word {
        return Ok(None);
    }
    base::cluster::check_address(text).map_err(|error| error.text())?;
    Ok(Some(text.into()))
}

/// Addresses with commas between; `none` is none.
pub fn places(text: &str) -> Result<Vec<String>, String> {
    let places = names(text);
    for place in &places {
        base::cluster::check_address(place).map_err(|error| error.text())?;
    }
    Ok(places)
}

pub fn not_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() { Err("a path is wanted".into()) } else { Ok(text) }
}

pub fn at_least(value: u64, min: u64, words: &str) -> Result<u64, String> {
    if value < min { Err(format!("at least {words} is wanted")) } else { Ok(value) }
}

/// Names with commas between; the word `none` stands for no name.
pub fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| *name != "none");
    names.map(String::from).collect()
}
