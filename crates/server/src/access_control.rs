//! Access control: the names that a `Host` header may hold, and the origins whose web pages may
//! write.
//!
//! A web page in an operator's browser can reach a port on loopback through a name of its own that
//! resolves to it (DNS rebinding). Such a request carries that name in `Host`. Therefore the server
//! accepts only plain addresses and configured names.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Names that are accepted in `Host`.
pub struct AccessControl {
    hosts: Vec<String>,
    allows_any: bool,
}

impl AccessControl {
    /// Accepts these names in addition to `localhost` and plain addresses; `*` accepts any name.
    pub fn new(hosts: &[String]) -> AccessControl {
        let allows_any = hosts.iter().any(|host| host == "*");
        AccessControl {
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            allows_any,
        }
    }

    /// Returns true if a `Host` header (with or without a port) names this server.
    pub fn allows_host(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        if self.allows_any {
            return true;
        }
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && is_optional_port(port);
        }
        let (name, port) = match host.find(':') {
            Some(colon) => host.split_at(colon),
            None => (host, ""),
        };
        is_optional_port(port)
            && (name.parse::<Ipv4Addr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || self.hosts.iter().any(|allowed| name.eq_ignore_ascii_case(allowed)))
    }

    /// Returns true if a web page of this origin may write: it was served under the same name and
    /// port that the request was sent to.
    pub fn allows_origin(&self, origin: &[u8], host: &[u8]) -> bool {
        let authority =
            origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }
}

fn is_optional_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok() && port.bytes().all(|b| b.is_ascii_digit()),
        None => text.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_allowed_only_if_ip_address_localhost_or_configured() {
        let access_control = AccessControl::new(&["db.example".into()]);
        for good in [
            "localhost",
            "LOCALHOST:7711",
            "127.0.0.1",
            "127.0.0.1:7711",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:7711",
            "db.example",
            "DB.example:1",
        ] {
            assert!(access_control.allows_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":7711",
            "evil.example",
            "localhost.evil.example",
            "localhost:",
            "localhost:70000",
            "localhost:+1",
            "127.0.0.1.evil.example",
            "[::1",
            "[::1]x",
            "[evil]",
            "db.example:1:2",
            "db.example@evil",
            "\u{e9}",
        ] {
            assert!(!access_control.allows_host(bad.as_bytes()), "{bad}");
        }
        assert!(!access_control.allows_host(b"\xff"));
        assert!(AccessControl::new(&["*".into()]).allows_host(b"evil.example"));
    }

    #[test]
    fn origin_is_trusted_only_if_equal_to_the_host() {
        let access_control = AccessControl::new(&[]);
        let host = b"127.0.0.1:7711";
        assert!(access_control.allows_origin(b"http://127.0.0.1:7711", host));
        assert!(access_control.allows_origin(b"https://127.0.0.1:7711", host));
        for bad in
            ["null", "", "http://127.0.0.1:80", "http://evil.example", "file://", "127.0.0.1:7711"]
        {
            assert!(!access_control.allows_origin(bad.as_bytes(), host), "{bad}");
        }
    }
}
