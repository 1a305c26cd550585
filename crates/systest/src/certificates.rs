//! Certificates of an experiment, made by the tool's own commands.

use crate::environment::path_str;
use crate::server::tool;
use std::path::{Path, PathBuf};

/// Authority in a folder.
pub struct TestAuthority {
    folder: PathBuf,
    /// File with the passphrase of its key. `None`: the key is not encrypted.
    passphrase: Option<PathBuf>,
}

impl TestAuthority {
    /// Makes an authority in a new folder.
    pub fn create(folder: &Path) -> TestAuthority {
        let authority = TestAuthority { folder: folder.into(), passphrase: None };
        run(&["cert", "init", path_str(folder), "--cluster", "shop", "--plain"]);
        authority
    }

    /// Makes an authority whose key is encrypted with the passphrase in this file.
    pub fn with_passphrase(folder: &Path, file: &Path) -> TestAuthority {
        let init = ["cert", "init", path_str(folder), "--cluster", "shop"];
        run(&[&init[..], &["--passphrase-file", path_str(file)]].concat());
        TestAuthority { folder: folder.into(), passphrase: Some(file.into()) }
    }

    /// Runs a command on the authority.
    fn run(&self, words: &[&str]) {
        let file = self.passphrase.as_deref().map(|file| ["--passphrase-file", path_str(file)]);
        let file = file.as_ref().map_or(&[][..], |words| &words[..]);
        run(&[words, &["--dir", path_str(&self.folder)], file].concat());
    }

    /// Makes the certificate of a node on this machine.
    pub fn node(&self, name: &str) {
        self.run(&["cert", "node", name, "--host", "127.0.0.1,localhost"]);
    }

    /// Makes the certificate of a user.
    pub fn client(&self, user: &str) {
        self.run(&["cert", "client", user]);
    }

    /// Makes a certificate anew.
    pub fn renew(&self, file: &str) {
        self.run(&["cert", "renew", &self.file(file)]);
    }

    /// Revokes a certificate.
    pub fn revoke(&self, file: &str) {
        self.run(&["cert", "revoke", &self.file(file)]);
    }

    /// Returns the path of a file in its folder.
    pub fn file(&self, name: &str) -> String {
        path_str(&self.folder.join(name)).to_string()
    }

    /// Returns the flags of a node's files; `@NODE` stands for its name.
    pub fn node_args(&self) -> Vec<String> {
        let words = [
            ("--tls-cert-file", self.file("@NODE.node.crt")),
            ("--tls-key-file", self.file("@NODE.node.key")),
            ("--tls-ca-file", self.file("ca.crt")),
            ("--tls-crl-file", self.file("crl.pem")),
        ];
        words.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]).collect()
    }
}

fn run(args: &[&str]) {
    let output = tool(args).output().expect("the tool runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "credenza {}: {stderr}", args.join(" "));
}
