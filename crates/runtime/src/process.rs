//! Metrics of this process, under the names that dashboards of any program know.

use crate::sample::{Sample, SampleKind};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Returns memory, CPU time and open files of the process; omits those that the system does not
/// report.
pub fn samples() -> impl Iterator<Item = Sample> {
    let used = seconds_of(ClockId::ProcessCPUTime);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let files = fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64);
    [
        (
            "process_cpu_seconds_total",
            "Total user and system CPU time in seconds.",
            SampleKind::Counter,
            Some(used),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            SampleKind::Gauge,
            resident_bytes(&status),
        ),
        ("process_open_fds", "Number of open file descriptors.", SampleKind::Gauge, files),
    ]
    .into_iter()
    .filter_map(|(name, help, kind, value)| {
        Some(Sample { name, help, kind, labels: vec![], value: value? })
    })
}

/// Memory of this process, in bytes. `None` if the system does not report it.
pub fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    resident_bytes(&status).map(|bytes| bytes as u64)
}

/// Returns a measure of the bytes that the calling thread reads and writes, for other threads to
/// ask. It returns `None` if the system does not report them.
pub fn thread_io() -> impl Fn() -> Option<u64> + Send + Sync + 'static {
    // A link to `PID/task/TID`.
    let thread = fs::read_link("/proc/thread-self").ok();
    move || {
        let path = std::path::Path::new("/proc").join(thread.as_ref()?).join("io");
        io_bytes(&fs::read_to_string(path).ok()?)
    }
}

/// Returns the bytes that passed through system calls.
fn io_bytes(io: &str) -> Option<u64> {
    let figure = |name: &str| {
        io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    Some(figure("rchar:")?.wrapping_add(figure("wchar:")?))
}

/// Returns the time of a clock, in seconds.
fn seconds_of(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Unit of CPU time in `/proc`, as a fraction of a second (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of the program itself, and of the system on its behalf, in seconds. 0 if the
/// system does not report it.
pub fn processor_seconds() -> (f64, f64) {
    ticks(&fs::read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or_default()
}

/// Returns the 14th and 15th field, counted from the program's name, which may contain spaces.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut seconds = fields.split(' ').skip(11).map(|field| {
        let ticks: u64 = field.parse().ok()?;
        Some(ticks as f64 / TICKS_PER_SECOND)
    });
    Some((seconds.next()??, seconds.next()??))
}

/// Parses the line `VmRSS:    1234 kB`. Returns bytes.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::{
        ClockId, io_bytes, processor_seconds, resident_bytes, samples, seconds_of, thread_io, ticks,
    };

    /// CPU time that a test uses, in seconds; many times the error of the comparison.
    const CPU_SECONDS: f64 = 0.2;

    /// Uses processor time of this thread, however much else the machine does.
    fn burn() {
        let until = seconds_of(ClockId::ThreadCPUTime) + CPU_SECONDS;
        while seconds_of(ClockId::ThreadCPUTime) < until {
            std::hint::black_box((0..std::hint::black_box(1_000_u64)).sum::<u64>());
        }
    }

    #[test]
    fn process_metrics_report_memory_cpu_and_open_files() {
        let found: Vec<_> = samples().map(|sample| (sample.name, sample.value)).collect();
        let value_of = |name| found.iter().find(|(known, _)| *known == name).expect(name).1;
        assert!(value_of("process_resident_memory_bytes") > 1e6, "{found:?}");
        assert!(value_of("process_cpu_seconds_total") > 0.0, "{found:?}");
        assert!(value_of("process_open_fds") >= 3.0, "{found:?}");
    }

    #[test]
    fn cpu_ticks_parse_with_parentheses_in_program_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20";
        assert_eq!(ticks(stat), Some((2.5, 0.31)));
        assert_eq!((ticks("7 (a) S 1"), ticks("")), (None, None));
    }

    #[test]
    fn cpu_seconds_agree_with_process_clock() {
        // Twice: what stands still, or is another process' time, does not pass both.
        for _ in 0..2 {
            burn();
            let before = seconds_of(ClockId::ProcessCPUTime);
            let (own, system) = processor_seconds();
            let after = seconds_of(ClockId::ProcessCPUTime);
            // Each of both is cut to whole ticks.
            let error = 3.0 / super::TICKS_PER_SECOND;
            let (used, range) = (own + system, before - error..after + error);
            assert!(range.contains(&used), "{own} and {system}: not in {range:?}");
        }
    }

    #[test]
    fn cpu_seconds_metric_grows_by_cpu_used() {
        let used = || {
            let mut all = samples();
            let found = all.find(|sample| sample.name == "process_cpu_seconds_total");
            found.expect("it is told").value
        };
        let before = used();
        burn();
        let (after, (own, system)) = (used(), processor_seconds());
        assert!(after - before >= CPU_SECONDS, "{before} to {after}");
        assert!(after <= own + system + 3.0 / super::TICKS_PER_SECOND, "{after}: {own}, {system}");
    }

    #[test]
    fn bytes_of_a_thread_are_readable_from_another_and_grow_by_its_writes() {
        let probe = thread_io();
        let before = probe();
        std::fs::read_to_string("/proc/self/status").expect("it is Linux");
        let after = std::thread::spawn(probe).join().expect("it returns");
        assert!(after > before && before.is_some(), "{before:?} {after:?}");
        assert_eq!(io_bytes("rchar: 5\nwchar: 7\nsyscr: 1\n"), Some(12));
        assert_eq!(io_bytes("rchar: many\n"), None);
    }

    #[test]
    fn resident_memory_is_none_if_status_lacks_a_number() {
        assert_eq!(resident_bytes("VmPeak: 9 kB\nVmRSS:\t    1234 kB\n"), Some(1_263_616.0));
        assert_eq!(resident_bytes("VmRSS: many kB"), None);
        assert_eq!(resident_bytes(""), None);
    }
}
