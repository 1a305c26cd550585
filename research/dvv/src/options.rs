//! Options of the study, and its command line.

use clap::Parser;
use load_generator::error::BenchError;
use std::path::PathBuf;
use std::time::Duration;

/// Shown below the help.
const EXAMPLES: &str = "\
Examples:
  dvv-study --quick                        a short look: 20 seconds a run, values of 1 KB
  dvv-study -d /tmp/study                  the study as it was published
  dvv-study --product 15                   and each mix for 15 seconds on six nodes of Credenza
  dvv-study --documents docs               put the results into docs/performance/dvv.md
  dvv-study --resume tests/dvv-20260301_120000/results.json
                                           go on with a study that was interrupted";

/// Seconds of a run in a quick study.
const QUICK_SECONDS_MAX: u64 = 20;

/// Compares version vectors, dotted version vectors and DVV sets under the same load.
#[derive(Parser, Debug)]
#[command(name = "dvv-study", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(about = "Compare version vectors, dotted version vectors and DVV sets under one load")]
pub struct StudyArguments {
    /// Say errors as JSON
    #[arg(long)]
    pub json: bool,
    /// Folder below which results are written, in one of their own
    #[arg(short = 'd', long, value_name = "DIR", default_value = "tests")]
    results_dir: PathBuf,
    /// Put the results into performance/dvv.md of this folder of documents
    #[arg(long, value_name = "DIR")]
    documents: Option<PathBuf>,
    /// Length of each run, in seconds of the study's own time
    #[arg(long, value_name = "N", default_value_t = 300)]
    seconds: u64,
    /// A short look: 20 seconds each, and 1 KB only
    #[arg(long)]
    quick: bool,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 500)]
    clients: u32,
    /// Keys
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    keys: u32,
    /// Seed of everything that chance decides
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Run each mix so many seconds on six nodes of the database too; `credenza` must lie beside
    /// this program or in PATH
    #[arg(long, value_name = "SECONDS")]
    product: Option<u64>,
    /// Take the runs that this results.json of an interrupted study holds
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Options of a study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Folder of the results.
    pub results: PathBuf,
    /// Folder of documents whose `performance/dvv.md` gets the results. `None`: no document.
    pub documents: Option<PathBuf>,
    /// Length of each run in simulated time.
    pub time: Duration,
    /// Number of clients.
    pub clients: usize,
    /// Number of keys.
    pub keys: u64,
    /// Sizes of the values, bytes; each is run.
    pub value_bytes: Vec<usize>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Length of each mix on six nodes of the database. `None`: they are not started.
    pub product: Option<Duration>,
    /// Results of an interrupted study of the same options, whose runs are reused.
    pub resume: Option<PathBuf>,
}

impl StudyArguments {
    /// Returns the options. Fails if an argument is out of bounds.
    pub fn options(self) -> Result<StudyOptions, BenchError> {
        let within = |what: &str, number: u64, most: u64| match number {
            number if (1..=most).contains(&number) => Ok(number),
            _ => Err(BenchError::from(format!("--{what} wants 1 to {most}"))),
        };
        let seconds = within("seconds", self.seconds, 86_400)?;
        let seconds = if self.quick { seconds.min(QUICK_SECONDS_MAX) } else { seconds };
        Ok(StudyOptions {
            results: self.results_dir,
            documents: self.documents,
            time: Duration::from_secs(seconds),
            clients: within("clients", self.clients.into(), 10_000)? as usize,
            keys: within("keys", self.keys.into(), 10_000_000)?,
            value_bytes: if self.quick { vec![1024] } else { vec![1024, 5 * 1024] },
            seed: self.seed,
            product: self.product.map(|seconds| Duration::from_secs(seconds.clamp(1, 3_600))),
            resume: self.resume,
        })
    }
}
