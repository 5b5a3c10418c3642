//! Every command in README.md and on the pages of docs/ can be pasted as it stands: each page is
//! run from its first line to its last, in a folder of its own, as a reader with several terminals
//! would; and every link leads somewhere.
//!
//! A fenced block says after its three ticks what it is:
//!
//! - `sh`: it is run, by a shell that ends at the first command that fails.
//! - `sh serve`: it is started in another terminal; the page goes on when it says that it serves.
//! - `sh stopped`: first the last one that was started is stopped, as Ctrl-C does; once for each
//!   `stopped`.
//! - `sh ends-3`: its last command has to end with 3.
//! - `sh needs-root`: it is run where this machine lets us mount.
//! - `sh` and one of the reasons in [`exceptions::REASONS`]: it is not run, and counted there.
//! - `text`, `ini` and the like hold no commands.
#![allow(clippy::disallowed_methods)] // real processes in real time
#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[path = "../volume/can_mount.rs"]
mod can_mount;
mod exceptions;
mod links;
mod page;
mod reader;
#[path = "../clients/resp.rs"]
#[allow(dead_code)] // `server` needs its type only
mod resp;
#[path = "../clients/server.rs"]
mod server;
mod width;

use page::Page;
use reader::Reader;

/// Reads the page to its end, doing what it says.
fn follow(name: &str) {
    let page = Page::read(name).unwrap_or_else(|why| panic!("{why}"));
    if let Err(why) = Reader::new().follow(&page) {
        panic!("{why}");
    }
}

macro_rules! pages {
    ($($test:ident $name:literal,)*) => {
        $(#[test]
        fn $test() {
            follow($name);
        })*
        /// The pages with commands that are run.
        const RUN: &[&str] = &[$($name),*];
    };
}

pages! {
    the_readme "README.md",
    audits "docs/audit.md",
    backups "docs/backup.md",
    clouds "docs/clouds.md",
    disks "docs/disk.md",
    own_servers "docs/own-server.md",
    redis "docs/redis.md",
    registers "docs/register.md",
    sites "docs/site.md",
    tuning "docs/tuning.md",
}

#[test]
fn no_page_is_forgotten() {
    for page in page::all() {
        let runs = page.blocks().iter().any(page::Block::is_run);
        assert_eq!(runs, RUN.contains(&page.name()), "{}: is it in the list?", page.name());
    }
}

#[test]
fn what_is_not_run_is_counted() {
    exceptions::check(&page::all());
}

#[test]
fn every_link_leads_somewhere() {
    let dead = links::dead(&page::all_documents());
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn prose_fits_on_a_screen() {
    let wide: Vec<String> = page::all_documents().iter().flat_map(width::wide).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// The server does not know the command.
const REFUSED: &str = "```sh serve\ntarget/release/fogbank serve --data a --store memory:\n```\n\
    ```sh\nredis-cli NOSUCH\n```\n";

/// That the test can fail: each of these pages is wrong in one way.
#[test]
fn a_page_that_does_not_hold_is_found_out() {
    for (text, told) in [
        ("```sh\ntrue\nfalse\ntrue\n```\n", "page.md:1"),
        ("```sh\ntrue\n```\n```sh\nfogbnak inspect\n```\n", "page.md:4"),
        ("```sh\nfalse | true\n```\n", "page.md:1"),
        ("```sh\necho $NOT_SET\n```\n", "page.md:1"),
        ("```sh serve\ntrue\n```\n", "it ended, and did not say that it serves"),
        ("```sh ends-3\ntrue\n```\n", "ended with 0, not with 3"),
        (REFUSED, "page.md:4"),
        ("```sh stopped\ntrue\n```\n", "nothing is there to be stopped"),
    ] {
        let page = Page::parse("page.md", text).unwrap();
        let said = Reader::new().follow(&page).expect_err(text);
        assert!(said.contains(told), "{text}{said}");
    }
    for text in
        ["```\nls\n```\n", "```sh sevre\nls\n```\n", "```sh\nls\n", "```text\nfogbank x\n```\n"]
    {
        assert!(Page::parse("page.md", text).is_err(), "{text}");
    }
    let page = Page::parse("docs/page.md", "[a](redis.md) [b](nowhere.md) [c](redis.md#nothing)\n");
    assert_eq!(links::dead(&[page.unwrap()]).len(), 2);
    let line = "a".repeat(101);
    let page = format!("{line}\n| {line} |\n```text\n{line}\n```\n{line}\n");
    let told = width::wide(&Page::parse("page.md", &page).unwrap());
    assert_eq!(told, ["page.md:1: more than 100 columns", "page.md:6: more than 100 columns"]);
}
