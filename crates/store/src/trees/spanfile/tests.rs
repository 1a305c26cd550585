//! The file of spans: golden bytes are read and written identically; a file of another list of
//! tables is ignored.

use super::*;

const LIST: u64 = 7;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/spans-v1")
}

fn expected() -> Vec<DeadStretch> {
    let of = |key: &'static str| Bytes::from_static(key.as_bytes());
    let stretch = |[start, end, first, last]: [&'static str; 4], dead| DeadStretch {
        start: of(start),
        end: of(end),
        first: of(first),
        last: of(last),
        dead,
    };
    vec![
        stretch(["a", "c", "a1", "b9"], 40),
        stretch(["queue", "queue5", "queue1", "queue4"], 1_000),
    ]
}

#[test]
fn span_file_matches_golden_bytes() {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    write(folder.path(), LIST, &expected());
    let written = fs::read(folder.path().join(FILE)).expect("it was written");
    assert_eq!(fs::read(golden().join(FILE)).expect("it is kept"), written);
    assert_eq!(read(&golden(), LIST), expected());
}

#[test]
fn span_file_that_is_stale_or_damaged_is_ignored() {
    assert!(read(&golden(), LIST + 1).is_empty());
    assert!(read(Path::new("nowhere"), LIST).is_empty(), "no file");
    let bytes = fs::read(golden().join(FILE)).expect("it is kept");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(parse(&damaged, LIST), None, "byte {at}");
        assert_eq!(parse(&bytes[..at], LIST), None, "{at} bytes");
    }
}
