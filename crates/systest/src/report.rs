//! Report of an experiment: one line of figures, or one line with the reason why it was skipped.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Longest message of a panic that is printed at once.
const PANIC_CHARS_MAX: usize = 2_000;

/// Figures of one experiment.
#[derive(Clone, Debug)]
pub struct Figures {
    name: String,
    started: Instant,
    /// Number of calls that were acknowledged.
    pub ok: u64,
    /// Number of calls that certainly had no effect.
    pub fail: u64,
    /// Number of calls whose outcome is unknown.
    pub info: u64,
    /// Number of faults that were injected.
    pub faults: u64,
    /// Number of acknowledged calls whose effect was lost.
    pub lost: u64,
    extra: Vec<(String, String)>,
}

impl Figures {
    /// Starts the figures of an experiment, whose time counts from here.
    pub fn start(name: &str) -> Figures {
        Figures {
            name: name.into(),
            started: Instant::now(),
            ok: 0,
            fail: 0,
            info: 0,
            faults: 0,
            lost: 0,
            extra: Vec::new(),
        }
    }

    /// Returns the experiment's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a figure that only this experiment has.
    pub fn add(&mut self, name: &str, value: impl ToString) {
        self.extra.push((name.into(), value.to_string()));
    }

    /// Returns the milliseconds since the start.
    pub fn milliseconds(&self) -> u128 {
        self.started.elapsed().as_millis()
    }

    /// Prints the line, past the test harness' capture: the figures of a passing run matter too.
    pub fn print(&self) {
        let mut line = format!(
            "{}: calls ok={} fail={} info={} faults={} lost={}",
            self.name, self.ok, self.fail, self.info, self.faults, self.lost
        );
        for (name, value) in &self.extra {
            let _ = write!(line, " {name}={value}");
        }
        let _ = write!(line, " seconds={:.1}", self.started.elapsed().as_secs_f64());
        print_line(&line);
    }
}

/// Checks a measurement against its upper bound and prints the result. In the long form, which runs
/// alone on its machine, a broken bound fails the test.
pub fn check_bound(name: &str, measured: f64, limit: f64) {
    let mut checks = BoundChecks::default();
    checks.check(name, measured, limit);
    checks.assert_bounds();
}

/// Several bounds: all are checked before one that is broken fails the test.
#[derive(Debug, Default)]
pub struct BoundChecks {
    broken: Vec<String>,
}

impl BoundChecks {
    /// Checks a measurement against its upper bound and prints the result.
    pub fn check(&mut self, name: &str, measured: f64, limit: f64) {
        let (is_kept, line) = evaluate_bound(name, measured, limit);
        print_line(&line);
        if !is_kept {
            self.broken.push(line);
        }
    }

    /// Fails the test in its long form if a bound was broken.
    pub fn assert_bounds(self) {
        assert!(self.broken.is_empty() || !is_long_form(), "{:#?}", self.broken);
    }
}

/// Returns true if a bound is kept, and the line to print. NaN breaks every bound.
fn evaluate_bound(name: &str, measured: f64, limit: f64) -> (bool, String) {
    let is_kept = measured <= limit;
    let verdict = if is_kept { "kept" } else { "BROKEN" };
    (is_kept, format!("bound {verdict}: {name}: {measured:.3} of {limit:.3}"))
}

/// Returns the time during a fault divided by the time before; NaN if nothing was measured before.
pub fn ratio(during: Duration, before: Duration) -> f64 {
    if before.is_zero() { f64::NAN } else { during.as_secs_f64() / before.as_secs_f64() }
}

/// Prints a line past the test harness' capture.
pub fn print_line(line: &str) {
    write_line(&mut std::io::stderr().lock(), line);
}

/// Prints each panic's message as soon as it happens, past the test harness' capture. The harness
/// shows it at the end of its output, which a log that is cut at some length loses first.
pub(crate) fn print_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            print_line(&panic_text(thread.name().unwrap_or("?"), &panic.to_string()));
            next(panic);
        }));
    });
}

/// Returns the text of a panic, cut at [`PANIC_CHARS_MAX`].
fn panic_text(thread: &str, message: &str) -> String {
    let message: String = message.chars().take(PANIC_CHARS_MAX).collect();
    format!("{thread}: {message}")
}

/// Writes a line with its end in one call. The harness writes to the same pipe through another
/// handle: between two calls it would insert text of its own, and `./check` reads skips by the
/// line.
fn write_line(out: &mut impl std::io::Write, line: &str) {
    let _ = out.write_all(format!("{line}\n").as_bytes());
}

/// Prints that an experiment did not run, and why. In the long form a skip fails the test, except
/// one that `.ci/skips` lists.
pub fn skipped(name: &str, reason: &str) {
    let line = skip_line(name, reason);
    print_line(&line);
    assert!(
        !is_long_form() || may_be_skipped(&line),
        "{line}\nThe long form needs all its tools: install what is missing (as root `./check \
         long` does), or list the skip in .ci/skips with its reason."
    );
}

/// Returns true if `.ci/skips` lists a test's line, by the same rule as `./check`.
fn may_be_skipped(line: &str) -> bool {
    let mut command = Command::new(crate::tidy::root().join("check"));
    command.args(["skips", "/dev/stdin"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    // A script that ended early accepts no more input; the exit code is its result.
    let _ = writeln!(pipe, "{line}");
    drop(pipe);
    child.wait().expect("a child can be waited for").success()
}

/// Returns the line of a skip, in the form by which `./check` finds it.
pub fn skip_line(name: &str, reason: &str) -> String {
    format!("{name}: skipped: {reason}")
}

/// Returns true if the long form is requested (`make test-long`).
pub fn is_long_form() -> bool {
    std::env::var("CREDENZA_TEST_LONG").is_ok_and(|value| value == "1")
}

/// Returns the short count, or the long one in the long form.
pub fn short_or_long(short: usize, long_count: usize) -> usize {
    if is_long_form() { long_count } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_holds_up_to_its_limit_and_rejects_nan() {
        assert!(evaluate_bound("gap, s", 5.0, 5.0).0);
        assert!(evaluate_bound("gap, s", 0.0, 5.0).0);
        assert!(!evaluate_bound("gap, s", 5.001, 5.0).0);
        assert!(!evaluate_bound("gap, s", f64::NAN, 5.0).0);
        assert_eq!(evaluate_bound("gap, s", 6.0, 5.0).1, "bound BROKEN: gap, s: 6.000 of 5.000");
    }

    #[test]
    fn panic_message_names_its_thread_and_is_cut() {
        assert_eq!(panic_text("page", "it answers:\n  no"), "page: it answers:\n  no");
        let long = panic_text("page", &"é".repeat(PANIC_CHARS_MAX + 1));
        assert_eq!(long.chars().count(), "page: ".len() + PANIC_CHARS_MAX);
    }

    #[test]
    fn bound_checks_collect_every_broken_bound() {
        let mut checks = BoundChecks::default();
        for (name, measured) in [("gap, s", 6.0), ("p99, s", 5.0), ("rate", f64::NAN)] {
            checks.check(name, measured, 5.0);
        }
        let broken: Vec<_> = checks.broken.iter().map(|line| line.contains("BROKEN")).collect();
        assert_eq!(broken, [true, true]);
    }

    #[test]
    fn ratio_to_zero_baseline_is_nan_and_breaks_bounds() {
        let (one, two) = (Duration::from_millis(1), Duration::from_millis(2));
        assert_eq!(ratio(two, one), 2.0);
        assert!(ratio(two, Duration::ZERO).is_nan());
        // No call was answered before or during the fault.
        assert!(!evaluate_bound("p99", ratio(Duration::ZERO, Duration::ZERO), 2.0).0);
    }

    /// A writer that records the bytes of each call.
    #[derive(Default)]
    struct Calls(Vec<Vec<u8>>);

    impl std::io::Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn report_line_and_newline_are_one_write_call() {
        let mut calls = Calls::default();
        write_line(&mut calls, "F-1: skipped: takes its time");
        assert_eq!(calls.0, [b"F-1: skipped: takes its time\n".to_vec()]);
    }
}
