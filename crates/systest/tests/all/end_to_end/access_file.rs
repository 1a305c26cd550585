//! First users and roles from a file: a new cluster is never served without them.

use super::resp;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use systest::access::AccessAdmin;
use systest::environment::{Scratch, path_str};
use systest::server::{Server, Setup};

/// Writes a file with one administrator of this name.
fn write_file(file: &Path, mode: u32, name: &str, hash: &str) {
    let text = format!(
        "[roles]\nweb = [\"read:logs/*\"]\n[users.{name}]\nroles = [\"admin\", \"web\"]\n\
         password_hash = \"{hash}\"\n"
    );
    std::fs::write(file, text).expect("ours");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("ours");
}

/// Checks that the node serves this user alone.
fn must_serve_only(server: &Server, (user, password): (&str, &str), refused: &str) {
    let mut client = resp(server);
    let anonymous = client.call_line("GET k").expect("it answers");
    assert!(anonymous.error().is_some_and(|text| text.contains("NOAUTH")), "{anonymous:?}");
    let wrong = client.call_line(&format!("AUTH {refused} {password}")).expect("it answers");
    assert!(wrong.error().is_some_and(|text| text.contains("WRONGPASS")), "{wrong:?}");
    let mut client = resp(server);
    let right = client.call_line(&format!("AUTH {user} {password}")).expect("it answers");
    assert_eq!(right.error(), None, "{right:?}");
    let written = client.call_line("SET k v").expect("it answers");
    assert_eq!(written.error(), None, "{written:?}");
}

#[test]
fn access_bootstrap_file_is_applied_once_before_the_node_serves() {
    let scratch = Scratch::new("access-file");
    let (data, file) = (scratch.join("data"), scratch.join("access.toml"));
    let password = "correct-horse";
    let hash = AccessAdmin::new(&data).run_with(&["access", "hash"], password);
    let hash = hash.trim();
    assert!(hash.starts_with("$argon2id$") && !hash.contains(password), "{hash}");
    let setup = Setup::new(&data).with_args(&["--access-bootstrap-file", path_str(&file)]);

    write_file(&file, 0o644, "ada", hash);
    let refusal = Server::start(&setup).map(|_| ()).expect_err("others can read it");
    assert_eq!(refusal.code, Some(3), "{refusal}");
    assert!(refusal.output.contains("chmod 600"), "{refusal}");

    write_file(&file, 0o600, "ada", hash);
    let mut server = Server::must_start(&setup);
    must_serve_only(&server, ("ada", password), "eve");
    server.kill();
    // Another file, an open one, and none at all change nothing.
    write_file(&file, 0o600, "eve", hash);
    server = Server::must_start(&setup);
    must_serve_only(&server, ("ada", password), "eve");
    server.kill();
    write_file(&file, 0o644, "eve", hash);
    server = Server::must_start(&setup);
    must_serve_only(&server, ("ada", password), "eve");
    server.kill();
    std::fs::remove_file(&file).expect("ours");
    let server = Server::must_start(&setup);
    must_serve_only(&server, ("ada", password), "eve");
    let stderr = server.stderr_text();
    assert!(!stderr.contains(hash) && !stderr.contains(password), "{stderr}");
}

#[test]
fn first_start_with_a_wrong_access_bootstrap_file_fails_with_its_line() {
    let scratch = Scratch::new("access-file-wrong");
    let (data, file) = (scratch.join("data"), scratch.join("access.toml"));
    let setup = Setup::new(&data).with_args(&["--access-bootstrap-file", path_str(&file)]);
    let refusal = Server::start(&setup).map(|_| ()).expect_err("there is no file");
    assert!(refusal.output.contains(path_str(&file)), "{refusal}");
    std::fs::write(&file, "[users.ada]\nroles = [\"admin\"]\npassword = \"correct-horse\"\n")
        .expect("ours");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let refusal = Server::start(&setup).map(|_| ()).expect_err("no clear passwords");
    assert_eq!(refusal.code, Some(2), "{refusal}");
    assert!(refusal.output.contains("line 3"), "{refusal}");
    assert!(!refusal.output.contains("correct-horse"), "{refusal}");
}
