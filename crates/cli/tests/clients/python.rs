//! The Python client, with its own script: every type, pipelines, optimistic transactions, RESP3,
//! passwords and TLS.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::server::{Server, repository, tool};

fn run_script(options: &[&str]) {
    let script = repository().join("crates/cli/tests/clients/clients.py");
    let output = Command::new(tool("python")).arg(script).args(options).output();
    let output = output.expect("python runs");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

#[test]
fn redis_py_works_with_every_type() {
    let server = Server::subject();
    let port = server.port.to_string();
    run_script(&["--port", &port, "--protocol", "2"]);
    run_script(&["--port", &port, "--protocol", "3"]);
}

#[test]
fn redis_py_works_over_tls_with_a_password() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| folder.path().join(name);
    let authority = write_certificate(&file("cert.pem"), &file("key.pem"));
    write_secret(&file("password"), "correct horse\n");
    let key = file("key.pem").display().to_string();
    let server = Server::subject_with_tls(&authority, &key, &file("password"));
    let port = server.port.to_string();
    for protocol in ["2", "3"] {
        let options = ["--port", &port, "--protocol", protocol, "--password", "correct horse"];
        run_script(&[&options[..], &["--ca", &authority]].concat());
    }
}

/// A certificate for this machine that vouches for itself; returns its path.
fn write_certificate(certificate: &Path, key: &Path) -> String {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    fs::write(certificate, made.cert.pem()).expect("the certificate is written");
    write_secret(key, &made.signing_key.serialize_pem());
    certificate.display().to_string()
}

/// Writes a file that only its owner can read.
fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("the file is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode is set");
}
