//! Log of a program: lines by section and level, and the crash log.
//!
//! Knows events, levels and files of crash logs. It knows no setting and no command.
//!
//! Promises: one event is one line; a slow or full standard error never blocks a thread that logs;
//! levels change at run time.
//! Never: shows keys, values or secrets (no event may contain them); opens spans.
//! Read next: `levels.rs`, then `ring.rs`.

mod crash;
mod levels;
mod line;
mod ring;
mod writer;

#[cfg(test)]
mod tests;

use base::{Error, Reason};
pub use crash::{crash_directory, install_panic_hook};
pub use levels::Levels;
use levels::{LevelsInForce, SECTIONS, level_number, section_of};
pub use line::time;
use ring::EventRing;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use writer::LineWriter;

/// Level up to which the ring records events, independent of the levels in force: `debug`.
const RING_LEVEL_MAX: u8 = 4;

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

    /// Brings other levels into force.
    pub fn replace_levels(&self, levels: &Levels) {
        self.shared.levels.replace(levels);
        tracing::callsite::rebuild_interest_cache();
        tracing::info!(%levels, "log levels changed");
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

    fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = level_number(metadata.level());
        let section = section_of(metadata.target());
        level <= self.shared.levels.of(section) || self.is_recorded(level, section)
    }

    /// Returns true if the ring records an event: up to `debug` of Credenza's own, up to `warn` of
    /// third-party libraries.
    fn is_recorded(&self, level: u8, section: usize) -> bool {
        let level_max = if SECTIONS[section] == "other" { 2 } else { RING_LEVEL_MAX };
        self.shared.ring.is_some() && level <= level_max
    }
}

impl Logging {
    /// Returns the level of each section.
    pub fn levels(&self) -> Vec<(String, String)> {
        let levels = self.shared.levels.all();
        let names = SECTIONS.iter().zip(levels.0);
        names
            .map(|(section, level)| (section.to_string(), levels::level_name(level).into()))
            .collect()
    }

    /// Changes the levels of some sections. Errors: `Malformed`; no level is changed.
    pub fn set(&self, changes: &[(String, String)]) -> base::Result<()> {
        let mut levels = self.shared.levels.all();
        for (section, level) in changes {
            levels.set(section, level).map_err(|message| Error::new(Reason::Malformed, message))?;
        }
        self.replace_levels(&levels);
        Ok(())
    }
}

impl Subscriber for Logging {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() && self.is_enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.is_enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let ring_level = if self.shared.ring.is_some() { RING_LEVEL_MAX } else { 0 };
        let level_max = self.shared.levels.all().0.into_iter().max().unwrap_or(0).max(ring_level);
        Some(match level_max {
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
        let (level, section) = (level_number(metadata.level()), section_of(metadata.target()));
        let at = line::now();
        if let Some(ring) = self.shared.ring.as_ref().filter(|_| self.is_recorded(level, section)) {
            ring.record_event(event, at);
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
