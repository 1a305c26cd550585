//! Run of a suite: rounds of its points, its soaks, and the results after each of them.

use super::SuiteOptions;
use super::file::{LoadOverrides, Suite};
use super::measure::Measure;
use super::output;
use super::point::{PointRun, SuitePaths, check_installed};
use super::results::{Results, Run};
use super::soak::{self, Soak};
use super::{create_directory, point};
use crate::codec;
use load_generator::config::Items;
use load_generator::error::BenchError;
use load_generator::machine::{Machine, allow_many_files, current_commit};
use load_generator::report::time_name;
use std::path::PathBuf;
use std::time::SystemTime;

/// The point that needs no server.
const CODEC: &str = "codec";

/// A suite that is being run.
struct SuiteRun<'a> {
    suite: &'a Suite,
    /// The suite without options of the command line: its documents have all that was measured.
    whole: &'a Suite,
    options: &'a SuiteOptions,
    paths: SuitePaths,
    results: Results,
    /// Results that the documents had before.
    previous: Option<Results>,
    print_line: &'a mut dyn FnMut(&str),
    /// Number of runs that are done, and of all.
    done: usize,
    total: usize,
}

/// Runs a suite and writes its results; returns the folder and the Markdown text.
pub fn run(
    file: &str,
    text: &str,
    options: &SuiteOptions,
    print_line: &mut dyn FnMut(&str),
) -> Result<(PathBuf, String), BenchError> {
    allow_many_files();
    let suite = Suite::read(Items::parse(file, text)?, &options.overrides)?;
    let whole = Suite::read(Items::parse(file, text)?, &LoadOverrides::default())?;
    check_names(&suite, &options.only)?;
    let (folder, results) = begin(&suite, options)?;
    let data = options.data.clone().unwrap_or_else(|| folder.join("data"));
    create_directory(&data)?;
    let program = options.program.clone().map_or_else(
        || Ok(program::sibling_program("credenza")),
        |path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display())),
    )?;
    let paths = SuitePaths {
        program,
        peers: options.peers.canonicalize().unwrap_or_else(|_| options.peers.clone()),
        data: data.canonicalize().map_err(|error| error.to_string())?,
        logs: folder.clone(),
    };
    let documents = options.documents.as_deref();
    let previous = documents.and_then(|folder| Results::read(&output::folder_of(&suite, folder)?));
    let whole = &whole;
    let mut run = SuiteRun {
        suite: &suite,
        whole,
        options,
        paths,
        results,
        previous,
        print_line,
        done: 0,
        total: 0,
    };
    run.leave_out_absent_servers();
    run.measure_codec()?;
    run.run_rounds()?;
    run.run_soaks()?;
    // The data directories are gone, so their parent is empty.
    let _ = std::fs::remove_dir(&data);
    let text = output::write(&suite, &run.results, &folder)?;
    match run.results.failures.as_slice() {
        [] => Ok((folder, text)),
        [first, ..] => Err(BenchError::unavailable(format!(
            "{} runs failed, the others are in {}; the first: {first}",
            run.results.failures.len(),
            folder.display(),
        ))),
    }
}

/// Returns the folder of the run with its results: a new one, or the newest of this commit, machine
/// and kind, which is continued.
fn begin(suite: &Suite, options: &SuiteOptions) -> Result<(PathBuf, Results), String> {
    let started = time_name(SystemTime::now());
    let (machine, commit) = (Machine::current(), current_commit());
    let new = Results::new(suite, started.clone(), commit, machine);
    let unfinished = if options.resume { unfinished(&new, options) } else { None };
    if let Some((folder, mut results)) = unfinished {
        // What failed is tried again.
        results.failures.clear();
        return Ok((folder, results));
    }
    let folder = options.results.join(format!("{}-{started}", suite.name));
    create_directory(&folder)?;
    Ok((folder.canonicalize().map_err(|error| error.to_string())?, new))
}

/// Returns the newest run that can be continued. `None`: there is none.
fn unfinished(new: &Results, options: &SuiteOptions) -> Option<(PathBuf, Results)> {
    let prefix = format!("{}-2", new.name);
    let entries = std::fs::read_dir(&options.results).ok()?.flatten();
    let is_of_suite =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(is_of_suite).collect();
    folders.sort_unstable();
    let folder = folders.pop()?.canonicalize().ok()?;
    let results = Results::read(&folder)?;
    let quick = options.overrides.quick;
    let is_same = results.commit == new.commit
        && !new.commit.is_empty()
        && !new.commit.ends_with('+')
        && results.machine == new.machine
        && results.points.iter().all(|point| point.quick == quick)
        && results.soaks.iter().all(|run| run.quick == quick);
    is_same.then_some((folder, results))
}

impl SuiteRun<'_> {
    /// Records the servers and stores whose programs are absent, and says how to get them.
    fn leave_out_absent_servers(&mut self) {
        self.results.left_out.clear();
        let used = self.suite.used_servers();
        let servers = self
            .suite
            .servers
            .iter()
            .map(|(name, server)| (name, check_installed(server, &self.paths)));
        let programs = self.suite.programs.iter().map(|(name, program)| {
            let is_found = point::is_program_found(program.command());
            let absent = || point::absent(program.command(), &program.install);
            (name, if is_found { Ok(()) } else { Err(absent()) })
        });
        for (name, installed) in servers.chain(programs).filter(|(name, _)| used.contains(name)) {
            if let Err(error) = installed {
                (self.print_line)(&format!("{name} is left out: {error}\n"));
                self.results.left_out.push(name.clone());
            }
        }
    }

    fn measure_codec(&mut self) -> Result<(), String> {
        let only = &self.options.only;
        let is_selected = only.is_empty() || only.iter().any(|name| name == CODEC);
        if is_selected && !self.suite.codec.is_zero() && self.results.codec.is_empty() {
            self.results.codec = codec::measure(self.suite.codec)?;
        }
        Ok(())
    }

    fn is_quick(&self) -> bool {
        self.options.overrides.quick
    }

    fn rounds_of(&self, measure: &Measure) -> usize {
        self.options.repeat.or(measure.repeat).unwrap_or(self.suite.repeat)
    }

    fn is_left_out(&self, server: &String) -> bool {
        self.results.left_out.contains(server)
    }

    /// Runs every selected point, round by round: every point once, on each point the servers in
    /// turn.
    fn run_rounds(&mut self) -> Result<(), String> {
        let suite = self.suite;
        let selected: Vec<_> = suite
            .points()
            .filter(|(measure, _)| measure.is_selected(&self.options.only, self.is_quick()))
            .collect();
        let runs_of = |(measure, _): &(&Measure, usize)| {
            let servers = measure.servers.iter().filter(|server| !self.is_left_out(server));
            servers.count() * self.rounds_of(measure)
        };
        self.total = selected.iter().map(runs_of).sum();
        let rounds_max = selected.iter().map(|(measure, _)| self.rounds_of(measure)).max();
        for round in 1..=rounds_max.unwrap_or(0) {
            for (measure, clients) in &selected {
                if round <= self.rounds_of(measure) {
                    self.run_point(measure, *clients, round)?;
                }
            }
            // The document is written after every round, so that an interrupted suite leaves one of
            // complete rounds.
            self.write_document()?;
        }
        Ok(())
    }

    /// Runs one round of a point. A failed run is recorded, and the other runs continue.
    fn run_point(&mut self, measure: &Measure, clients: usize, round: usize) -> Result<(), String> {
        // The first server of a round has an idle disk and free memory, the next one has not; so
        // the order alternates.
        let mut order: Vec<_> = measure.servers.iter().collect();
        if round.is_multiple_of(2) {
            order.reverse();
        }
        for server in order {
            if self.is_left_out(server) {
                continue;
            }
            self.done += 1;
            if self.results.run_count(&measure.name, server, clients) >= round {
                continue;
            }
            let point = PointRun { suite: self.suite, measure, server, clients };
            let run = point.run(&self.paths, None);
            let line = run.as_ref().map_or_else(Clone::clone, Run::line);
            let (rounds, count) =
                (self.rounds_of(measure), format!("{}/{}", self.done, self.total));
            (self.print_line)(&format!(
                "{count:>9} round {round}/{rounds} {:<34} {clients:>5} clients  {server:<18} \
                 {line}\n",
                measure.name
            ));
            match run {
                Ok(run) => {
                    let quick = self.is_quick();
                    self.results.add(&measure.name, server, clients, quick, run);
                }
                Err(error) => self.results.failures.push(error),
            }
            // The results are written after every run, so that an interrupted suite keeps them.
            self.results.write(&self.paths.logs)?;
        }
        Ok(())
    }

    /// Runs every selected soak once, its servers in turn, then checks its bounds.
    fn run_soaks(&mut self) -> Result<(), String> {
        let suite = self.suite;
        for soak in &suite.soaks {
            if soak.is_selected(&self.options.only, self.is_quick()) {
                self.run_soak(soak)?;
            }
        }
        Ok(())
    }

    fn run_soak(&mut self, soak: &Soak) -> Result<(), String> {
        for server in &soak.servers {
            if self.is_left_out(server) || self.results.has_soak(&soak.name, server) {
                continue;
            }
            let run = soak::run(self.suite, soak, server, &self.paths, None);
            let line = run.as_ref().map_or_else(Clone::clone, soak::SoakRun::line);
            (self.print_line)(&format!("{:<24} {server:<18} {line}\n", soak.name));
            match run {
                Ok(run) => self.results.add_soak(run, self.options.overrides.quick),
                Err(error) => self.results.failures.push(error),
            }
            self.results.write(&self.paths.logs)?;
        }
        for verdict in soak::verdicts(soak, &self.results.soaks) {
            (self.print_line)(&format!("{:<24} {}\n", soak.name, verdict.line()));
        }
        self.write_document()
    }

    fn write_document(&self) -> Result<(), String> {
        let Some(documents) = &self.options.documents else { return Ok(()) };
        let merged = self.results.merged_into(self.previous.clone());
        output::write_document(self.whole, &merged, documents)?;
        output::write_overviews(documents)
    }
}

fn check_names(suite: &Suite, only: &[String]) -> Result<(), String> {
    let points = || {
        let points = suite.measures.iter().map(|measure| &measure.point);
        points.chain(suite.soaks.iter().map(|soak| &soak.name))
    };
    let is_known = |name: &String| {
        name == CODEC
            || points().any(|point| point == name)
            || suite.measures.iter().any(|measure| measure.name == *name)
    };
    let Some(unknown) = only.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let mut names: Vec<_> = points().map(String::as_str).chain([CODEC]).collect();
    names.dedup();
    Err(format!("there is no point `{unknown}` in this suite: its points are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        name = "try"
        [server.a]
        command = ["a"]
        driver = { driver = "null" }
        [[measure]]
        name = "put"
        servers = ["a"]
        clients = [8]
    "#;

    #[test]
    fn only_runs_of_the_same_commit_and_machine_are_continued() {
        let items = Items::parse("s.toml", TEXT).expect("whole");
        let suite = Suite::read(items, &LoadOverrides::default()).expect("whole");
        let new =
            |commit: &str| Results::new(&suite, "now".into(), commit.into(), Machine::default());
        let folder = std::env::temp_dir().join(format!("bench-resume-{}", std::process::id()));
        let options = SuiteOptions { results: folder.clone(), ..SuiteOptions::default() };
        assert!(unfinished(&new("c0ffee"), &options).is_none(), "there is no run");
        for (time, commit) in [("20260101_000000", "decade"), ("20260102_000000", "c0ffee")] {
            let mut results = new(commit);
            results.add("put", "a", 8, false, Run { throughput: 7.0, ..Run::default() });
            let folder = folder.join(format!("try-{time}"));
            create_directory(&folder).expect("created");
            results.write(&folder).expect("written");
        }
        // A suite whose name begins alike.
        create_directory(&folder.join("try-more-20260103_000000")).expect("created");
        let (found, results) = unfinished(&new("c0ffee"), &options).expect("the newest");
        assert!(found.ends_with("try-20260102_000000"), "{found:?}");
        assert_eq!((results.run_count("put", "a", 8), results.run_count("put", "b", 8)), (1, 0));
        for other in ["decade", "c0ffee+", ""] {
            assert!(unfinished(&new(other), &options).is_none(), "{other}");
        }
        let mut elsewhere = new("c0ffee");
        elsewhere.machine.cores = 99;
        assert!(unfinished(&elsewhere, &options).is_none());
        let mut quick = options.clone();
        quick.overrides.quick = true;
        assert!(unfinished(&new("c0ffee"), &quick).is_none());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
