//! `credenza cluster token`: join tokens, which let nodes join from beyond loopback; and the
//! reading of a node's own token.

use super::join;
use crate::client::Address;
use crate::output;
use crate::settings::{Settings, units};
use api::{Integer, JoinTokenReply, NewToken};
use base::limits::JOIN_TOKEN_BYTES_MAX;
use base::{JoinToken, Kind};
use node::PendingJoin;
use program::{Failure, Outcome};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permission bits of all users but the file's owner.
const NON_OWNER_BITS: u32 = 0o077;

/// Arguments of the creation of a token, or of the revocation of all.
#[derive(clap::Args)]
pub struct Token {
    #[command(flatten)]
    address: Address,
    /// Lifetime of the token
    #[arg(long = "for", value_name = "TIME", default_value = "24h")]
    #[arg(value_parser = units::time_with_unit_ms)]
    lifetime_ms: u64,
    /// Make a token without an end, valid until --revoke: for nodes that keep it to rejoin by
    /// themselves
    #[arg(long, conflicts_with = "lifetime_ms")]
    standing: bool,
    /// Write it to this new file, which only its owner can read, instead of showing it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// End all tokens made so far; members stay members
    #[arg(long, conflicts_with_all = ["lifetime_ms", "standing", "file"])]
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
            true => NewToken { lifetime_ms: None, standing: Some(true) },
            false => NewToken { lifetime_ms: Some(Integer(self.lifetime_ms)), standing: None },
        };
        let reply = client.make_token(&token).await;
        if let (Err(_), Some(path)) = (&reply, &self.file) {
            // The file is empty, and its name is needed for the next attempt.
            let _ = std::fs::remove_file(path);
        }
        let JoinTokenReply { token, lifetime_ms, cluster } = reply?;
        let mut object = json!({ "token": token, "lifetime_ms": lifetime_ms, "cluster": cluster });
        if let (Some(mut file), Some(path)) = (file, &self.file) {
            let written = writeln!(file, "{token}").and_then(|()| file.sync_all());
            written.map_err(|error| Failure::file("write", path, &error))?;
            object["token"].take();
            object["file"] = path.display().to_string().into();
        }
        if self.json {
            return output::json(&object);
        }
        eprintln!("{}", self.instructions());
        if self.file.is_some() { Ok(()) } else { output::text(&format!("{token}\n")) }
    }

    /// Returns the instructions for using the token.
    fn instructions(&self) -> String {
        let file = self.file.as_ref().map_or("FILE".into(), |file| file.display().to_string());
        let until = match self.standing {
            true => "until `credenza cluster token --revoke`".into(),
            false => format!("for {} minutes", self.lifetime_ms.div_ceil(60_000)),
        };
        format!(
            "whoever has it can become a member, {until}; on the new node, in a file of mode 0600:\
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
    let read_failure = |error| Failure::file("read", path, &error);
    let file = File::open(path).map_err(read_failure)?;
    let metadata = file.metadata().map_err(read_failure)?;
    let (mode, owner) = (metadata.permissions().mode(), metadata.uid());
    if !is_trusted_owner(owner) {
        let path = path.display();
        let text = format!(
            "join_token_file {path}: it belongs to another user (uid {owner}), who can read and \
             replace it: chown it, and make another token"
        );
        return Err(Failure::new(Kind::Denied, text));
    }
    if mode & NON_OWNER_BITS != 0 {
        let path = path.display();
        let text = format!(
            "join_token_file {path}: other users can read it (mode {:03o}): chmod 600 {path}, and \
             make another token if they did",
            mode & 0o777
        );
        return Err(Failure::new(Kind::Denied, text));
    }
    // With space for white space around it; a longer file holds no token.
    let mut text = [0; 2 * JOIN_TOKEN_BYTES_MAX];
    let token = read_start(file, &mut text).map(|length| JoinToken::parse(&text[..length]));
    text.fill(0);
    std::hint::black_box(&text);
    let invalid =
        |why: &str| Failure::invalid(format!("join_token_file {}: {why}", path.display()));
    let token = token.map_err(read_failure)?.map_err(|error| invalid(&error.text()))?;
    match token.is_guessable() {
        false => Ok(token),
        true => Err(invalid(
            "the token can be guessed: use one that `credenza cluster token` prints, or the \
             output of `openssl rand -hex 32`",
        )),
    }
}

/// Returns true for this process' user and for root, who can read every file anyway.
fn is_trusted_owner(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Fills the buffer with the beginning of a file. Returns the number of bytes.
fn read_start(mut file: File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, mode: u32, text: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
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

    #[test]
    fn token_file_of_another_user_is_refused() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_trusted_owner(own) && is_trusted_owner(0));
        assert!(!is_trusted_owner(own + 1) || own + 1 == 0);
        let token = JoinToken::from_secret([2; 20]);
        let foreign = file("foreign", 0o600, token.text());
        // Only root can give a file away.
        if own == 0 {
            std::os::unix::fs::chown(&foreign, Some(own + 1), None).expect("root may");
            let words = read(&foreign).expect_err("of another user").to_string();
            assert!(words.contains("another user (uid 1)"), "{words}");
        }
    }
}
