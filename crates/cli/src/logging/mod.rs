//! Log of the program: lines on standard error by section and level, and the crash log.
//!
//! Promises: one event is one line; a slow or full standard error never blocks a thread that logs;
//! levels change at run time.
//! Never: shows keys, values or secrets (no event may contain them); opens spans.
//! Read next: `levels.rs`, then `ring.rs`.

mod crash;
pub mod levels;
mod line;
mod ring;
mod writer;

#[cfg(test)]
mod tests;

use base::{Error, Reason};
pub use crash::{crash_directory, on_panic};
pub use levels::Levels;
use levels::{LevelsInForce, SECTIONS, number_of, section_of};
pub use line::time;
use ring::EventRing;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use writer::LineWriter;

/// Level up to which the ring keeps events, whatever levels are in force: `debug`.
const KEPT_LEVEL: u8 = 4;

/// Log of this process. Cheap to clone.
#[derive(Clone)]
pub struct Logging {
    shared: Arc<LoggingShared>,
}

struct LoggingShared {
    levels: LevelsInForce,
    ring: Option<EventRing>,
    writer: LineWriter,
}

impl Logging {
    /// Returns a log with these levels, and with or without a ring for the crash log.
    pub fn new(levels: &Levels, ring: bool, target: Box<dyn std::io::Write + Send>) -> Logging {
        let in_force = LevelsInForce::default();
        in_force.replace(levels);
        let ring = ring.then(EventRing::new);
        let shared = LoggingShared { levels: in_force, ring, writer: LineWriter::start(target) };
        Logging { shared: Arc::new(shared) }
    }

    /// Installs it as the log of all events of this process. A second call has no effect.
    pub fn install(&self) {
        // Fails only if a log is installed already.
        let _ = tracing::subscriber::set_global_default(self.clone());
    }

    /// Waits until all lines so far are written, at most a second.
    pub fn flush(&self) {
        self.shared.writer.flush();
    }

    /// Writes the last events to a new file in the data directory. Returns its path; `None`: the
    /// crash log is off.
    pub fn dump(&self, data: &std::path::Path, reason: &str) -> Option<std::io::Result<PathBuf>> {
        let ring = self.shared.ring.as_ref()?;
        Some(crash::write(&crash_directory(data), reason, &ring.lines()))
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let level = number_of(metadata.level());
        let section = section_of(metadata.target());
        level <= self.shared.levels.of(section) || self.keeps(level, section)
    }

    /// Returns true if the ring keeps an event: up to `debug` of Credenza's own, up to `warn` of
    /// third-party libraries.
    fn keeps(&self, level: u8, section: usize) -> bool {
        let most = if SECTIONS[section] == "other" { 2 } else { KEPT_LEVEL };
        self.shared.ring.is_some() && level <= most
    }
}

impl server::LogLevels for Logging {
    fn levels(&self) -> Vec<(String, String)> {
        let levels = self.shared.levels.all();
        let words = SECTIONS.iter().zip(levels.0);
        words.map(|(section, level)| (section.to_string(), levels::word_of(level).into())).collect()
    }

    fn set(&self, changes: &[(String, String)]) -> base::Result<()> {
        let mut levels = self.shared.levels.all();
        for (section, word) in changes {
            levels.set(section, word).map_err(|what| Error::new(Reason::Malformed, what))?;
        }
        self.shared.levels.replace(&levels);
        tracing::callsite::rebuild_interest_cache();
        tracing::info!(levels = %levels, "log levels changed");
        Ok(())
    }
}

impl Subscriber for Logging {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() && self.wants(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let kept = if self.shared.ring.is_some() { KEPT_LEVEL } else { 0 };
        let most = self.shared.levels.all().0.into_iter().max().unwrap_or(0).max(kept);
        Some(match most {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let (level, section) = (number_of(metadata.level()), section_of(metadata.target()));
        let at = line::now();
        if let Some(ring) = self.shared.ring.as_ref().filter(|_| self.keeps(level, section)) {
            ring.keep(event, at);
        }
        if level <= self.shared.levels.of(section) {
            self.shared.writer.write(line::line(event, at));
        }
    }

    // Spans are not used: fields link the events that belong together.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
