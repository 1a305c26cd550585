//! Tests of the choice of merges, one by one and under a simulated sustained load.

use super::*;
use crate::trees::pressure::{PAUSE_MAX, Pressure, RUNS_SLOW, UNMERGED_RUNS_SLOW};

const MIB: u64 = 1024 * 1024;
const POLICY: MergePolicy =
    MergePolicy { unmerged_bytes_max: 64 * MIB, table_bytes: 64 * MIB, runs_max: 128 };
const ANY: MergeRequest = MergeRequest {
    only_small: false,
    has_many_dead_rows: false,
    is_idle: false,
    bytes_max: u64::MAX,
};
const SMALL: MergeRequest = MergeRequest { only_small: true, ..ANY };
const IDLE: MergeRequest = MergeRequest { is_idle: true, ..ANY };

fn choose(runs: &[RunFigures], request: MergeRequest) -> Option<Range<usize>> {
    POLICY.choose(runs, request).runs
}

fn run(mib: u64) -> RunFigures {
    RunFigures { bytes: mib * MIB, rows: mib * 8_000, tables: 1, ..RunFigures::default() }
}

fn busy(mib: u64) -> RunFigures {
    RunFigures { is_busy: true, ..run(mib) }
}

/// Returns runs of these sizes, and a last one that is far larger.
fn above_large(sizes: &[u64]) -> Vec<RunFigures> {
    sizes.iter().copied().chain([100_000]).map(run).collect()
}

#[test]
fn eight_neighbouring_runs_of_a_tier_are_merged_the_oldest_first() {
    assert_eq!(choose(&above_large(&[40; 7]), ANY), None);
    assert_eq!(choose(&above_large(&[40; 8]), ANY), Some(0..8));
    assert_eq!(choose(&above_large(&[40; 11]), ANY), Some(3..11));
    // A smaller run between them comes along, a larger one separates them.
    let mut runs = [[300; 4].as_slice(), &[40], &[300; 4]].concat();
    assert_eq!(choose(&above_large(&runs), ANY), Some(0..9));
    runs[4] = 3_000;
    assert_eq!(choose(&above_large(&runs), ANY), None);
    assert_eq!(choose(&[], ANY), None);
}

#[test]
fn small_merge_is_chosen_while_a_large_one_is_under_way() {
    let large = [busy(3_000); 8];
    let runs = [[run(40); 8].as_slice(), &large, &[run(100_000)]].concat();
    assert_eq!(choose(&runs, SMALL), Some(0..8));
    // A large merge that is due is none of the small thread's.
    let runs = [[run(40); 7].as_slice(), &[run(500); 8], &[run(100_000)]].concat();
    assert_eq!(choose(&runs, SMALL), None);
    assert_eq!(choose(&runs, ANY), Some(7..15));
    // Both are due: each thread has its own.
    let runs = [[run(40); 8].as_slice(), &[run(500); 8], &[run(100_000)]].concat();
    assert_eq!((choose(&runs, SMALL), choose(&runs, ANY)), (Some(0..8), Some(8..16)));
}

#[test]
fn busy_run_takes_part_in_no_other_merge() {
    let mut runs = above_large(&[40; 12]);
    runs[5].is_busy = true;
    assert_eq!(choose(&runs, ANY), None);
    let mut runs = above_large(&[40; 14]);
    runs[5].is_busy = true;
    assert_eq!(choose(&runs, ANY), Some(6..14));
}

#[test]
fn superseded_rows_take_at_most_a_multiple_of_the_last_run() {
    let sizes = |sizes: &[u64]| sizes.iter().copied().map(run).collect::<Vec<_>>();
    assert_eq!(choose(&sizes(&[900, 900, 1_000]), ANY), None);
    assert_eq!(choose(&sizes(&[1_000, 1_000, 1_000]), ANY), Some(0..3));
    let runs = [busy(4_000), run(1_500), run(1_000), run(1_000)];
    assert_eq!(choose(&runs, ANY), Some(1..4), "those below a merge under way");
    assert_eq!(choose(&[run(1)], ANY), None);
}

#[test]
fn tombstones_and_dead_rows_have_all_runs_merged_that_no_merge_reads() {
    let mut runs = above_large(&[40]);
    let reclaim = MergeRequest { has_many_dead_rows: true, ..ANY };
    assert_eq!(choose(&runs, reclaim), Some(0..2));
    assert_eq!(choose(&runs, MergeRequest { only_small: true, ..reclaim }), None);
    runs[0].tombstones = runs[1].rows / 4 + runs[0].rows / 4;
    assert_eq!(choose(&runs, ANY), Some(0..2));
    runs[0].tombstones -= 1;
    assert_eq!(choose(&runs, ANY), None);
    runs[1].is_busy = true;
    assert_eq!(choose(&runs, reclaim), None);
    assert_eq!(choose(&[run(40)], reclaim), None, "one run alone has no superseded rows");
}

/// Under a sustained load the thread of small merges is never at rest: dead rows below are removed
/// all the same, and only once.
#[test]
fn small_merges_do_not_starve_the_removal_of_dead_rows() {
    let reclaim = MergeRequest { has_many_dead_rows: true, ..ANY };
    let mut runs = [run(40), busy(40), busy(40), run(300), run(100_000)];
    assert_eq!(choose(&runs, reclaim), Some(3..5));
    runs[3].tombstones = 100 * runs[4].rows;
    assert_eq!(choose(&runs, ANY), Some(3..5));
    let mut runs = [run(40), busy(40), busy(40), run(100_000)];
    runs[1].tombstones = runs[3].rows;
    assert_eq!(choose(&runs, ANY), None, "the tombstones are in the merge under way");
}

#[test]
fn merge_that_does_not_fit_is_left_for_a_smaller_one_and_reported() {
    let with_space = |mib: u64| MergeRequest { bytes_max: mib * MIB, ..ANY };
    let runs = [[run(40); 8].as_slice(), &[run(500); 8], &[run(100_000)]].concat();
    let choice = |mib| POLICY.choose(&runs, with_space(mib));
    assert_eq!(choice(4_000), MergeChoice { runs: Some(8..16), lacks_space: false });
    assert_eq!(choice(3_999), MergeChoice { runs: Some(0..8), lacks_space: true });
    assert_eq!(choice(320), MergeChoice { runs: Some(0..8), lacks_space: true });
    assert_eq!(choice(319), MergeChoice { runs: None, lacks_space: true });
    // What is only good for reads waits in silence.
    let idle = MergeRequest { bytes_max: 79 * MIB, ..IDLE };
    assert_eq!(POLICY.choose(&above_large(&[40, 40]), idle), MergeChoice::default());
}

#[test]
fn merge_reads_a_bounded_number_of_runs_the_newest_first() {
    let policy = MergePolicy { runs_max: 12, ..POLICY };
    let reclaim = MergeRequest { has_many_dead_rows: true, ..ANY };
    for (count, expected) in [(12, 0..12), (13, 0..2), (23, 0..12), (40, 0..12)] {
        let runs = vec![run(70); count];
        assert_eq!(policy.choose(&runs, reclaim).runs, Some(expected), "{count} runs");
    }
}

#[test]
fn too_many_runs_are_lowered_at_the_least_cost() {
    let cheapest = |runs: &[RunFigures]| POLICY.choose_cheapest(runs, u64::MAX);
    assert_eq!(cheapest(&above_large(&[40; 3])), Some(0..3));
    assert_eq!(cheapest(&above_large(&[40; 30])), Some(0..FAN_IN));
    assert_eq!(cheapest(&above_large(&[40, 900, 300, 200, 800])), Some(2..4));
    assert_eq!(cheapest(&[run(300), busy(40), run(300)]), None);
    assert_eq!(cheapest(&[run(300)]), None);
    assert_eq!(cheapest(&[]), None);
    assert_eq!(POLICY.choose_cheapest(&above_large(&[40; 3]), 119 * MIB), None);
}

#[test]
fn idle_store_is_merged_until_its_runs_grow_geometrically() {
    let mut runs: Vec<_> = [40, 40, 150, 700, 2_500, 90_000].map(run).to_vec();
    assert_eq!(choose(&runs, ANY), None);
    assert_eq!(choose(&runs, IDLE), Some(0..5), "the last is much larger than the others");
    runs.splice(0..5, [run(3_430)]);
    assert_eq!(choose(&runs, IDLE), None, "an idle store stays as it is");
    runs[0].is_busy = true;
    assert_eq!(choose(&runs, IDLE), None);
}

#[test]
fn many_small_tables_of_one_run_are_joined() {
    let small = RunFigures { tables: TABLES_JOINED, ..run(200) };
    assert_eq!(choose(&[small], ANY), Some(0..1));
    assert_eq!(choose(&[RunFigures { tables: TABLES_JOINED, ..run(4_000) }], ANY), None);
}

/// A store under a load that writes new rows as fast as it can. Times are in nanoseconds of the
/// model, and follow from bytes alone.
struct SustainedLoad {
    runs: Vec<RunFigures>,
    /// Positions and bytes left of the merge of each thread: any, small.
    merges: [Option<(usize, usize, u64)>; 2],
    active_bytes: u64,
    /// Bytes that are being flushed, and those left.
    flush: Option<(u64, u64)>,
    flushed: u64,
    rewritten: u64,
    longest_pause_ns: u64,
    most_unmerged: usize,
    most_runs: usize,
}

/// Speed of a background thread and of the writers, in bytes per microsecond.
struct Speeds {
    write: u64,
    merge: u64,
}

const TABLE: u64 = 64 * MIB;
const BATCH: u64 = 64 * 1024;

impl SustainedLoad {
    fn new() -> SustainedLoad {
        SustainedLoad {
            runs: Vec::new(),
            merges: [None, None],
            active_bytes: 0,
            flush: None,
            flushed: 0,
            rewritten: 0,
            longest_pause_ns: 0,
            most_unmerged: 0,
            most_runs: 0,
        }
    }

    fn pressure(&self) -> Pressure {
        let counts = RunCounts::of(&self.runs, TABLE);
        Pressure {
            active_bytes: self.active_bytes,
            active_bytes_max: TABLE,
            has_many_dead_rows: false,
            sealed_tables: usize::from(self.flush.is_some()),
            unmerged_runs: counts.unmerged,
            runs: counts.total,
            lacks_merge_space: false,
        }
    }

    /// Writes a batch, and lets the background threads work for as long as that takes. Returns the
    /// nanoseconds.
    fn write(&mut self, speeds: &Speeds) -> u64 {
        let pressure = self.pressure();
        assert!(!pressure.must_wait(), "writers stop: {pressure:?}");
        let pause_ns = pressure.pause(BATCH).as_nanos() as u64;
        self.longest_pause_ns = self.longest_pause_ns.max(pause_ns);
        self.most_unmerged = self.most_unmerged.max(pressure.unmerged_runs);
        self.most_runs = self.most_runs.max(pressure.runs);
        self.active_bytes += BATCH;
        let took_ns = BATCH * 1_000 / speeds.write + pause_ns;
        self.work(took_ns, speeds);
        took_ns
    }

    fn work(&mut self, took_ns: u64, speeds: &Speeds) {
        let done = took_ns * speeds.merge / 1_000;
        self.flush = match self.flush.take() {
            None if self.active_bytes >= TABLE => {
                Some((self.active_bytes, std::mem::take(&mut self.active_bytes)))
            }
            Some((bytes, left)) if left <= done => {
                // Rows take about half as many bytes on disk as in memory.
                self.runs.insert(0, RunFigures { bytes: bytes / 2, ..run(1) });
                self.flushed += bytes / 2;
                for (first, _, _) in self.merges.iter_mut().flatten() {
                    *first += 1;
                }
                None
            }
            flush => flush.map(|(bytes, left)| (bytes, left - done)),
        };
        for thread in [0, 1] {
            self.merges[thread] = match self.merges[thread].take() {
                Some((first, count, left)) if left <= done => {
                    self.end_merge(thread, first, count);
                    None
                }
                Some((first, count, left)) => Some((first, count, left - done)),
                None => self.begin_merge(thread),
            };
        }
    }

    fn begin_merge(&mut self, thread: usize) -> Option<(usize, usize, u64)> {
        let chosen = choose(&self.runs, [ANY, SMALL][thread])?;
        self.runs[chosen.clone()].iter_mut().for_each(|run| run.is_busy = true);
        Some((chosen.start, chosen.len(), bytes(&self.runs[chosen])))
    }

    fn end_merge(&mut self, thread: usize, first: usize, count: usize) {
        let merged: Vec<_> = self.runs.drain(first..first + count).collect();
        assert!(merged.iter().all(|run| run.is_busy));
        let bytes = bytes(&merged);
        self.runs.insert(first, RunFigures { bytes, ..run(1) });
        self.rewritten += bytes;
        if let Some((other, _, _)) = self.merges[1 - thread].as_mut().filter(|at| at.0 > first) {
            *other -= count - 1;
        }
    }
}

/// Writes this many gibibytes; returns the load's state and the nanoseconds.
fn sustain(gibibytes: u64, speeds: &Speeds) -> (SustainedLoad, u64) {
    let mut load = SustainedLoad::new();
    let took_ns = (0..gibibytes * 1_024 * MIB / BATCH).map(|_| load.write(speeds)).sum();
    (load, took_ns)
}

/// 32 GiB in memory are about 130 million rows of 100 bytes.
#[test]
fn sustained_load_never_stops_and_rewrites_each_byte_few_times() {
    // As fast as measured: each background thread handles twice what the writers write.
    let (load, took_ns) = sustain(32, &Speeds { write: 60, merge: 120 });
    assert!(load.most_unmerged <= UNMERGED_RUNS_SLOW.0, "{}", load.most_unmerged);
    assert!(load.most_runs <= RUNS_SLOW.0, "{}", load.most_runs);
    assert_eq!(load.longest_pause_ns, 0, "the threads keep up");
    assert_eq!(took_ns, 32 * 1_024 * MIB / BATCH * (BATCH * 1_000 / 60), "no pause");
    assert!(load.rewritten <= 4 * load.flushed, "{} of {}", load.rewritten, load.flushed);
}

/// Background threads that are slower than the writers: these are slowed to what the threads can
/// do, and no batch ever waits for a merge.
#[test]
fn slow_merges_slow_writers_in_proportion_and_never_stop_them() {
    let fast = sustain(16, &Speeds { write: 60, merge: 120 }).1;
    let mut longest = 0;
    for merge in [50, 25, 12] {
        let (load, took_ns) = sustain(16, &Speeds { write: 60, merge });
        assert!(load.most_unmerged <= 48 && load.most_runs <= 112, "{}", load.most_runs);
        assert!(load.longest_pause_ns <= PAUSE_MAX.as_nanos() as u64);
        // All work of one thread, four times over, would take less than this.
        assert!(took_ns <= fast * 6 * 60 / merge, "{merge}: {took_ns}, {fast}");
        assert!(took_ns > longest, "slower threads slow more");
        longest = took_ns;
    }
    assert!(longest > 2 * fast);
}
