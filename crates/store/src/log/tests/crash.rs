//! Recovery from every state in which a power cut may leave short histories: the recovered records
//! are a prefix that contains all durable ones, and a record that was cut never reappears.

use super::*;
use crate::disk::{Access, DiskCall, crash_states};

/// A step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A record that fits in a sector.
    Small,
    /// Several records in one batch, over many sectors.
    Batch,
    /// A record over two blocks, in a segment of its own.
    Large,
    /// Records until the segment is full.
    Roll,
    /// `commit(true)`.
    Commit,
    /// `commit(false)`.
    Write,
    /// Drops all but the last record.
    Collapse,
    /// Writes the needed records again, syncs them, then collapses everything before.
    Snapshot,
}

const STEPS: [Step; 8] = {
    use Step::*;
    [Small, Batch, Large, Roll, Commit, Write, Collapse, Snapshot]
};

/// Records appended so far, and how many of them are reported durable.
#[derive(Clone, Default)]
struct History {
    records: Vec<(Position, OwnedRecord)>,
    /// Number of durable records.
    durable: usize,
    /// Number of records that a collapse may have removed.
    collapsed: usize,
}

impl History {
    fn append(&mut self, log: &mut Log, bytes: usize) -> Result<(), StoreError> {
        let number = self.records.last().map_or(0, |entry| entry.1.index) + 1;
        self.put(log, record(number, bytes))
    }

    fn put(&mut self, log: &mut Log, record: OwnedRecord) -> Result<(), StoreError> {
        self.records.push((log.append(&record.as_record())?, record));
        Ok(())
    }

    fn collapse(&mut self, log: &mut Log) -> Result<(), StoreError> {
        let needed_position = self.records.last().map_or(Position(0), |entry| entry.0);
        // Also if the call fails, these records may be removed.
        self.collapsed = self.records.iter().take_while(|entry| entry.0 < needed_position).count();
        log.collapse(needed_position).map(drop)
    }

    fn step(&mut self, log: &mut Log, step: Step) -> Result<(), StoreError> {
        match step {
            Step::Small => self.append(log, 20)?,
            Step::Batch => {
                for bytes in [700, 10, 1500] {
                    self.append(log, bytes)?;
                }
            }
            Step::Large => self.append(log, 40_000)?,
            Step::Roll => {
                let segments = log.segments();
                while log.segments() == segments {
                    self.append(log, 3000)?;
                }
            }
            Step::Commit => drop(log.commit(true)?),
            Step::Write => drop(log.commit(false)?),
            Step::Collapse => self.collapse(log)?,
            Step::Snapshot => {
                let number = self.records.last().map_or(0, |entry| entry.1.index) + 1;
                self.put(
                    log,
                    OwnedRecord { kind: RecordKind::Checkpoint, ..record(number, 2500) },
                )?;
                log.commit(true)?;
                self.collapse(log)?;
            }
        }
        Ok(())
    }

    /// Runs steps until one fails.
    fn run(&mut self, log: &mut Log, steps: &[Step]) {
        for step in steps {
            let result = self.step(log, *step);
            self.durable = self.records.iter().take_while(|entry| entry.0 <= log.durable()).count();
            if result.is_err() {
                // A record whose append failed is not in the list; the log accepts no further
                // record.
                return;
            }
        }
    }

    /// Checks that the recovered records are consecutive: from before the first needed one to
    /// behind the last durable one.
    fn check_found(&self, found: &[OwnedRecord]) -> Result<(), String> {
        let all: Vec<&OwnedRecord> = self.records.iter().map(|entry| &entry.1).collect();
        let begin = match found.first() {
            Some(first) => all.iter().position(|it| *it == first).ok_or("a record from nowhere")?,
            None if self.durable <= self.collapsed => return Ok(()),
            None => return Err(format!("all of {} durable records are lost", self.durable)),
        };
        let end = begin + found.len();
        if all.get(begin..end).is_none_or(|run| run.iter().copied().ne(found)) {
            return Err("the records are not the ones that were written, in order".into());
        }
        if begin > self.collapsed || end < self.durable {
            let (durable, collapsed) = (self.durable, self.collapsed);
            return Err(format!("{begin}..{end} found, {collapsed}..{durable} needed"));
        }
        Ok(())
    }
}

/// Returns a generator of numbers below `n`, the same ones for each seed.
fn rng(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |n| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % n as u64) as usize
    }
}

/// Opens the state after a power cut, appends, cuts power again, and opens once more. Returns the
/// number of states tried.
fn check_state(state: &MemoryDisk, history: &History, seed: u64) -> Result<usize, String> {
    let sound = |error: StoreError| format!("does not open: {error}");
    let mut states = 1;
    // Also cut power while it is opened.
    let interrupted = state.copy(Honesty::Honest);
    interrupted.power_off_after(rng(seed)(25) as u64);
    drop(open(&interrupted, SMALL));
    for state in crash_states(&interrupted, 2, &mut rng(seed)) {
        states += 1;
        history.check_found(&open(&state, SMALL).map_err(sound)?.1)?;
    }
    let (mut log, found, _) = open(state, SMALL).map_err(sound)?;
    history.check_found(&found)?;
    let mut all = found;
    for (number, bytes) in [(900, 30), (901, 600), (902, 2500)] {
        let record = record(number, bytes);
        log.append(&record.as_record()).map_err(|error| error.to_string())?;
        all.push(record);
    }
    log.commit(true).map_err(|error| error.to_string())?;
    // The next record is torn or lost; no older record may appear in its place.
    let torn = record(903, 1200);
    log.append(&torn.as_record()).map_err(|error| error.to_string())?;
    log.commit(false).map_err(|error| error.to_string())?;
    drop(log);
    for state in crash_states(state, 3, &mut rng(seed + 1)) {
        states += 1;
        let found = open(&state, SMALL).map_err(sound)?.1;
        let has_torn = found.len() == all.len() + 1 && found.last() == Some(&torn);
        let durable = if has_torn { &found[..all.len()] } else { &found[..] };
        if durable != all {
            return Err(format!("{} of {} records after the second cut", found.len(), all.len()));
        }
    }
    Ok(states)
}

/// A disk and its history before the steps.
struct InitialLog {
    disk: MemoryDisk,
    history: History,
}

/// An empty log.
fn fresh_log() -> InitialLog {
    InitialLog { disk: memory(), history: History::default() }
}

/// A log in its second run whose tail lies in a recycled file, full of frames of an earlier run.
fn recycled_log() -> InitialLog {
    let disk = memory();
    let mut history = History::default();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    use Step::{Collapse, Commit, Roll, Small};
    history.run(&mut log, &[Roll, Commit, Roll, Commit, Collapse, Roll, Small, Commit]);
    drop(log);
    let (mut log, found, _) = open(&disk, SMALL).expect("opens");
    history.check_found(&found).expect("sound");
    history.run(&mut log, &[Small, Commit]);
    assert_eq!(history.durable, history.records.len());
    assert!(names(&disk).iter().any(|name| name.ends_with(".log")));
    InitialLog { disk, history }
}

/// A log whose tail has space for its footer but not for an opening. The next run begins by sealing
/// it.
fn full_log() -> InitialLog {
    let disk = memory();
    let mut history = History::default();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    loop {
        let before = (disk.copy(Honesty::Honest), history.clone());
        history.append(&mut log, 0).expect("appends");
        history.run(&mut log, &[Step::Commit]);
        if log.segments() == 2 {
            let (disk, history) = before;
            let probe = disk.copy(Honesty::Honest);
            let (mut log, ..) = open(&probe, SMALL).expect("opens");
            history.clone().append(&mut log, 0).expect("appends");
            assert_eq!(log.segments(), 2);
            let header = segment::Segment::open(&probe, 2, Access::Read).expect("opens").header;
            assert_eq!(header.generation, 3, "the footer has the second generation");
            return InitialLog { disk, history };
        }
    }
}

/// Tries a history with a power cut after each of its calls, each time with up to `max` states of
/// the disk. `inject_fault` may add a fault to the disk.
fn try_history(
    initial: &InitialLog,
    steps: &[Step],
    max: usize,
    inject_fault: &dyn Fn(&MemoryDisk),
) -> Result<usize, String> {
    let mut states = 0;
    for calls in 1.. {
        let disk = initial.disk.copy(Honesty::Honest);
        disk.power_off_after(calls);
        inject_fault(&disk);
        let mut history = initial.history.clone();
        if let Ok((mut log, ..)) = open(&disk, SMALL) {
            history.run(&mut log, steps);
        }
        for (number, state) in crash_states(&disk, max, &mut rng(calls)).iter().enumerate() {
            states +=
                check_state(state, &history, calls * 100 + number as u64).map_err(|error| {
                    format!("{steps:?}, power off after call {calls}, state {number}: {error}")
                })?;
        }
        if disk.calls() <= calls {
            break;
        }
    }
    Ok(states)
}

/// Returns all histories of up to two steps, and every `nth` of three, each with a final commit.
fn histories(nth: usize) -> Vec<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = vec![vec![]];
    let mut longest = all.clone();
    for _ in 0..3 {
        longest = longest
            .iter()
            .flat_map(|steps| STEPS.map(|step| [steps.as_slice(), &[step]].concat()))
            .collect();
        all.extend(longest.iter().cloned());
    }
    all.into_iter()
        .enumerate()
        .filter(|(number, steps)| steps.len() < 3 || number % nth == 0)
        .map(|(_, steps)| [steps.as_slice(), &[Step::Commit]].concat())
        .collect()
}

#[test]
fn recovery_after_power_cut_finds_a_prefix_with_all_durable_records() {
    let mut states = 0;
    for (name, initial) in
        [("fresh", fresh_log()), ("recycled", recycled_log()), ("full", full_log())]
    {
        let before = states;
        for steps in histories(9) {
            states += try_history(&initial, &steps, 6, &|_| {}).expect("sound");
        }
        println!("{} crash states of a {name} log", states - before);
    }
    println!("{states} crash states");
    assert!(states >= 10_000, "{states}");
}

/// Returns the syncs among the first `count` that must not be skipped, according to `check_found`.
fn needed_syncs(initial: &InitialLog, steps: &[Step], sync: DiskCall, count: u64) -> Vec<u64> {
    let is_needed = |nth: &u64| {
        let verdict = try_history(initial, steps, 12, &|disk| disk.skip_nth(sync, *nth));
        let Err(error) = verdict else { return false };
        let texts = ["lost", "needed", "damaged"];
        assert!(texts.iter().any(|text| error.contains(text)), "{error}");
        true
    };
    (1..=count).filter(is_needed).collect()
}

/// The positive control: the same check, and a log that skips one of its syncs. These are not
/// needed: the syncs of a spare's zeros (the header's sync covers them), the sync of bytes that
/// were durable before the log was opened, and the sync of a name which the next one covers.
#[test]
fn crash_checker_detects_each_needed_sync_that_is_omitted() {
    let (fresh, recycled) = (fresh_log(), recycled_log());
    use DiskCall::{Sync, SyncDirectory};
    use Step::{Batch, Collapse, Commit, Roll, Small, Write};
    let short = [Small, Commit, Batch, Commit];
    assert_eq!(needed_syncs(&fresh, &short, Sync, 4), [2, 3, 4], "its header, two commits");
    assert_eq!(needed_syncs(&fresh, &short, SyncDirectory, 1), [1], "its name");
    let long = [Collapse, Roll, Commit, Roll, Write, Collapse, Roll, Commit];
    assert_eq!(needed_syncs(&fresh, &long, Sync, 12), [2, 4, 5, 6, 8, 9, 10, 11, 12]);
    assert_eq!(needed_syncs(&fresh, &long, SyncDirectory, 6), [1, 2, 4, 6]);
    assert_eq!(needed_syncs(&recycled, &long, Sync, 10), [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(needed_syncs(&recycled, &long, SyncDirectory, 7), [3, 5, 7]);
    assert_eq!(needed_syncs(&recycled, &[Batch, Write], Sync, 2), [2], "the new life's opening");
}
