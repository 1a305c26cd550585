//! How fast the trees are on this machine: `cargo run --release -p store --example trees_speed
//! [ROWS] [DIR]`. Prints what single operations cost, in time of this thread on a processor, so
//! that a busy machine disturbs little; nothing is asserted.

use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use store::trees::{Change, LsmTrees, TreeSettings, Trees};

const BATCH_ROWS: u64 = 1_000;
const READS: u64 = 300_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(Ok(2_000_000), |rows| rows.parse())?;
    let parent = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let path = parent.join(format!("trees-speed-{}", std::process::id()));
    let outcome = measure(rows, &TreeSettings::new(&path));
    std::fs::remove_dir_all(&path)?;
    outcome
}

fn measure(rows: u64, settings: &TreeSettings) -> Result<(), Box<dyn Error>> {
    let trees = LsmTrees::open(settings.clone())?;
    println!("opened                      {:>12}", resident());
    // One table that is never flushed: the cost of `apply` alone.
    let few = rows.min(200_000);
    let took = load(&trees, 0..few, few)?;
    rate("apply, nothing cached", few, took);
    each("get, from memory, not cached", READS.min(few), |n| trees.get(&key(spread(n, few))))?;
    each("get, row cache", READS, |n| trees.get(&key(spread(n % 10_000, few))))?;
    each("get, row cache, hot", READS, |n| trees.get(&key(spread(n % 64, few))))?;
    let took = load(&trees, 0..few, few)?;
    rate("apply over cached rows", few, took);

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let background = scope.spawn(|| in_background(&trees, &stop));
        let took = load(&trees, 0..rows, rows);
        stop.store(true, Ordering::Release);
        background.join().expect("no panic")?;
        rate("apply, flushed and merged", rows, took?);
        Ok::<(), Box<dyn Error>>(())
    })?;
    println!("{:#?}\nresident {}", trees.statistics(), resident());
    each("get, any row", READS, |n| trees.get(&key(spread(n * 7_919, rows))))?;
    each("get, any row, again", READS, |n| trees.get(&key(spread(n * 7_919, rows))))?;
    each("get, absent", READS, |n| trees.get(&key(rows + n)))?;
    let snapshot = trees.snapshot();
    let begin = processor_time();
    let all = snapshot.range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, false);
    let found = all.map(|row| row.map(|_| 1u64)).sum::<Result<u64, _>>()?;
    rate("range, all rows", found, processor_time() - begin);
    println!("{:#?}\nresident {}", trees.statistics(), resident());
    Ok(())
}

/// The background thread of a node.
fn in_background(trees: &LsmTrees, stop: &AtomicBool) -> Result<(), store::StoreError> {
    loop {
        let stopping = stop.load(Ordering::Acquire);
        trees.flush()?;
        let changed = trees.compact()?;
        if stopping && !changed {
            return Ok(());
        }
        if !changed {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Applies rows in scattered order; the time does not include making them.
fn load(
    trees: &LsmTrees,
    numbers: std::ops::Range<u64>,
    rows: u64,
) -> Result<Duration, store::StoreError> {
    let mut took = Duration::ZERO;
    let mut from = numbers.start;
    while from < numbers.end {
        let until = numbers.end.min(from + BATCH_ROWS);
        let mut buffer = BytesMut::with_capacity(130 * BATCH_ROWS as usize);
        for n in from..until {
            buffer.put_slice(&key(spread(n, rows)));
            (0..50).for_each(|_| buffer.put_u8(b'v'));
            (0..5u64).for_each(|word| buffer.put_slice(&noise(n * 8 + word).to_le_bytes()));
            buffer.put_slice(b"0123456789");
        }
        let buffer: Bytes = buffer.freeze();
        let begin = processor_time();
        let slices = (0..(until - from) as usize).map(|row| row * 120);
        trees
            .apply(&mut slices.map(|at| {
                Change::Put(buffer.slice(at..at + 20), buffer.slice(at + 20..at + 120))
            }))?;
        if trees.pressure().rotate_is_due() {
            trees.rotate()?;
        }
        while trees.pressure().must_wait() {
            std::thread::sleep(Duration::from_micros(200));
        }
        took += processor_time() - begin;
        from = until;
    }
    Ok(took)
}

fn key(n: u64) -> [u8; 20] {
    let mut key = *b"row:0000000000000000";
    key[4..12].copy_from_slice(&noise(n).to_be_bytes());
    key[12..20].copy_from_slice(&n.to_be_bytes());
    key
}

/// A number below `rows`, in an order that jumps about.
fn spread(n: u64, rows: u64) -> u64 {
    noise(n) % rows
}

fn noise(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (n >> 32)
}

fn each<T, E>(what: &str, times: u64, work: impl Fn(u64) -> Result<T, E>) -> Result<(), E> {
    let begin = processor_time();
    for n in 0..times {
        black_box(work(n)?);
    }
    let nanoseconds = (processor_time() - begin).as_nanos() as f64 / times as f64;
    println!("{what:<28}{nanoseconds:>9.0} ns");
    Ok(())
}

fn rate(what: &str, count: u64, took: Duration) {
    let rate = count as f64 / took.as_secs_f64() / 1_000.0;
    println!("{what:<28}{rate:>9.0} k/s   ({count} in {took:.2?})");
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("unknown").to_string()
}
