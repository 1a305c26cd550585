//! `credenza cluster token`: join tokens, which let nodes join from beyond loopback; and the
//! reading of a node's own token.

use super::join;
use crate::output;
use api::{Integer, JoinTokenReply, NewToken};
use base::JoinToken;
use base::limits::{JOIN_TOKEN_BYTES_MAX, JOIN_TOKEN_USES_MAX};
use client::Address;
use node::PendingJoin;
use program::{Failure, Outcome, secret_file, units};
use serde_json::json;
use settings::Settings;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Arguments of the creation of a token, or of the revocation of all.
#[derive(clap::Args)]
pub struct Token {
    #[command(flatten)]
    address: Address,
    /// Lifetime of the token
    #[arg(long = "for", value_name = "TIME", default_value = "24h")]
    #[arg(value_parser = units::time_with_unit_ms)]
    lifetime_ms: u64,
    /// Number of nodes that the token lets in
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(JOIN_TOKEN_USES_MAX)))]
    uses: u32,
    /// Make a token without an end, for any number of nodes, valid until --revoke: for nodes that
    /// keep it to rejoin by themselves
    #[arg(long, conflicts_with_all = ["lifetime_ms", "uses"])]
    standing: bool,
    /// Write it to this new file, which only its owner can read, instead of showing it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// End all tokens made so far; members stay members
    #[arg(long, conflicts_with_all = ["lifetime_ms", "uses", "standing", "file"])]
    revoke: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Token {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let mut client = self.address.client()?;
        if self.revoke {
            client.revoke_tokens().await?;
            return match self.json {
                true => output::json(&json!({ "revoked": true })),
                false => output::text("no join token made so far lets anybody in any more\n"),
            };
        }
        // The file is created first: a token that can't be written would remain valid but unknown.
        let file = self.file.as_deref().map(create_file).transpose()?;
        let token = match self.standing {
            true => NewToken { standing: Some(true), ..NewToken::default() },
            false => NewToken {
                lifetime_ms: Some(Integer(self.lifetime_ms)),
                // A node of an earlier version knows no uses, and its reply says so.
                uses: Some(Integer(self.uses.into())).filter(|uses| uses.0 > 1),
                standing: None,
            },
        };
        let reply = client.make_token(&token).await;
        if let (Err(_), Some(path)) = (&reply, &self.file) {
            // The file is empty, and its name is needed for the next attempt.
            let _ = std::fs::remove_file(path);
        }
        let JoinTokenReply { token, lifetime_ms, uses, cluster } = reply?;
        let mut object = json!({
            "token": token, "lifetime_ms": lifetime_ms, "uses": uses, "cluster": cluster,
        });
        if let (Some(mut file), Some(path)) = (file, &self.file) {
            let written = writeln!(file, "{}", token.text()).and_then(|()| file.sync_all());
            written.map_err(|error| Failure::file("write", path, &error))?;
            object["token"].take();
            object["file"] = path.display().to_string().into();
        }
        if self.json {
            return output::json(&object);
        }
        eprintln!("{}", self.instructions(uses));
        if self.file.is_some() { Ok(()) } else { output::text(&format!("{}\n", token.text())) }
    }

    /// Returns the instructions for using the token. `uses`: number of nodes that it lets in;
    /// `None`: any number, as in a cluster of the first feature level.
    fn instructions(&self, uses: Option<u32>) -> String {
        let file = self.file.as_ref().map_or("FILE".into(), |file| file.display().to_string());
        let until = match self.standing {
            true => "until `credenza cluster token --revoke`".into(),
            false => format!("for {} minutes", self.lifetime_ms.div_ceil(60_000)),
        };
        let nodes = match uses {
            Some(1) => "one node".into(),
            Some(uses) => format!("{uses} nodes"),
            None => "any number of nodes".into(),
        };
        format!(
            "it lets {nodes} become members, {until}; on the new node, in a file of mode 0600:\
             \n  credenza serve --name NAME --join MEMBER:PORT --join-token-file {file} ..."
        )
    }
}

fn create_file(path: &Path) -> Outcome<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| Failure::file("make", path, &error))
}

/// Reads the token that the settings name. A member may run without one: it would need it only to
/// join anew after damage.
pub fn load(settings: &mut Settings) -> Outcome {
    let Some(path) = &settings.join_token_file else { return Ok(()) };
    match read(path) {
        Ok(token) => settings.node.join_token = Some(token),
        Err(failure) if PendingJoin::is_fresh(&settings.node).map_err(join::start_failure)? => {
            return Err(failure);
        }
        Err(failure) => tracing::warn!(%failure, "going on without a join token"),
    }
    Ok(())
}

fn read(path: &Path) -> Outcome<JoinToken> {
    // With space for white space around it; a longer file holds no token.
    let text = secret_file::read("join_token_file", path, ("token", 2 * JOIN_TOKEN_BYTES_MAX))?;
    let invalid =
        |why: &str| Failure::invalid(format!("join_token_file {}: {why}", path.display()));
    let token = JoinToken::parse(&text).map_err(|error| invalid(&error.text()))?;
    match token.is_guessable() {
        false => Ok(token),
        true => Err(invalid(
            "the token can be guessed: use one that `credenza cluster token` prints, or the \
             output of `openssl rand -hex 32`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Makes a file of this mode in the folder of scratch files.
    fn file(name: &str, mode: u32, text: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("join-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        path
    }

    #[test]
    fn token_file_readable_by_group_or_world_is_refused() {
        let token = JoinToken::from_secret([1; 20]);
        let text = format!("{}\n", token.text());
        let good = file("good", 0o600, &text);
        assert_eq!(read(&good).map(|token| token.digest()).ok(), Some(token.digest()));
        assert!(read(&file("only-read", 0o400, &text)).is_ok());
        for mode in [0o640, 0o604, 0o644] {
            let refused = read(&file("open", mode, &text)).expect_err("others can read it");
            let words = refused.to_string();
            assert!(words.contains("chmod 600") && !words.contains(token.text()), "{words}");
        }
        let words = read(&file("short", 0o600, "secret")).expect_err("too short").to_string();
        assert!(words.contains("credenza cluster token") && !words.contains("secret"), "{words}");
        assert!(read(&file("long", 0o600, &"x".repeat(4_096))).is_err());
        let weak = "z".repeat(JOIN_TOKEN_BYTES_MAX);
        let words = read(&file("weak", 0o600, &weak)).expect_err("guessable").to_string();
        assert!(words.contains("can be guessed") && !words.contains(&weak), "{words}");
        assert!(read(Path::new("/nowhere")).is_err());
    }
}
