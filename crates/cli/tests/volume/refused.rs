//! Commands that make something and are refused, by a mistake in what was typed or by the server:
//! what they began goes, so the same command works once that is put right. What holds anything
//! stays.

use std::fs::{Permissions, read_to_string, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, beside, free_port};
use crate::{fogbank, said};

const SIZE: &str = "1MiB";
const SHAPE: &str = "--capacity 300 --value-size 64 --read-batches 2 --batch 8 --write-batch 8 \
    --interval-ms 5 --cache 4KiB";

/// A storage server, its tenants, and what is made of them.
struct Site {
    folder: tempfile::TempDir,
    port: u16,
    server: Option<Server>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (port, data) = (free_port(), folder.path().join("server"));
        let mut made = Self { folder, port, server: None };
        made.tenant("first", &[]);
        made.server = Some(Server::cloud(&data, port));
        made
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Has a tenant, or another quota of one; a running server finds a new one by itself.
    fn tenant(&self, name: &str, quota: &[&str]) -> String {
        let mut command = Command::new(beside("fogbank-cloud"));
        command.args(["tenant", "add", name, "--data", &self.at("server")]).args(quota);
        let told = command.output().unwrap();
        assert!(told.status.success(), "{}", said(&told));
        self.url(name, &self.credentials(name), self.port)
    }

    fn credentials(&self, tenant: &str) -> String {
        self.at(&format!("server/tenants/{tenant}/credentials"))
    }

    fn url(&self, tenant: &str, credentials: &str, port: u16) -> String {
        format!("grpc://127.0.0.1:{port}/{tenant}?credentials={credentials}")
    }

    /// A URL of this tenant with each mistake that can be made in it, and the code it ends with.
    fn mistaken(&self, tenant: &str) -> Vec<(&'static str, String, i32)> {
        let right = self.credentials(tenant);
        let text = read_to_string(&right).unwrap();
        let wrong = |name: &str, field: &str| {
            let flipped: Vec<String> = text
                .lines()
                .map(|line| match line.strip_prefix(field) {
                    Some(digits) => {
                        let first = if digits.starts_with('0') { "1" } else { "0" };
                        format!("{field}{first}{}", &digits[1..])
                    }
                    None => line.into(),
                })
                .collect();
            let path = self.at(name);
            write(&path, flipped.join("\n") + "\n").unwrap();
            set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            self.url(tenant, &path, self.port)
        };
        vec![
            ("another token", wrong("token", "token="), 64),
            ("another server's pin", wrong("pin", "pin="), 64),
            ("no such tenant", self.url("nobody", &right, self.port), 64),
            ("no such file", self.url(tenant, &self.at("nothing"), self.port), 64),
            ("a server that is away", self.url(tenant, &right, free_port()), 69),
        ]
    }
}

fn ends(code: i32, words: &[&str]) -> String {
    let told = fogbank(words);
    assert_eq!(told.status.code(), Some(code), "{words:?}: {}", said(&told));
    said(&told)
}

/// How a command is typed, up to where the new side and its store are named, and how those are.
type Making = (&'static str, Vec<String>, [&'static str; 2]);

/// Commands that make something, of what is in the folder.
fn makers(site: &Site) -> Vec<Making> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let [old, volume, disk, keys] = ["old", "volume", "disk", "keys.csv"].map(|name| site.at(name));
    let old_cloud = format!("file://{}", site.at("old-cloud"));
    ends(0, &["site", "create", "--data", &old, "--size", SIZE, "--store", &old_cloud]);
    ends(0, &["site", "backup", "--data", &old, "--to", &site.at("site.backup")]);
    ends(0, &["volume", "create", "--data", &volume, "--size", SIZE]);
    ends(0, &["backup", "--data", &volume, "--to", &disk]);
    write(&keys, "key,value\nname,content\n").unwrap();
    let usual = ["--data", "--store"];
    let to = ["--to", "--to-store"];
    let site_restore =
        format!("site restore --from {} --key {old}/proxy/key", site.at("site.backup"));
    let restore = format!("restore --from {disk} --key {volume}/proxy/key");
    vec![
        ("site create", words(&format!("site create --size {SIZE}")), usual),
        ("site restore", words(&site_restore), usual),
        ("site rotate-key", words(&format!("site rotate-key --data {old}")), to),
        ("volume create", words(&format!("volume create --size {SIZE}")), usual),
        ("volume of epochs", words(&format!("volume create --engine ring --size {SIZE}")), usual),
        ("restore", words(&restore), usual),
        ("rotate-key", words(&format!("rotate-key --data {volume}")), to),
        ("load", words(&format!("load --from {keys} {SHAPE}")), usual),
        ("serve", words(&format!("serve --listen 127.0.0.1:0 {SHAPE}")), usual),
    ]
}

/// Runs it; of a server that is what it takes to begin.
fn make(site: &Site, (name, line, [data, store]): &Making, to: &Path, url: &str, code: i32) {
    let to = to.display().to_string();
    if *name == "serve" && code == 0 {
        let started = Server::try_fogbank_of(SHAPE, Path::new(&to), &["--store", url]);
        let mut server = started.unwrap_or_else(|said| panic!("{said}"));
        assert!(server.terminate().success());
        return;
    }
    let mut words: Vec<&str> = line.iter().map(String::as_str).collect();
    words.extend([*data, &to, *store, url]);
    let told = ends(code, &words);
    assert!(!told.contains("choose another --data"), "{name} at {}: {told}", site.port);
}

#[test]
fn what_was_mistyped_is_put_right_and_works() {
    let site = Site::new();
    for (number, maker) in makers(&site).iter().enumerate() {
        let tenant = format!("tenant-{number}");
        let right = site.tenant(&tenant, &[]);
        let mistakes = site.mistaken(&tenant);
        let to = PathBuf::from(site.at(&format!("new-{number}")));
        for (what, url, code) in &mistakes {
            make(&site, maker, &to, url, *code);
            assert!(!to.exists(), "{}, {what}: something is left", maker.0);
        }
        make(&site, maker, &to, &right, 0);
        assert!(to.join("proxy/key").exists());
        // What holds something is not touched by what is refused there.
        let key = read_to_string(to.join("proxy/key")).unwrap();
        let [data, store] = maker.2;
        let mut again: Vec<&str> = maker.1.iter().map(String::as_str).collect();
        let shown = to.display().to_string();
        again.extend([data, &shown, store, &mistakes[0].1]);
        // A load that is finished says so, and asks nobody.
        assert!(!fogbank(&again).status.success() || maker.0 == "load", "{again:?}");
        assert_eq!(read_to_string(to.join("proxy/key")).unwrap(), key, "{}", maker.0);
    }
}

#[test]
fn what_a_server_refuses_before_it_holds_anything_leaves_nothing() {
    let site = Site::new();
    for (number, maker) in makers(&site).iter().enumerate() {
        // So small that nothing at all can be put.
        let small = site.tenant(&format!("small-{number}"), &["--bytes", "10B"]);
        let right = site.tenant(&format!("large-{number}"), &[]);
        let to = PathBuf::from(site.at(&format!("new-{number}")));
        make(&site, maker, &to, &small, 77);
        assert!(!to.exists(), "{}: something is left", maker.0);
        make(&site, maker, &to, &right, 0);
    }
}

#[test]
fn who_joins_puts_right_what_was_mistyped() {
    let site = Site::new();
    let (right, one, two) = (site.tenant("office", &[]), site.at("one"), site.at("two"));
    ends(0, &["site", "create", "--data", &one, "--size", SIZE, "--store", &right]);
    let told = ends(0, &["site", "status", "--data", &one]);
    let id = told.lines().find_map(|line| line.strip_prefix("site ")).unwrap();
    let key = format!("{one}/proxy/key");
    let join = |code, url: &str, id: &str, key: &str| {
        let words = ["site", "join", "--data", &two, "--store", url, "--id", id, "--key", key];
        let told = ends(code, &words);
        assert_eq!(Path::new(&two).exists(), code == 0, "{told}");
        told
    };
    for (_, url, code) in site.mistaken("office") {
        join(code, &url, id, &key);
    }
    join(64, &right, &"0".repeat(32), &key);
    // A file that is named and not there is the caller's mistake, and what to name is said.
    for missing in [site.at("nothing"), format!("{key}/nothing"), one.clone()] {
        let told = join(64, &right, id, &missing);
        assert!(told.contains("fogbank site invite") && told.contains("proxy/key"), "{told}");
    }
    join(0, &right, id, &key);
    // A tenant that is used: three ways on.
    let three = site.at("three");
    let told = ends(64, &["site", "create", "--data", &three, "--size", SIZE, "--store", &right]);
    for way in ["fogbank site invite", "fogbank site join", "fogbank-cloud tenant add"] {
        assert!(told.contains(way), "{told}");
    }
    assert!(!Path::new(&three).exists());
    let told = ends(64, &["site", "create", "--data", &one, "--size", SIZE, "--store", &right]);
    assert!(told.contains(&format!("fogbank site serve --data {one}")), "{told}");
}

/// Each was taken and did nothing: also a rate, by which nothing left.
#[test]
fn what_is_said_of_a_volume_is_refused_where_a_site_is_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, cloud) = (at("client"), format!("file://{}", at("cloud")));
    ends(0, &["site", "create", "--data", &data, "--size", SIZE, "--store", &cloud]);
    for [flag, value] in [
        ["--store", "file:///elsewhere"],
        ["--second-store", "grpc://127.0.0.1:1/t"],
        ["--registers", "servers"],
        ["--fixed-rate", "100"],
        ["--write-behind", "1MiB"],
    ] {
        let told = ends(64, &["mount", &data, &at("empty"), flag, value]);
        assert!(told.contains(flag) && told.contains("leave"), "{told}");
    }
}
