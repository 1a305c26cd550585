//! Measurement of the cost of the log and the trees on this machine, and of their memory. Not run
//! by default: `cargo test --release -p store --test measure -- --ignored --nocapture [NAME]`.
//!
//! Only memory is asserted. Where the output says so, times are processor time of this thread, so
//! that a busy machine has little influence. `ROWS` and `DIR` in the environment set the number of
//! rows and the directory.

use bytes::{BufMut, Bytes, BytesMut};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::{
    Chunk, FileDisk, Log, LogSettings, LsmTrees, Owner, Record, RecordKind, RowChange, StoreError,
};
use store::{TreeSettings, Trees};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 100;
const ROW_BYTES: usize = KEY_BYTES + VALUE_BYTES;
const READS: u64 = 300_000;

#[test]
#[ignore = "minutes, and two gigabytes of disk"]
fn ten_million_rows_are_served_within_a_gibibyte() {
    let rows = rows(10_000_000);
    let folder = folder();
    let trees = LsmTrees::open(TreeSettings::new(folder.path())).expect("opens");
    let started = Instant::now();
    with_background(&trees, || load(&trees, rows, 64));
    println!("loaded {rows} rows in {:.1?}, {}", started.elapsed(), memory_text());
    println!("{:?}", trees.statistics());
    for turn in 1..=3 {
        let started = Instant::now();
        for n in 0..READS * 5 {
            let found = trees.get(&key(number(n * 7_919 + turn, rows))).expect("reads");
            assert_eq!(found.map(|value| value.len()), Some(VALUE_BYTES));
        }
        let rate = (READS * 5) as f64 / started.elapsed().as_secs_f64() / 1_000.0;
        println!("turn {turn}: {rate:.0} k random gets/s, {}", memory_text());
    }
    println!("{:?}", trees.statistics());
    assert!(resident("VmHWM") <= 1 << 20, "at most a gibibyte: {}", memory_text());
}

#[test]
#[ignore = "a measurement"]
fn tree_batch_apply_and_get_costs_are_measured() {
    let rows = rows(2_000_000);
    for batch in [1, 16, 200, 1_000] {
        let folder = folder();
        let trees = LsmTrees::open(TreeSettings::new(folder.path())).expect("opens");
        // One table that is never flushed: the cost of `apply` alone.
        let few = rows.min(400_000);
        let elapsed = load(&trees, few, batch);
        print_each(&format!("apply by {batch}, new rows"), few, elapsed);
        let elapsed = load(&trees, few, batch);
        print_each(&format!("apply by {batch}, second versions"), few, elapsed);
        let elapsed = read_then_write(&trees, few, batch);
        print_each(&format!("get, then apply by {batch}"), few, elapsed);
    }
    let folder = folder();
    let trees = LsmTrees::open(TreeSettings::new(folder.path())).expect("opens");
    let elapsed = with_background(&trees, || load(&trees, rows, 200));
    print_each("apply by 200, flushed and merged", rows, elapsed);
    gets("get, any row", &trees, |n| key(number(n * 7_919, rows)));
    gets("get, any row, again", &trees, |n| key(number(n * 7_919, rows)));
    gets("get, absent", &trees, |n| key(rows + n));
    gets("get, row cache", &trees, |n| key(number(n % 10_000, rows)));
    let snapshot = trees.snapshot();
    let started = processor_time();
    let all = snapshot.range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, false);
    print_each(
        "range, all rows",
        all.inspect(|row| assert!(row.is_ok())).count() as u64,
        since(started),
    );
    println!("{}", memory_text());
}

/// Reads ten rows from anywhere, after every small batch: the rows in memory are sorted in between.
#[test]
#[ignore = "a measurement"]
fn short_range_cost_between_small_batches_is_measured() {
    for rows in [10_000, rows(300_000)] {
        let folder = folder();
        let trees = LsmTrees::open(TreeSettings::new(folder.path())).expect("opens");
        load(&trees, rows, 200);
        let (mut elapsed, mut longest) = (Duration::ZERO, Duration::ZERO);
        let (turns, batch) = (20_000, 4);
        for turn in 0..turns {
            let batch = changes(turn * batch..(turn + 1) * batch);
            trees.apply(&mut batch.into_iter()).expect("applies");
            let from = Bytes::copy_from_slice(&key(number(turn, rows)));
            let started = processor_time();
            let snapshot = trees.snapshot();
            let low = std::ops::Bound::Included(from);
            black_box(snapshot.range(low, std::ops::Bound::Unbounded, false).take(10).count());
            let once = since(started);
            (elapsed, longest) = (elapsed + once, longest.max(once));
        }
        print_each(&format!("ten rows of {rows}, between small batches"), turns, elapsed);
        print_each("  the longest", 1, longest);
    }
}

#[test]
#[ignore = "a measurement"]
fn prefix_install_rate_is_measured() {
    let rows = rows(1_000_000);
    let (folder, other) = (folder(), folder());
    let from = LsmTrees::open(TreeSettings::new(folder.path())).expect("opens");
    with_background(&from, || load(&from, rows, 64));
    let trees = Arc::new(LsmTrees::open(TreeSettings::new(other.path())).expect("opens"));
    for what in ["into nothing", "over as much", "over as much again"] {
        let snapshot = from.snapshot();
        let shared_trees: Arc<dyn Trees> = trees.clone();
        let (started, mut after) = (Instant::now(), None);
        let mut install = shared_trees.begin_install(b"").expect("begins");
        loop {
            let chunk = Chunk::read(&*snapshot, b"", after.as_ref(), 256 << 10).expect("reads");
            install.put(chunk.rows).expect("takes");
            after = chunk.more_after;
            if after.is_none() {
                break;
            }
        }
        install.complete().expect("completes");
        let (staged, started) = (started.elapsed(), Instant::now());
        assert!(install.switch().expect("switches"));
        let rate = rows as f64 / staged.as_secs_f64() / 1_000.0;
        println!(
            "{what}: {rate:.0} k rows/s, switched in {:.1?}, {}",
            started.elapsed(),
            memory_text()
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn log_append_replay_and_sync_costs_are_measured() {
    let records = rows(1_000_000);
    for (payload_bytes, batch) in [(130, 1), (130, 16), (2_080, 1), (13_000, 1)] {
        let folder = folder();
        let count = records * 130 / payload_bytes as u64;
        let mut log = open_log(folder.path());
        let (started, processor) = (Instant::now(), processor_time());
        append(&mut log, count, payload_bytes, batch, false);
        let bytes = log.end().0;
        print_each(&format!("append {payload_bytes} bytes by {batch}"), count, since(processor));
        println!("  {:.0} MB/s of wall time", bytes as f64 / 1e6 / started.elapsed().as_secs_f64());
        log.close().expect("closes");
        let (started, processor) = (Instant::now(), processor_time());
        let replayed = replay(folder.path());
        assert_eq!(replayed, count);
        print_each("  replayed", count, since(processor));
        println!("  {:.0} MB/s of wall time", bytes as f64 / 1e6 / started.elapsed().as_secs_f64());
        let mut log = open_log(folder.path());
        let (syncs, started, processor) = (500, Instant::now(), processor_time());
        append(&mut log, syncs, payload_bytes, 1, true);
        print_each("  synced commit", syncs, since(processor));
        print_each("  the same, wall time", syncs, started.elapsed());
    }
}

/// Measures a start: reads the log and applies every record to the trees.
#[test]
#[ignore = "a measurement"]
fn replay_time_of_a_million_puts_is_measured() {
    let (rows, folder) = (rows(1_000_000), folder());
    let (log, store) = (folder.path().join("log"), folder.path().join("store"));
    std::fs::create_dir(&log).expect("ours to make");
    let mut writer = open_log(&log);
    append(&mut writer, rows / 16, 16 * ROW_BYTES, 1, false);
    writer.commit(true).expect("commits");
    drop(writer);
    let (started, processor, mut flushing) = (Instant::now(), processor_time(), Duration::ZERO);
    let trees = LsmTrees::open(TreeSettings::new(&store)).expect("opens");
    let disk = Arc::new(FileDisk::open(&log).expect("opens"));
    let (_log, records) = Log::open(disk, LogSettings::default()).expect("opens");
    println!("opened after {:.2?}", started.elapsed());
    for record in records {
        let (_, record) = record.expect("sound");
        let at = |n: usize| (n * ROW_BYTES, n * ROW_BYTES + KEY_BYTES, (n + 1) * ROW_BYTES);
        let put = |n| {
            let (key, value, end) = at(n);
            RowChange::Put(record.payload.slice(key..value), record.payload.slice(value..end))
        };
        trees.apply(&mut (0..16).map(put)).expect("applies");
        if trees.pressure().is_rotation_due() {
            let started = processor_time();
            trees.rotate().and_then(|_| trees.flush()).expect("flushes");
            flushing += since(started);
        }
    }
    println!("{rows} puts replayed after {:.2?}, {}", started.elapsed(), memory_text());
    println!("on a processor {:.2?}, of it {flushing:.2?} flushing", since(processor));
}

fn open_log(path: &Path) -> Log {
    let disk = Arc::new(FileDisk::open(path).expect("opens"));
    let (log, replay) = Log::open(disk, LogSettings::default()).expect("opens");
    replay.finish().expect("sound");
    log
}

fn replay(path: &Path) -> u64 {
    let disk = Arc::new(FileDisk::open(path).expect("opens"));
    let (_log, replay) = Log::open(disk, LogSettings::default()).expect("opens");
    replay.finish().expect("sound").records
}

/// Appends rows as payloads. The time includes their construction, which is short.
fn append(log: &mut Log, count: u64, payload_bytes: usize, batch: u64, sync: bool) {
    let mut payload = Vec::with_capacity(payload_bytes + ROW_BYTES);
    for index in 1..=count {
        payload.clear();
        let mut row = index * 1_000;
        while payload.len() < payload_bytes {
            payload.put_slice(&key(row));
            payload.put_slice(&[b'v'; VALUE_BYTES]);
            row += 1;
        }
        payload.truncate(payload_bytes);
        let (kind, owner) = (RecordKind::Accept, Owner { group: 1, generation: 0 });
        let ballot = (1, 1);
        let (decided, payload) = (index - 1, payload.as_slice());
        log.append(&Record { kind, owner, configuration: 0, ballot, index, decided, payload })
            .expect("appends");
        if index.is_multiple_of(batch) {
            log.commit(sync).expect("commits");
        }
    }
    log.commit(sync).expect("commits");
}

/// Reads each row before it is overwritten, as a node does.
fn read_then_write(trees: &LsmTrees, rows: u64, batch: u64) -> Duration {
    let mut elapsed = Duration::ZERO;
    for from in (0..rows).step_by(batch as usize) {
        let changes = changes(from..rows.min(from + batch));
        let started = processor_time();
        for change in &changes {
            black_box(trees.get(change.key()).expect("reads"));
        }
        trees.apply(&mut changes.into_iter()).expect("applies");
        elapsed += since(started);
    }
    elapsed
}

/// Applies rows with scattered keys. The time does not include their construction.
fn load(trees: &LsmTrees, rows: u64, batch: u64) -> Duration {
    let mut elapsed = Duration::ZERO;
    for from in (0..rows).step_by(batch as usize) {
        let changes = changes(from..rows.min(from + batch));
        let started = processor_time();
        trees.apply(&mut changes.into_iter()).expect("applies");
        if trees.pressure().is_rotation_due() && rows > 400_000 {
            trees.rotate().expect("rotates");
        }
        while trees.pressure().must_wait() {
            std::thread::sleep(Duration::from_micros(200));
        }
        elapsed += since(started);
    }
    elapsed
}

fn changes(numbers: Range<u64>) -> Vec<RowChange> {
    let count = (numbers.end - numbers.start) as usize;
    let mut buffer = BytesMut::with_capacity(ROW_BYTES * count);
    for n in numbers {
        buffer.put_slice(&key(n));
        buffer.put_bytes(b'v', VALUE_BYTES / 2);
        (0..5).for_each(|word| buffer.put_u64(noise(n * 8 + word)));
        buffer.put_slice(b"0123456789");
    }
    let buffer: Bytes = buffer.freeze();
    let row = |at: usize| buffer.slice(at..at + ROW_BYTES);
    let put = |row: Bytes| RowChange::Put(row.slice(..KEY_BYTES), row.slice(KEY_BYTES..));
    (0..count).map(|n| put(row(n * ROW_BYTES))).collect()
}

/// Runs work while a background thread merges as in a node, until nothing is left to merge.
fn with_background<T>(trees: &LsmTrees, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let background = scope.spawn(|| {
            loop {
                let stopping = stop.load(Ordering::Acquire);
                trees.flush()?;
                let changed = trees.compact()?;
                if stopping && !changed {
                    return Ok::<(), StoreError>(());
                }
                if !changed {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let done = work();
        stop.store(true, Ordering::Release);
        background.join().expect("no panic").expect("flushes and merges");
        done
    })
}

fn gets(what: &str, trees: &LsmTrees, key: impl Fn(u64) -> [u8; KEY_BYTES]) {
    let started = processor_time();
    for n in 0..READS {
        black_box(trees.get(&key(n)).expect("reads"));
    }
    print_each(what, READS, since(started));
}

fn key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"row:0000000000000000";
    key[4..12].copy_from_slice(&noise(n).to_be_bytes());
    key[12..20].copy_from_slice(&n.to_be_bytes());
    key
}

/// Returns a pseudo-random number below `rows`.
fn number(n: u64, rows: u64) -> u64 {
    noise(n) % rows
}

fn noise(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (n >> 32)
}

fn print_each(what: &str, times: u64, elapsed: Duration) {
    println!("{what:<40}{:>9.0} ns", elapsed.as_nanos() as f64 / times as f64);
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn since(started: Duration) -> Duration {
    processor_time() - started
}

fn rows(default: u64) -> u64 {
    std::env::var("ROWS").map_or(default, |rows| rows.parse().expect("a number"))
}

fn folder() -> tempfile::TempDir {
    let parent = std::env::var_os("DIR").map_or_else(std::env::temp_dir, Into::into);
    tempfile::tempdir_in(parent).expect("a directory")
}

/// Returns a figure of `/proc/self/status`, in KiB.
fn resident(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(what)).expect("it is there");
    line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).expect("a number")
}

fn memory_text() -> String {
    let (now, most) = (resident("VmRSS") / 1024, resident("VmHWM") / 1024);
    format!("{now} MiB resident, at most {most}")
}
