//! The file of spans: it is read, and written byte for byte; for another list of tables it holds
//! nothing.

use super::*;

const LIST: u64 = 7;

fn kept() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/spans-v1")
}

fn known() -> Vec<DeadStretch> {
    let of = |key: &'static str| Bytes::from_static(key.as_bytes());
    let found = |[start, end, first, last]: [&'static str; 4], dead| DeadStretch {
        start: of(start),
        end: of(end),
        first: of(first),
        last: of(last),
        dead,
    };
    vec![found(["a", "c", "a1", "b9"], 40), found(["queue", "queue5", "queue1", "queue4"], 1_000)]
}

#[test]
fn the_kept_spans_are_read_and_written_to_the_byte() {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    write(folder.path(), LIST, &known());
    let written = fs::read(folder.path().join(FILE)).expect("it was written");
    assert_eq!(fs::read(kept().join(FILE)).expect("it is kept"), written);
    assert_eq!(read(&kept(), LIST), known());
}

#[test]
fn spans_of_another_list_of_tables_or_a_damaged_file_are_not_believed() {
    assert!(read(&kept(), LIST + 1).is_empty());
    assert!(read(Path::new("nowhere"), LIST).is_empty(), "no file");
    let bytes = fs::read(kept().join(FILE)).expect("it is kept");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(parse(&damaged, LIST), None, "byte {at}");
        assert_eq!(parse(&bytes[..at], LIST), None, "{at} bytes");
    }
}
