//! Real input: the package lists of the machine, one record a package, written and read through
//! every front-end.

use super::{http, resp, start_server, tool};
use std::collections::BTreeMap;
use systest::client::{RespReply, encode_command};
use systest::environment::{Root, Scratch, missing, path_str, run};
use systest::report::{Figures, skipped};
use systest::server::{Server, Setup};

/// Smallest number of packages that counts as real input.
const PACKAGES_MIN: usize = 1_000;

/// Returns the packages: name (with version and architecture, which make it unique) and the whole
/// paragraph.
fn read_packages() -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    if let Some(reason) = missing(Root::Spared, &["apt-cache"]) {
        return Err(reason);
    }
    let listed = run(&["apt-cache", "dumpavail"]).stdout;
    let mut packages = BTreeMap::new();
    for paragraph in listed.split_inclusive_blank() {
        let field = |name: &str| {
            let text = String::from_utf8_lossy(paragraph);
            text.lines().find_map(|line| line.strip_prefix(name).map(str::to_string))
        };
        let (Some(name), Some(version)) = (field("Package: "), field("Version: ")) else {
            continue;
        };
        let architecture = field("Architecture: ").unwrap_or_default();
        packages
            .insert(format!("{name}/{version}/{architecture}").into_bytes(), paragraph.to_vec());
    }
    if packages.len() < PACKAGES_MIN {
        let found = packages.len();
        return Err(format!("apt-cache knows {found} packages: run `apt-get update` first"));
    }
    Ok(packages)
}

trait SplitBlank {
    fn split_inclusive_blank(&self) -> Vec<&[u8]>;
}

impl SplitBlank for Vec<u8> {
    /// Splits into paragraphs, without the blank lines between them.
    fn split_inclusive_blank(&self) -> Vec<&[u8]> {
        let mut paragraphs = Vec::new();
        let mut rest = &self[..];
        while let Some(at) = rest.windows(2).position(|two| two == b"\n\n") {
            paragraphs.push(&rest[..=at]);
            rest = &rest[at + 2..];
        }
        paragraphs.push(rest);
        paragraphs
    }
}

/// Formats the packages as `import` reads them: key, tab, value, with escapes.
fn to_tsv(packages: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (key, value) in packages {
        for (bytes, separator) in [(key, b'\t'), (value, b'\n')] {
            for &byte in bytes {
                match byte {
                    b'\t' => lines.extend(b"\\t"),
                    b'\n' => lines.extend(b"\\n"),
                    b'\r' => lines.extend(b"\\r"),
                    b'\\' => lines.extend(b"\\\\"),
                    0..=31 | 127 => lines.extend(format!("\\x{byte:02x}").as_bytes()),
                    byte => lines.push(byte),
                }
            }
            lines.push(separator);
        }
    }
    lines
}

#[test]
fn package_lists_round_trip_byte_for_byte_over_resp_http_and_export() {
    let name = "real input";
    let packages = match read_packages() {
        Ok(packages) => packages,
        Err(reason) => return skipped(name, &reason),
    };
    let (scratch, mut server) = start_server("real-input");
    let mut figures = Figures::start(name);
    let file = scratch.join("packages.tsv");
    std::fs::write(&file, to_tsv(&packages)).expect("ours to write");
    tool(&server, &["import", path_str(&file)]);
    figures.ok = packages.len() as u64;
    figures.add("bytes", packages.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>());
    must_match_over_resp(&server, &packages);
    must_match_over_http(&server, &packages);
    must_match_export(&server, &packages, &scratch);
    server.kill();
    figures.faults = 1;
    let server = Server::must_start(&Setup::new(&scratch.join("data")));
    figures.add("restart_ms", server.ready_after.as_millis());
    must_match_over_resp(&server, &packages);
    figures.print();
}

fn must_match_over_resp(server: &Server, packages: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut redis = resp(server);
    let count = redis.call_line("DBSIZE").expect("answers");
    assert_eq!(count, RespReply::Number(packages.len() as i64));
    let rows: Vec<_> = packages.iter().collect();
    for batch in rows.chunks(200) {
        let bytes: Vec<u8> =
            batch.iter().flat_map(|(key, _)| encode_command(&[b"GET", key])).collect();
        redis.send(&bytes).expect("it listens");
        for (key, value) in batch {
            let found = redis.receive().expect("it answers");
            assert_eq!(found.bytes(), Some(&value[..]), "{}", String::from_utf8_lossy(key));
        }
    }
}

/// Reads the packages by prefix, in order, page by page, and compares them.
fn must_match_over_http(server: &Server, packages: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut web = http(server);
    for prefix in ["lib", "python3-", "z", "no-such-package-"] {
        let is_under = |key: &&Vec<u8>| key.starts_with(prefix.as_bytes());
        let expected: Vec<_> = packages.keys().filter(is_under).collect();
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!(
                "/v1/buckets/default/default/range?prefix={prefix}&limit=700&want=entries{after}"
            );
            let page = web.request("GET", &path, b"").expect("answers");
            assert_eq!(page.status, 200, "{}", page.text());
            let body = page.json();
            for entry in body["entries"].as_array().expect("a page has entries") {
                let key = entry["key"].as_str().expect("package names are text").to_string();
                let value = packages.get(key.as_bytes()).expect("a key that was put");
                let text = String::from_utf8(value.clone()).expect("paragraphs are text");
                assert_eq!(entry["value"].as_str(), Some(&text[..]), "{key}");
                found.push(key.into_bytes());
            }
            match body["continue"].as_str() {
                Some(token) if body["more"] == true => {
                    let token = systest::client::encode_key(token.as_bytes());
                    after = format!("&after={token}");
                }
                _ => break,
            }
        }
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{prefix}");
    }
}

fn must_match_export(server: &Server, packages: &BTreeMap<Vec<u8>, Vec<u8>>, scratch: &Scratch) {
    let file = scratch.join("exported.tsv");
    tool(server, &["export", path_str(&file)]);
    let exported = std::fs::read(&file).expect("it was written");
    assert!(exported == to_tsv(packages), "the export differs from what was imported");
}
