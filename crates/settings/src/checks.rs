//! Checks of a setting's text that several settings share.

use crate::machine;
use program::units;

/// Minimum memory of the store in bytes. With less it would write tables all the time.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Minimum memory for buffers in bytes. The largest request must fit.
pub const BUFFER_BYTES_MIN: u64 = 64 << 20;

/// Returns a part of the memory that this process may use, within bounds, so that a small machine
/// or container suffices, too.
pub fn memory_share(divisor: u64, min: u64, max: u64) -> u64 {
    machine::memory_bytes().map_or(max, |memory| (memory / divisor).clamp(min, max))
}

/// Parses an idle time in milliseconds. A shorter one than a second would close connections in use.
pub fn idle_ms(text: &str) -> Result<u64, String> {
    at_least(units::time_ms(text)?, 1_000, "1s")
}

/// Parses a time in milliseconds, of at most a minute.
pub fn bounded_time_ms(text: &str, min: u64, message: &str) -> Result<u64, String> {
    let time = units::time_ms(text)?;
    if (min..=60_000).contains(&time) { Ok(time) } else { Err(message.into()) }
}

pub fn is_cluster_id(id: &str) -> bool {
    server::arakoon::bucket_of(id.as_bytes()).is_some()
}

/// Parses an address to listen at. `localhost` means the IPv4 address: the system may resolve the
/// name to either version, and a client that tries the other one would fail to connect.
pub fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    let invalid = || "expected an address such as 127.0.0.1:7711 or localhost:7711".to_string();
    match text.strip_prefix("localhost:") {
        Some(port) => {
            let port: u16 = port.parse().map_err(|_| invalid())?;
            Ok((std::net::Ipv4Addr::LOCALHOST, port).into())
        }
        None => text.parse().map_err(|_| invalid()),
    }
}

/// Parses addresses with commas between; `none` is none.
pub fn addresses(text: &str) -> Result<Vec<std::net::SocketAddr>, String> {
    let texts = text.split(',').map(str::trim).filter(|text| *text != "none");
    texts.map(address).collect()
}

pub fn optional_address(text: &str) -> Result<Option<std::net::SocketAddr>, String> {
    if text == "none" { Ok(None) } else { address(text).map(Some) }
}

/// Parses an address as others know it. `None`: the text is the word for no address.
pub fn parse_advertised(text: &str, default_name: &str) -> Result<Option<String>, String> {
    if text == default_name {
        return Ok(None);
    }
    base::cluster::check_address(text).map_err(|error| error.text())?;
    Ok(Some(text.into()))
}

/// Parses addresses with commas between; `none` is none. Names are allowed as hosts.
pub fn host_addresses(text: &str) -> Result<Vec<String>, String> {
    let addresses = comma_separated(text);
    for address in &addresses {
        base::cluster::check_address(address).map_err(|error| error.text())?;
    }
    Ok(addresses)
}

pub fn not_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() { Err("a path is wanted".into()) } else { Ok(text) }
}

pub fn at_least(value: u64, min: u64, words: &str) -> Result<u64, String> {
    if value < min { Err(format!("at least {words} is wanted")) } else { Ok(value) }
}

/// Parses names with commas between; `none` is none.
pub fn comma_separated(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| *name != "none");
    names.map(String::from).collect()
}
