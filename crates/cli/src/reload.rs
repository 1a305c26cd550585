//! Reload: reads the settings again while the node serves.
//!
//! Promises: invalid settings and files change nothing; every changed setting is named, as in force
//! or as waiting for a restart.
//! Never: reads flags or the environment anew (a process keeps those with which it was started).

use api::{ReloadReply, SettingChange};
use base::{Error, Reason, Result};
use logging::Logging;
use program::{Failure, Outcome};
use server::{LiveSettings, Reload};
use settings::{Flags, LIVE, Settings};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tls::Tls;

/// Text of every setting, by name.
type Texts = BTreeMap<&'static str, String>;

/// Reload of this process' settings.
pub struct Reloader {
    flags: Flags,
    log: Logging,
    /// TLS whose files are read again, if there is any.
    tls: Option<Arc<Tls>>,
    /// Texts of the settings in force. Locked for a whole reload: two never mix.
    in_force: Mutex<Texts>,
}

impl Reloader {
    /// Returns a reloader of a process that was started with these flags just now.
    pub fn new(flags: &Flags, log: &Logging, tls: Option<Arc<Tls>>) -> Outcome<Reloader> {
        let in_force = Mutex::new(texts(flags)?);
        Ok(Reloader { flags: flags.clone(), log: log.clone(), tls, in_force })
    }

    /// Reads files that settings name again. Returns in words what was renewed. After an error the
    /// former ones stay in force.
    fn renew_files(&self) -> Result<Vec<String>> {
        let Some(tls) = &self.tls else { return Ok(Vec::new()) };
        let is_renewed = tls.reload().map_err(|error| {
            Error::new(error.reason, format!("nothing was changed: {}", error.text()))
        })?;
        Ok(is_renewed.then(|| "the files of TLS".into()).into_iter().collect())
    }

    /// Brings live settings into force.
    fn apply(&self, settings: &Settings, changed: &[SettingChange], live: &LiveSettings) {
        live.replace(settings.server.live());
        // Levels that were changed by a request stay, unless the setting itself is another one.
        if changed.iter().any(|change| change.setting == "log_level") {
            self.log.replace_levels(&settings.levels);
        }
    }
}

impl Reload for Reloader {
    fn reload(&self, live: &LiveSettings) -> Result<ReloadReply> {
        // A panic while it is locked leaves the texts of the last complete reload.
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = self.flags.settings(&environment).map_err(refused)?;
        let renewed = self.renew_files()?;
        let (mut changed, mut waiting) = (Vec::new(), Vec::new());
        for (name, to) in texts(&self.flags).map_err(refused)? {
            let from = in_force.get(name).cloned().unwrap_or_default();
            if from == to {
                continue;
            }
            let change = SettingChange { setting: name.into(), from, to: to.clone() };
            if LIVE.contains(&name) {
                in_force.insert(name, to);
                changed.push(change);
            } else {
                waiting.push(change);
            }
        }
        self.apply(&settings, &changed, live);
        for change in &changed {
            let SettingChange { setting, from, to } = change;
            tracing::info!(%setting, %from, %to, "a setting is changed by a reload");
        }
        for SettingChange { setting, to, .. } in &waiting {
            tracing::warn!(%setting, %to, "a changed setting waits for a restart");
        }
        Ok(ReloadReply { changed, waiting, renewed })
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn texts(flags: &Flags) -> Outcome<Texts> {
    let effective = flags.resolve(&environment)?.effective.into_iter();
    Ok(effective.map(|setting| (setting.row.name, setting.text)).collect())
}

fn refused(failure: Failure) -> Error {
    let text = format!("nothing was changed: {}", failure.sentence());
    Error::new(Reason::Malformed, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::ServerSettings;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn reload_names_live_and_waiting_settings_and_a_bad_file_changes_nothing() {
        let path = std::env::temp_dir().join(format!("credenza-reload-{}", std::process::id()));
        let write = |text: &str| fs::write(&path, text).expect("a temporary file");
        write("threads = 2\nhttp_idle_ms_max = \"30s\"\n");
        let flags = Flags::of_file(&path);
        let settings = flags.settings(&|_| None).expect("good");
        let log = Logging::new(&settings.levels, false, Box::new(std::io::sink()));
        let reloader = Reloader::new(&flags, &log, None).expect("good");
        let live = settings.server.live();
        let reload = || reloader.reload(&live);
        assert_eq!(reload(), Ok(ReloadReply::default()), "nothing is changed");

        write("threads = 3\nhttp_idle_ms_max = \"40s\"\n");
        let change = |setting: &str, from: &str, to: &str| {
            let (setting, from, to) = (setting.into(), from.into(), to.into());
            SettingChange { setting, from, to }
        };
        let reply = reload().expect("good");
        assert_eq!(reply.changed, [change("http_idle_ms_max", "30s", "40s")]);
        assert_eq!(reply.waiting, [change("threads", "2", "3")]);
        assert_eq!(live.http_idle_max(), Duration::from_secs(40));
        let again = reload().expect("good");
        assert_eq!((again.changed.len(), again.waiting.len()), (0, 1), "it still waits");

        write("threads = 3\nhttp_idle_ms_max = \"50s\"\nlisten = \"nowhere\"\n");
        let error = reload().expect_err("no address");
        assert_eq!(error.reason, Reason::Malformed);
        assert!(error.text().contains(":3: listen"), "{}", error.text());
        assert_eq!(live.http_idle_max(), Duration::from_secs(40), "nothing was changed");
        write("");
        let reply = reload().expect("good");
        assert_eq!(reply.changed, [change("http_idle_ms_max", "40s", "120s")]);
        let default = ServerSettings::default().live().http_idle_max();
        assert_eq!(live.http_idle_max(), default);
        fs::remove_file(path).expect("written above");
    }
}
