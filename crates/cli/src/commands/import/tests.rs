//! Tests that an import's progress never covers more than was acknowledged.

use super::batches::Input;
use super::progress::ImportProgress;
use super::resume::{InputPosition, Resume};
use super::send::SentBatch;
use super::*;
use base::{BucketName, import_chunk};
use client::Address;
use record_files::RecordBatch;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

fn position(offset: u64) -> InputPosition {
    InputPosition { offset, number: offset / 10 }
}

fn input_format(format: Format, errors: Errors, records_max: usize) -> InputFormat {
    let skips = Skips::new(indicatif::ProgressBar::hidden(), None, false).expect("no file");
    let (fields, skips) = (FieldNames::default(), Arc::new(skips));
    InputFormat { format, fields, errors, skips, allows_empty_key: false, records_max }
}

fn sent_batch(number: u64, offset: u64) -> SentBatch {
    SentBatch { number, records: 2, bytes: 20, skipped: 0, end: position(offset) }
}

#[test]
fn batch_acknowledged_early_does_not_advance_resume_position() {
    let mut progress = ImportProgress::new(Some(100), position(10), 2);
    // One lane is ahead of the other.
    progress.add(sent_batch(0, 30));
    progress.add(sent_batch(1, 50));
    progress.add(sent_batch(2, 70));
    assert_eq!(progress.position(), position(10));
    progress.add(sent_batch(0, 30));
    assert_eq!(progress.position(), position(30));
    progress.add(sent_batch(1, 50));
    progress.add(sent_batch(2, 70));
    assert_eq!(progress.position(), position(70));
    assert!(progress.finish().text().starts_with("12 records (120 B)"));
}

#[test]
fn resume_file_restores_its_import_and_refuses_a_different_import() {
    let folder = std::env::temp_dir().join(format!("credenza-resume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let (file, state) = (folder.join("a.tsv"), folder.join("a.resume"));
    std::fs::write(&file, "x".repeat(100)).expect("a file");
    let open = |file: &Path, format, bucket: &str| {
        let bucket = BucketName::parse(bucket).expect("a name");
        Resume::open(&state, &Input::open(file).expect("there"), format, &bucket)
    };
    let mut resume = open(&file, Format::Tsv, "users").expect("new");
    assert_eq!(resume.position(), InputPosition::default());
    resume.save(position(40), 3).expect("written");
    let reopened = open(&file, Format::Tsv, "users").expect("ours");
    assert_eq!((reopened.position(), reopened.skipped_before()), (position(40), 3));
    // The format of earlier versions.
    let contents = std::fs::read_to_string(&state).expect("written");
    std::fs::write(&state, contents.replace(",\n  \"skipped\": 3", "")).expect("a file");
    assert!(!std::fs::read_to_string(&state).expect("written").contains("skipped"));
    let without_skipped = open(&file, Format::Tsv, "users").expect("ours");
    assert_eq!((without_skipped.position(), without_skipped.skipped_before()), (position(40), 0));
    assert!(open(&file, Format::Raw, "users").is_err());
    assert!(open(&file, Format::Tsv, "others").is_err());
    std::fs::write(&file, "short").expect("a file");
    assert!(open(&file, Format::Tsv, "users").is_err());
    std::fs::write(&state, "{}").expect("a file");
    assert!(open(&file, Format::Tsv, "users").is_err());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn format_is_derived_from_file_extension() {
    let format_by_name = |name: &str| format_of(None, Path::new(name)).ok();
    assert_eq!(format_by_name("a.tsv"), Some(Format::Tsv));
    assert_eq!(format_by_name("a.JSONL"), Some(Format::Jsonl));
    assert_eq!(format_by_name("a.raw"), Some(Format::Raw));
    assert_eq!(format_by_name("a.CSV"), Some(Format::Csv));
    assert_eq!(format_by_name("-"), None);
    assert_eq!(format_of(Some(Format::Raw), Path::new("a.tsv")).ok(), Some(Format::Raw));
}

#[test]
fn malformed_line_ends_the_batches_or_is_skipped() {
    let folder = std::env::temp_dir().join(format!("credenza-cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    std::fs::write(&file, "a\t1\nb\t2\nc\t3\nwrong\nd\t4\n").expect("a file");
    let cut = |errors, start: InputPosition| {
        let (batches, mut receiver) = mpsc::channel(10);
        let cut = input_format(Format::Tsv, errors, 2);
        let reader = batches::read(Input::open(&file).expect("there"), start, cut, vec![batches]);
        let result = reader.expect("started").join().expect("no panic");
        let mut all = Vec::new();
        while let Ok(batch) = receiver.try_recv() {
            all.push((batch.number, batch.records.len(), batch.skipped, batch.end.offset));
        }
        (all, result.map_err(|failure| failure.to_string()))
    };
    let (all, result) = cut(Errors::Stop, InputPosition::default());
    assert_eq!(all, [(0, 2, 0, 8), (1, 1, 0, 12)]);
    assert!(result.expect_err("wrong").starts_with("line 4: there is no tab"));
    let (all, result) = cut(Errors::Skip, InputPosition { offset: 8, number: 2 });
    assert_eq!((all, result), (vec![(0, 2, 1, 22)], Ok(())));
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn records_of_a_key_stay_in_their_lane_and_order() {
    let folder = std::env::temp_dir().join(format!("credenza-lanes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    let lines: String = (0..1_000).map(|n| format!("key{}\t{n}\n", n % 10)).collect();
    std::fs::write(&file, lines).expect("a file");
    let (lanes, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel(2_000)).unzip();
    let cut = input_format(Format::Tsv, Errors::Stop, 20);
    let input = Input::open(&file).expect("there");
    let reader = batches::read(input, InputPosition::default(), cut, lanes).expect("started");
    reader.join().expect("no panic").expect("every line is good");
    let mut last_of_key = std::collections::BTreeMap::new();
    let mut rounds = std::collections::BTreeSet::new();
    for (lane, receiver) in receivers.iter_mut().enumerate() {
        let mut count = 0;
        while let Ok(batch) = receiver.try_recv() {
            assert_eq!(batch.number, count, "a lane misses a round");
            (count, _) = (count + 1, rounds.insert(batch.number));
            assert!(batch.records.len() <= 20);
            for (key, value, _) in batch.records.iter() {
                let value: u32 = String::from_utf8_lossy(value).parse().expect("a number");
                let previous = last_of_key.insert(key.to_vec(), (lane, value));
                assert!(previous.is_none_or(|previous| previous.0 == lane && previous.1 < value));
            }
        }
        assert_eq!(count, rounds.len() as u64);
    }
    let last: Vec<u32> = last_of_key.values().map(|(_, value)| *value).collect();
    assert_eq!(last, (990..1_000).collect::<Vec<_>>());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn csv_import_resumes_after_any_record() {
    let folder = std::env::temp_dir().join(format!("credenza-table-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.csv");
    let text = "value,key\n1,a\r\n\"2\n2\",b\n\n3,c\n4,\n";
    std::fs::write(&file, text).expect("a file");
    let from = |start: InputPosition| {
        let (batches, mut receiver) = mpsc::channel(10);
        let cut = input_format(Format::Csv, Errors::Skip, 1);
        let reader = batches::read(Input::open(&file).expect("there"), start, cut, vec![batches]);
        reader.expect("started").join().expect("no panic").expect("every row is read");
        let (mut all, mut ends, mut skipped) = (Vec::new(), Vec::new(), 0);
        while let Ok(batch) = receiver.try_recv() {
            for (key, value, line) in batch.records.iter() {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                all.push((text(key), text(value), line));
            }
            ends.push(batch.end);
            skipped += batch.skipped;
        }
        (all, ends, skipped)
    };
    let (all, ends, skipped) = from(InputPosition::default());
    let record = |key: &str, value: &str, line| (key.to_string(), value.to_string(), line);
    let expected = [record("a", "1", 2), record("b", "2\n2", 3), record("c", "3", 6)];
    // The empty key of the last row is left out.
    assert_eq!((&all[..], skipped), (&expected[..], 1));
    for (at, end) in ends.iter().take(3).enumerate() {
        assert_eq!(from(*end).0, expected[at + 1..], "behind record {}", at + 1);
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn delimiter_is_a_single_byte_other_than_quote_or_newline() {
    assert_eq!((delimiter(";"), delimiter("tab"), delimiter("\\t")), (Ok(b';'), Ok(9), Ok(9)));
    for wrong in ["", ",,", "\"", "\n", "\r", "\u{e9}"] {
        assert!(delimiter(wrong).is_err(), "{wrong:?}");
    }
}

/// Reads a chunk that a sender sends; returns the request line and the keys.
async fn receive_chunk(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<String>)> {
    let (mut request_line, mut length) = (String::new(), 0);
    stream.read_line(&mut request_line).await.ok().filter(|bytes| *bytes > 0)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("a header");
        match line.trim_end().split_once(": ") {
            Some(("content-length", number)) => length = number.parse().expect("a number"),
            Some(("content-type", kind)) => assert_eq!(kind, "application/octet-stream"),
            Some(_) => {}
            None => break,
        }
    }
    let mut chunk = vec![0; length];
    stream.read_exact(&mut chunk).await.expect("a body");
    let key_text = |key: bytes::Bytes, _| String::from_utf8_lossy(&key).into_owned();
    Some((request_line, import_chunk::decode(&chunk.into(), key_text).expect("a chunk")))
}

/// Serves one sender. A chunk with a key that begins with `large` is refused; the first other one
/// is answered `overloaded`. Returns the keys of every chunk, and true if it was accepted.
async fn serve_chunks(listener: TcpListener) -> Vec<(Vec<String>, bool)> {
    let (stream, _) = listener.accept().await.expect("a connection");
    let (mut stream, mut chunks, mut was_overloaded) = (BufReader::new(stream), Vec::new(), false);
    while let Some((request_line, keys)) = receive_chunk(&mut stream).await {
        let expected = "POST /v1/buckets/a/b/import?mode=synced&ttl_ms=7 HTTP/1.1";
        assert_eq!(request_line.trim_end(), expected);
        let answer = |status: &str, reason: &str, kind: &str| {
            let body = format!(
                r#"{{"error":{{"reason":"{reason}","kind":"{kind}","detail":"at most 3"}}}}"#
            );
            format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        };
        let is_large = keys.iter().any(|key| key.starts_with("large"));
        let is_accepted = !is_large && was_overloaded;
        let answer = match (is_large, was_overloaded) {
            (true, _) => answer("413", "too_large", "invalid"),
            (false, false) => answer("503", "overloaded", "unavailable"),
            (false, true) => "HTTP/1.1 204 x\r\n\r\n".into(),
        };
        was_overloaded |= !is_large;
        chunks.push((keys, is_accepted));
        stream.get_mut().write_all(answer.as_bytes()).await.expect("it listens");
    }
    chunks
}

/// Sends ten records, two of which are refused; returns the outcome and the chunks.
async fn send_ten(errors: Errors) -> (Outcome<SentBatch>, Vec<(Vec<String>, bool)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = tokio::spawn(serve_chunks(listener));
    let client = Address::plain(url, std::time::Duration::from_secs(5)).client();
    let skips = Skips::new(indicatif::ProgressBar::hidden(), None, false).expect("no file");
    let path = chunk_path("/v1/buckets/a/b/import", false, Some(7));
    let sender = Sender::new(client.expect("an address"), path, errors, Arc::new(skips));
    let mut records = RecordBatch::default();
    for line in 0..10_u64 {
        let key = if line == 3 || line == 8 { "large" } else { "k" };
        records.push(format!("{key}{line}").as_bytes(), b"v", line + 1);
    }
    let (lane, batches) = mpsc::channel(1);
    let batch = ImportBatch { number: 0, records, skipped: 0, end: position(10) };
    lane.send(batch).await.unwrap_or_else(|_| panic!("it listens"));
    drop(lane);
    let (report, mut sent) = mpsc::channel(1);
    let outcome = sender.run(batches, report).await;
    let acknowledged = sent.recv().await;
    let outcome = outcome.map(|()| acknowledged.expect("it was acknowledged"));
    (outcome, server.await.expect("no panic"))
}

#[tokio::test]
async fn refused_records_are_found_by_halving_and_the_others_are_sent_once_in_order() {
    let (outcome, chunks) = send_ten(Errors::Skip).await;
    let sent = outcome.expect("the others are accepted");
    assert_eq!((sent.records, sent.skipped, sent.bytes), (8, 2, 8 * 3));
    let accepted = chunks.iter().filter(|(_, is_accepted)| *is_accepted);
    let accepted: Vec<_> = accepted.flat_map(|(keys, _)| keys.clone()).collect();
    assert_eq!(accepted, ["k0", "k1", "k2", "k4", "k5", "k6", "k7", "k9"]);
    assert!(chunks.len() <= 16, "{chunks:?}");
    // Nothing was acknowledged before the refusal that ends an import.
    let (outcome, chunks) = send_ten(Errors::Stop).await;
    let failure = outcome.expect_err("a record is refused").to_string();
    assert!(failure.starts_with("line 4: too_large: at most 3"), "{failure}");
    assert!(failure.ends_with("fix it, or --errors skip"), "{failure}");
    let accepted = chunks.iter().filter(|(_, is_accepted)| *is_accepted);
    let accepted: Vec<_> = accepted.flat_map(|(keys, _)| keys.clone()).collect();
    assert_eq!(accepted, ["k0", "k1", "k2"]);
}
