//! Runs of targets: one input with its bounds, a corpus with its changes, and libFuzzer's calls.

use crate::mutation::Mutator;
use crate::target::Target;
use crate::{memory, panics};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Kept inputs of a target, in the order of their files' names.
pub struct Corpus {
    /// Name of each file, and its bytes.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Corpus {
    /// Returns the folder of a target's corpus.
    pub fn folder(target: &Target) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
    }

    /// Reads the corpus of a target.
    pub fn read(target: &Target) -> Corpus {
        let entries = fs::read_dir(Corpus::folder(target)).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                Some((name, fs::read(entry.path()).ok()?))
            })
            .collect();
        files.sort();
        Corpus { files }
    }

    /// Returns the inputs alone.
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        self.files.iter().map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// Runs one input. Errors: a description of what did not hold.
pub fn check(target: &Target, input: &[u8]) -> Result<(), String> {
    // The peak of memory and the panics are the process': one input at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let run = || catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let ((outcome, peak_bytes), panics) = panics::record(|| memory::measure_peak(run));
    if outcome.is_err() || !panics.is_empty() {
        return Err(panics.join("\n"));
    }
    check_memory(target, peak_bytes)
}

fn check_memory(target: &Target, peak_bytes: usize) -> Result<(), String> {
    match peak_bytes <= target.memory_bytes_max {
        true => Ok(()),
        false => Err(format!("{peak_bytes} bytes of at most {}", target.memory_bytes_max)),
    }
}

/// Runs a target's corpus, and `cases` changes of it from one seed. Returns the number of inputs.
/// Errors: what did not hold, with the input and the way to repeat it.
pub fn attack(target: &Target, cases: usize, seed: u64) -> Result<usize, String> {
    let corpus = Corpus::read(target);
    for (name, bytes) in &corpus.files {
        let file = format!("crates/fuzz/corpus/{}/{name}", target.name);
        check(target, bytes).map_err(|what| format!("{file}: {what}"))?;
    }
    let inputs = corpus.inputs();
    let mut mutator = Mutator::new(&inputs, seed, target.input_bytes_max);
    for _ in 0..cases {
        let input = mutator.generate();
        check(target, &input).map_err(|what| describe_failure(target, &input, &what))?;
    }
    Ok(inputs.len() + cases)
}

/// Keeps an input that failed, and describes it.
fn describe_failure(target: &Target, input: &[u8], what: &str) -> String {
    let name = format!("crash-{:016x}", base::codec::checksum(input, 0));
    let path = Corpus::folder(target).join(&name);
    let kept = fs::write(&path, input).is_ok();
    let kept = if kept { path.display().to_string() } else { input.escape_ascii().to_string() };
    format!(
        "{}: {what}\nthe input is kept in {kept}; `FUZZ_TARGET={} FUZZ_INPUT={name} cargo test -p \
         fuzz` repeats it",
        target.name, target.name
    )
}

/// Runs one input for libFuzzer, of the target that FUZZ_TARGET names. Whatever does not hold ends
/// the process.
pub fn run_guided(input: &[u8]) {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    let target = CHOSEN.get_or_init(|| {
        panics::abort_at_any();
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name}: there is no such one"))
    });
    let ((), peak_bytes) = memory::measure_peak(|| (target.run)(input));
    if let Err(what) = check_memory(target, peak_bytes) {
        panic!("{what}");
    }
}
