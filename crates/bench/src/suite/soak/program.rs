//! One run of a soak on a store without a server: its benchmark program, step by step.
//!
//! Processor time, memory and bytes written are those of the program's process, read from outside,
//! as for a server; what the program prints of them is ignored. The time of an operation is the
//! program's own.

use super::run::{MEBIBYTE, load_average, rounded};
use super::{
    DISK_BYTES, DISK_BYTES_MERGED, DISK_SPACE, DISK_SPACE_MERGED, MEMORY, MEMORY_PEAK, RESTART,
    SERVER_US, Series, Soak, SoakRun,
};
use crate::median::median;
use crate::suite::point::{SuitePaths, absent, is_program_found};
use crate::suite::process::{Process, ended_cpu_seconds};
use crate::suite::server::create_data;
use crate::suite::store_program::{
    ProgramResult, ProgramStep, StoreProgram, db_bench_version, parse_db_bench, parse_report,
};
use crate::suite::work::{Placeholders, fill_placeholders};
use load_generator::console::print_progress;
use load_generator::disk;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval at which the process is looked at; what it writes in its last one is not counted.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Interval of the samples of memory, and of the lines of progress.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Resources that a step used.
#[derive(Default)]
struct StepResources {
    output: String,
    seconds: f64,
    cpu_seconds: f64,
    written_bytes: u64,
    peak_bytes: u64,
    memory: Series,
}

/// Runs all steps of a program on a fresh directory.
pub(super) fn run(
    soak: &Soak,
    (name, program): (&str, &StoreProgram),
    paths: &SuitePaths,
) -> Result<SoakRun, String> {
    if !is_program_found(program.command()) {
        return Err(absent(program.command(), &program.install));
    }
    let load_average = load_average();
    let data = create_data(paths, name)?;
    let mut run = SoakRun {
        soak: soak.name.clone(),
        server: name.into(),
        load_average,
        fdatasync_us: disk::fdatasync_us(&data.0)?,
        ..SoakRun::default()
    };
    let rows = soak.size.unwrap_or(1) * 1_000_000;
    let placeholders =
        Placeholders::from([("data", data.0.display().to_string()), ("rows", rows.to_string())]);
    let (mut written, mut peak) = (0, 0);
    for (index, step) in program.steps.iter().enumerate() {
        let log = paths.logs.join(format!("{name}-{index}.log"));
        let label = format!("{}: {name}, {}", soak.name, step.name);
        let resources = run_step(step, &placeholders, (&data.0, &log), &label)?;
        written += resources.written_bytes;
        peak = peak.max(resources.peak_bytes);
        if run.version.is_empty() {
            run.version = db_bench_version(&resources.output);
        }
        let figure = |figure: &str| format!("{} {figure}", step.name);
        if step.is_restart {
            run.whole.insert(RESTART.into(), resources.seconds * 1000.0);
        } else if let Some(result) = parse_db_bench(&resources.output) {
            run.add_result(&step.name, &result);
            let us = resources.cpu_seconds * 1e6 / result.operations.max(1) as f64;
            let whole = if index == 0 { SERVER_US.into() } else { figure(SERVER_US) };
            run.whole.insert(whole, us);
        }
        if index == 0 {
            let report = step.report.as_deref().map(|file| fill_placeholders(file, &placeholders));
            let report = report.and_then(|file| std::fs::read_to_string(file).ok());
            let rates = parse_report(&report.unwrap_or_default());
            run.series.insert(figure("rate"), rounded(rates));
            run.whole.insert(MEMORY.into(), median(resources.memory.iter().map(|(_, y)| *y)));
            run.series.insert(MEMORY.into(), rounded(resources.memory));
            run.add_disk((DISK_BYTES, DISK_SPACE), &data.0, written, rows)?;
        }
    }
    run.add_disk((DISK_BYTES_MERGED, DISK_SPACE_MERGED), &data.0, written, rows)?;
    run.whole.insert(MEMORY_PEAK.into(), peak as f64 / MEBIBYTE);
    Ok(run)
}

impl SoakRun {
    fn add_result(&mut self, step: &str, result: &ProgramResult) {
        let rate = result.operations as f64 / result.seconds.max(1e-9);
        for (figure, value) in [
            ("rate", rate),
            ("p50", result.p50_us / 1000.0),
            ("p99", result.p99_us / 1000.0),
            ("p99.9", result.p99_9_us / 1000.0),
            ("max", result.max_us / 1000.0),
        ] {
            self.whole.insert(format!("{step} {figure}"), value);
        }
    }

    fn add_disk(
        &mut self,
        (bytes_figure, space_figure): (&str, &str),
        data: &Path,
        written: u64,
        rows: u64,
    ) -> Result<(), String> {
        self.whole.insert(bytes_figure.into(), written as f64 / rows.max(1) as f64);
        self.whole.insert(space_figure.into(), disk::used_bytes(data)? as f64 / MEBIBYTE);
        Ok(())
    }
}

/// Runs one step to its end, and looks at its process meanwhile.
fn run_step(
    step: &ProgramStep,
    placeholders: &Placeholders,
    (data, log): (&Path, &PathBuf),
    label: &str,
) -> Result<StepResources, String> {
    let command: Vec<_> =
        step.command.iter().map(|argument| fill_placeholders(argument, placeholders)).collect();
    let mut resources = StepResources::default();
    let ended_before = ended_cpu_seconds();
    let begin = Instant::now();
    let (mut next_sample, mut next_line) = (SAMPLE_INTERVAL, LINE_INTERVAL);
    let mut process = Process::start(&command, None, data, log)?;
    while process.is_running().map_err(|error| format!("{}: {error}", step.name))? {
        // An ended process has no figures any more: the largest that were seen count.
        resources.written_bytes = resources.written_bytes.max(process.written_bytes());
        resources.peak_bytes = resources.peak_bytes.max(process.memory_bytes());
        let elapsed = begin.elapsed();
        if elapsed >= next_sample {
            let memory = process.resident_bytes() as f64 / MEBIBYTE;
            resources.memory.push((elapsed.as_secs_f64(), memory));
            next_sample += SAMPLE_INTERVAL;
        }
        if elapsed >= next_line {
            let (seconds, peak) = (elapsed.as_secs(), resources.peak_bytes >> 20);
            print_progress(&format!("    {seconds:>6} s  {label}: {peak} MiB\n"));
            next_line += LINE_INTERVAL;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    resources.seconds = begin.elapsed().as_secs_f64();
    resources.cpu_seconds = ended_cpu_seconds() - ended_before;
    resources.output = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::file::{LoadOverrides, Suite};
    use load_generator::config::Items;

    /// Suite with a store whose program is a shell that prints what `db_bench` prints.
    const TEXT: &str = r#"
name = "try"
[server.a]
command = ["a"]
driver = { driver = "null" }
[program.rocks]
install = "apt-get install -y rocksdb-tools"
[[program.rocks.step]]
name = "writers"
report = "{data}/report.csv"
command = ["sh", "-c", """
echo 'RocksDB:    version 7.8.3'
echo 'fill : 3.8 micros/op 250000 ops/sec 4.000 seconds {rows} operations; 28.5 MB/s'
echo 'Min: 449  Median: 865.7  Max: 39000'
echo 'Percentiles: P50: 800.00 P75: 1091.12 P99: 3000.00 P99.9: 36000.00 P99.99: 39000.00'
printf 'secs_elapsed,interval_qps\n1,250000\n' > {data}/report.csv"""]
[[program.rocks.step]]
name = "restart"
restart = true
command = ["true"]
[[soak]]
name = "{millions} million rows"
sizes = [2]
servers = ["a", "rocks"]
load = [{ name = "writers", operations = [["put", 1]] }]
"#;

    /// Runs the soak in a folder of this name.
    fn soak_run(name: &str, text: &str) -> Result<SoakRun, String> {
        let suite = Suite::read(Items::parse("s.toml", text)?, &LoadOverrides::default())?;
        let folder =
            std::env::temp_dir().join(format!("bench-program-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("created");
        let paths = SuitePaths {
            program: PathBuf::new(),
            peers: PathBuf::new(),
            data: folder.clone(),
            logs: folder.clone(),
        };
        let program = ("rocks", &suite.programs["rocks"]);
        let result = run(&suite.soaks[0], program, &paths);
        std::fs::remove_dir_all(&folder).expect("removed");
        result
    }

    #[test]
    fn figures_of_a_store_program_have_the_names_of_a_servers() {
        let run = soak_run("store", TEXT).expect("it runs");
        assert_eq!((run.soak.as_str(), run.version.as_str()), ("2 million rows", "rocksdb 7.8.3"));
        let figure = |name: &str| run.whole.get(name).copied();
        assert_eq!(figure("writers rate"), Some(500_000.0));
        assert_eq!(figure("writers max"), Some(39.0));
        assert_eq!(run.series["writers rate"], [(1.0, 250_000.0)]);
        for name in [SERVER_US, DISK_BYTES, DISK_SPACE, DISK_SPACE_MERGED, MEMORY_PEAK, RESTART] {
            assert!(figure(name).is_some_and(|value| value >= 0.0), "{name}: {:?}", run.whole);
        }
    }

    #[test]
    fn absent_store_program_is_named_with_the_command_that_installs_it() {
        let absent = TEXT.replace("\"sh\"", "\"no-such-program\"");
        let error = soak_run("absent", &absent).expect_err("absent");
        assert!(error.contains("`no-such-program` is not here: apt-get install"), "{error}");
        let failing = TEXT.replace("[\"true\"]", "[\"false\"]");
        let error = soak_run("failing", &failing).expect_err("it fails");
        assert!(error.contains("restart: it ended"), "{error}");
    }
}
