//! A real project on a volume: its archive is unpacked there and built there, by the system's own
//! tools.
//!
//! 1. ext4 is made on a volume and mounted.
//! 2. The archive of a library in C, which this workspace is built with, is unpacked, and sources
//!    of it are compiled by `make`, several at once, into a library and a program, which runs.
//! 3. After a restart `fsck` finds nothing, every file has the bytes that it had, and `make` finds
//!    nothing to do.
//!
//! If `FOGBANK_PLUGS` is above five, that is all of the archive and all of its sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::can_mount::can_mount;
use crate::mounted::Attached;
use crate::{Volume, number, run};

/// The crate whose archive it is.
const PROJECT: &str = "aws-lc-sys";

/// Parts of the archive, and folders of sources; then all of it.
const SOME: (&[&str], &str) = (
    &["*/aws-lc/crypto", "*/aws-lc/include"],
    "base64 blake2 buf bytestring chacha lhash md4 poly1305 pool siphash stack",
);
const ALL: (&[&str], &str) = (&["*/aws-lc"], "*");

const MAKEFILE: &str = "\
others := %_test.c %win.c %fips_shared_library_marker.c
sources := $(filter-out $(others),$(foreach folder,$(folders),$(wildcard crypto/$(folder)/*.c)))
program: main.c built/library.a
\t$(CC) -Iinclude $^ -o $@ -lpthread
built/library.a: $(sources:%.c=built/%.o)
\t$(AR) rcs $@ $^
built/%.o: %.c
\t@mkdir -p $(@D)
\t$(CC) -O1 -w -DBORINGSSL_IMPLEMENTATION -Iinclude -I. -c $< -o $@
";

/// Prints what the authors of SipHash publish as the hash of the numbers up to 14.
const MAIN: &str = "\
#include <openssl/siphash.h>
#include <stdio.h>
int main(void) {
    uint8_t input[15];
    uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    for (int i = 0; i < 15; i++) input[i] = i;
    printf(\"%llx\\n\", (unsigned long long)SIPHASH_24(key, input, 15));
    return 0;
}
";
const PUBLISHED: &str = "a129ca6149be45e5\n";

/// Where cargo keeps the archive, which it had to fetch to build this workspace.
fn archive() -> PathBuf {
    let locked = std::fs::read_to_string(crate::server::repository().join("Cargo.lock")).unwrap();
    let locked: toml::Table = locked.parse().unwrap();
    let mut packages = locked["package"].as_array().unwrap().iter();
    let package = packages.find(|package| package["name"].as_str() == Some(PROJECT)).unwrap();
    let name = format!("{PROJECT}-{}.crate", package["version"].as_str().unwrap());
    let own = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo");
    let home = std::env::var_os("CARGO_HOME").map_or_else(own, PathBuf::from);
    let indexes = std::fs::read_dir(home.join("registry/cache")).unwrap();
    let mut archives = indexes.map(|index| index.unwrap().path().join(&name));
    archives.find(|archive| archive.is_file()).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Hashes of all files under `folder`.
fn fingerprints(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(fingerprints(&path));
        } else {
            let hash = xxh3_64(&std::fs::read(&path).unwrap());
            files.insert(path, hash);
        }
    }
    files
}

/// `make` in `folder`, on the sources of these folders.
fn make(folder: &Path, sources: &str) -> String {
    let sources = format!("folders={sources}");
    run("make", &["-j4", "-C", folder.to_str().unwrap(), &sources])
}

#[test]
fn a_source_tree_is_unpacked_and_built_and_outlives_a_restart() {
    if !can_mount() {
        return;
    }
    let long = number("FOGBANK_PLUGS").is_some_and(|plugs| plugs > 5);
    let ((parts, sources), size) = if long { (ALL, "256MiB") } else { (SOME, "96MiB") };
    let volume = Volume::new(size);
    let mut server = volume.serve();
    let disk = Attached::new(volume.folder.path(), &volume.uri());
    disk.format();
    let folder = disk.mount();
    let (archive, into) = (archive(), ["-C", folder.to_str().unwrap()]);
    let unpack = ["--strip-components=2", "--no-same-owner", "-xzf", archive.to_str().unwrap()];
    run("tar", &[&into[..], &unpack, &["--wildcards"], parts].concat());
    std::fs::write(folder.join("Makefile"), MAKEFILE).unwrap();
    std::fs::write(folder.join("main.c"), MAIN).unwrap();
    let told = make(folder, sources);
    assert!(told.contains("built/library.a"), "{told}");
    assert_eq!(run(folder.join("program"), &[]), PUBLISHED);
    let before = fingerprints(folder);
    assert!(before.len() > 900, "{} files", before.len());
    disk.unmount();
    drop(disk);
    assert!(server.terminate().success());

    let mut server = volume.serve();
    let disk = Attached::new(volume.folder.path(), &volume.uri());
    run("/usr/sbin/fsck.ext4", &["-f", "-n", &disk.device]);
    let folder = disk.mount();
    assert!(fingerprints(folder) == before, "files changed over a restart");
    let told = make(folder, sources);
    assert!(told.contains("up to date"), "{told}");
    // The canary: another number in one source is seen, by us and by make.
    std::fs::write(folder.join("main.c"), MAIN.replace("input[i] = i", "input[i] = 1")).unwrap();
    assert!(fingerprints(folder) != before);
    make(folder, sources);
    assert_ne!(run(folder.join("program"), &[]), PUBLISHED);
    disk.unmount();
    drop(disk);
    assert!(server.terminate().success());
}
