//! Real input: the package lists of the machine, one record a package, written and read through
//! every front-end.

use super::{fresh, http, resp, tool};
use std::collections::BTreeMap;
use systest::client::{RespReply, command};
use systest::report::{Figures, skipped};
use systest::rigs::{Root, Scratch, missing, run, text};
use systest::server::{Server, Setup};

/// Smallest number of packages that counts as real input.
const PACKAGES_MIN: usize = 1_000;

/// Returns the packages: name (with version and architecture, which make it unique) and the whole
/// paragraph.
fn packages() -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    if let Some(why) = missing(Root::Spared, &["apt-cache"]) {
        return Err(why);
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
        let machine = field("Architecture: ").unwrap_or_default();
        packages.insert(format!("{name}/{version}/{machine}").into_bytes(), paragraph.to_vec());
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
fn tsv(packages: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (key, value) in packages {
        for (bytes, end) in [(key, b'\t'), (value, b'\n')] {
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
            lines.push(end);
        }
    }
    lines
}

#[test]
fn every_package_of_the_machine_goes_in_and_comes_out_byte_for_byte() {
    let name = "real input";
    let packages = match packages() {
        Ok(packages) => packages,
        Err(why) => return skipped(name, &why),
    };
    let (scratch, mut server) = fresh("real-input");
    let mut figures = Figures::begin(name);
    let file = scratch.join("packages.tsv");
    std::fs::write(&file, tsv(&packages)).expect("ours to write");
    tool(&server, &["import", text(&file)]);
    figures.ok = packages.len() as u64;
    figures.also("bytes", packages.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>());
    same_through_resp(&server, &packages);
    same_through_http(&server, &packages);
    same_through_export(&server, &packages, &scratch);
    server.kill();
    figures.faults = 1;
    let server = Server::must(&Setup::on(&scratch.join("data")));
    figures.also("restart_ms", server.ready_after.as_millis());
    same_through_resp(&server, &packages);
    figures.print();
}

fn same_through_resp(server: &Server, packages: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut redis = resp(server);
    let count = redis.say("DBSIZE").expect("answers");
    assert_eq!(count, RespReply::Number(packages.len() as i64));
    let rows: Vec<_> = packages.iter().collect();
    for part in rows.chunks(200) {
        let bytes: Vec<u8> = part.iter().flat_map(|(key, _)| command(&[b"GET", key])).collect();
        redis.send(&bytes).expect("it listens");
        for (key, value) in part {
            let found = redis.receive().expect("it answers");
            assert_eq!(found.bytes(), Some(&value[..]), "{}", String::from_utf8_lossy(key));
        }
    }
}

/// Reads the packages by prefix, in order, page by page, and compares them.
fn same_through_http(server: &Server, packages: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut web = http(server);
    for prefix in ["lib", "python3-", "z", "no-such-package-"] {
        let is_under = |key: &&Vec<u8>| key.starts_with(prefix.as_bytes());
        let wanted: Vec<_> = packages.keys().filter(is_under).collect();
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!(
                "/v1/buckets/default/default/range?prefix={prefix}&limit=700&want=entries{after}"
            );
            let page = web.ask("GET", &path, b"").expect("answers");
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
                    let token = systest::client::encoded(token.as_bytes());
                    after = format!("&after={token}");
                }
                _ => break,
            }
        }
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{prefix}");
    }
}

fn same_through_export(server: &Server, packages: &BTreeMap<Vec<u8>, Vec<u8>>, scratch: &Scratch) {
    let file = scratch.join("exported.tsv");
    tool(server, &["export", text(&file)]);
    let exported = std::fs::read(&file).expect("it was written");
    assert!(exported == tsv(packages), "the export differs from what was imported");
}
