//! `COMMAND`: what commands there are, and which of their arguments are keys.
//!
//! Told as Redis 7.0 tells it, but for tips, complexities and the syntax of arguments, which are
//! left out.

use super::docs::{Doc, doc};
use super::syntax_error;
use super::table::{
    Command, Keys, NONE, Subcommand, TABLE, key_places, lookup, subcommands, takes,
};
use crate::resp::client::Client;
use crate::resp::frame::Request;
use crate::resp::keyspace::{Outcome, fail};
use crate::resp::pattern;
use crate::resp::reply::Reply;

/// The lines of a help text, and those about help itself.
pub fn help(lines: &[&'static str]) -> Reply {
    let own = ["HELP", "    Prints this help."];
    Reply::Array(lines.iter().copied().chain(own).map(Reply::Simple).collect())
}

const HELP: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
    "    Return a list of all commands in this server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands, or about all.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple commands, or about all.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full command.",
];

/// `COMMAND [subcommand]`
pub fn command(_client: &mut Client, request: &Request) -> Outcome {
    if request.len() == 1 {
        return Ok(Reply::Array(tops().map(|named| named.info()).collect()));
    }
    let wanted = || request.from(2).map(Named::find);
    match &request.get(1).to_ascii_lowercase()[..] {
        b"count" => Ok(Reply::count(TABLE.len())),
        b"list" => list(request),
        b"info" if request.len() == 2 => {
            Ok(Reply::Array(tops().map(|named| named.info()).collect()))
        }
        b"info" => {
            Ok(Reply::Array(wanted().map(|named| named.map_or(Reply::Null, Named::info)).collect()))
        }
        b"docs" if request.len() == 2 => Ok(Reply::Map(tops().map(Named::docs).collect())),
        b"docs" => Ok(Reply::Map(wanted().flatten().map(Named::docs).collect())),
        b"getkeys" => keys_of(request, |key, _| key),
        b"getkeysandflags" => {
            keys_of(request, |key, access| Reply::Array(vec![key, statuses(access)]))
        }
        b"help" => Ok(help(HELP)),
        _ => syntax_error(),
    }
}

/// A command, or a subcommand of one.
#[derive(Clone, Copy)]
struct Named {
    command: &'static Command,
    sub: Option<&'static Subcommand>,
}

fn tops() -> impl Iterator<Item = Named> {
    TABLE.iter().map(|command| Named { command, sub: None })
}

impl Named {
    /// The command, or `command|subcommand`, of this name in any case.
    fn find(name: &[u8]) -> Option<Self> {
        let mut parts = name.splitn(2, |byte| *byte == b'|');
        let top = Self { command: lookup(parts.next()?)?, sub: None };
        match parts.next() {
            None => Some(top),
            Some(name) => top.subs().find(|named| named.sub.is_some_and(|sub| sub.is_called(name))),
        }
    }

    fn subs(self) -> impl Iterator<Item = Self> {
        subcommands(self.command).map(move |sub| Self { sub: Some(sub), ..self })
    }

    fn is_container(self) -> bool {
        self.sub.is_none() && self.subs().next().is_some()
    }

    fn name(self) -> String {
        match self.sub {
            None => self.command.name.to_owned(),
            Some(sub) => format!("{}|{}", self.command.name, sub.name),
        }
    }

    fn doc(self) -> Doc {
        doc(&self.name())
    }

    fn is(self, flag: char) -> bool {
        self.sub.map_or(self.command.flags, |sub| sub.flags).contains(flag)
    }

    fn keys(self) -> Keys {
        match self.sub {
            None if self.is_container() => NONE, // each has its own
            None => self.command.keys,
            Some(sub) => sub.keys,
        }
    }

    fn flags(self) -> Vec<&'static str> {
        let all = [
            ('w', &["write"][..]),
            ('r', &["readonly"]),
            ('m', &["denyoom"]),
            ('a', &["admin"]),
            ('s', &["noscript"]),
            ('l', &["loading", "stale"]),
            ('k', &["skip_slowlog"]),
            ('f', &["fast"]),
            ('n', &["no_auth"]),
            ('b', &["allow_busy"]),
        ];
        let set = all.iter().filter(|(letter, _)| self.is(*letter));
        set.flat_map(|(_, names)| names.iter().copied()).collect()
    }

    /// The categories by which users are given rights, where there are users.
    fn categories(self) -> Vec<&'static str> {
        let name = self.command.name;
        let group = match (self.command.group(), name) {
            // Containers have no more of their own.
            _ if self.is_container() && name != "command" => None,
            (_, "wait" | "command") | ("connection", _) => Some("@connection"),
            ("string", _) => Some("@string"),
            ("hash", _) => Some("@hash"),
            ("sorted-set", _) => Some("@sortedset"),
            ("transactions", _) => Some("@transaction"),
            ("generic", _) | (_, "dbsize" | "flushall" | "flushdb") => Some("@keyspace"),
            _ => None,
        };
        let is_dangerous =
            self.is('a') || matches!(name, "flushall" | "flushdb" | "info" | "keys" | "lastsave");
        let all = [
            (self.is('w'), "@write"),
            (self.is('r') && !self.is_container(), "@read"),
            (self.is('a') || name == "lastsave", "@admin"),
            (is_dangerous, "@dangerous"),
            (self.is('f'), "@fast"),
            (!self.is('f'), "@slow"),
        ];
        let set = all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name);
        set.chain(group).collect()
    }

    fn info(self) -> Reply {
        let (first, last, step) = self.keys();
        let arity = self.sub.map_or(self.command.arity, |sub| sub.arity);
        Reply::Array(vec![
            Reply::text(self.name()),
            Reply::Integer(arity.into()),
            statuses(&self.flags()),
            Reply::Integer(first.into()),
            Reply::Integer(last.into()),
            Reply::Integer(step.into()),
            statuses(&self.categories()),
            Reply::Set(Vec::new()),
            Reply::Set(self.key_specs()),
            Reply::Set(self.subs_unless_sub().map(Named::info).collect()),
        ])
    }

    fn subs_unless_sub(self) -> impl Iterator<Item = Self> {
        self.subs().filter(move |_| self.sub.is_none())
    }

    /// Where keys are, one after the other where each is used in its own way.
    fn key_specs(self) -> Vec<Reply> {
        let ((first, last, step), access) = (self.keys(), self.doc().access);
        let of = |(index, access): (usize, &&'static [&'static str])| {
            let last = if last < 0 { last } else { 0 };
            let spec = |kind, values: Vec<(&'static str, i32)>| {
                let values = values.into_iter();
                let values =
                    values.map(|(name, value)| (Reply::word(name), Reply::Integer(value.into())));
                Reply::Map(vec![
                    (Reply::word("type"), Reply::word(kind)),
                    (Reply::word("spec"), Reply::Map(values.collect())),
                ])
            };
            Reply::Map(vec![
                (Reply::word("flags"), statuses(access)),
                (Reply::word("begin_search"), spec("index", vec![("index", first + index as i32)])),
                (
                    Reply::word("find_keys"),
                    spec("range", vec![("lastkey", last), ("keystep", step), ("limit", 0)]),
                ),
            ])
        };
        match first {
            0 => Vec::new(),
            _ => access.iter().enumerate().map(of).collect(),
        }
    }

    fn docs(self) -> (Reply, Reply) {
        let doc = self.doc();
        let mut told = vec![
            (Reply::word("summary"), Reply::word(doc.summary)),
            (Reply::word("since"), Reply::word(doc.since)),
            (Reply::word("group"), Reply::word(self.command.group())),
        ];
        if self.is_container() {
            let subs = self.subs().map(Named::docs).collect();
            told.push((Reply::word("subcommands"), Reply::Map(subs)));
        }
        (Reply::text(self.name()), Reply::Map(told))
    }
}

fn statuses(names: &[&'static str]) -> Reply {
    Reply::Set(names.iter().copied().map(Reply::Simple).collect())
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
fn list(request: &Request) -> Outcome {
    let all = || tops().flat_map(|top| std::iter::once(top).chain(top.subs()));
    let wanted: Box<dyn Fn(&Named) -> bool> = match request.len() {
        2 => Box::new(|_| true),
        5 if !request.is(2, "filterby") => return syntax_error(),
        5 if request.is(3, "module") => Box::new(|_| false),
        5 if request.is(3, "aclcat") => {
            let category = [b"@", request.get(4)].concat();
            Box::new(move |named| {
                let mut all = named.categories().into_iter();
                all.any(|name| name.as_bytes().eq_ignore_ascii_case(&category))
            })
        }
        5 if request.is(3, "pattern") => {
            let pattern = request.get(4).to_ascii_lowercase();
            Box::new(move |named| pattern::matches(&pattern, named.name().as_bytes()))
        }
        _ => return syntax_error(),
    };
    Ok(Reply::Array(all().filter(|named| wanted(named)).map(|n| Reply::text(n.name())).collect()))
}

/// `COMMAND GETKEYS` and its like: what `show` makes of each key of the command in the arguments
/// from the third on, and of how it is used.
fn keys_of(request: &Request, show: fn(Reply, &[&'static str]) -> Reply) -> Outcome {
    const AT: usize = 2;
    let Some(top) = Named::find(request.get(AT)).filter(|named| named.sub.is_none()) else {
        return fail("Invalid command specified");
    };
    let name = request.get(AT + 1);
    let sub = top.subs().find(|named| named.sub.is_some_and(|sub| sub.is_called(name)));
    if top.is_container() && sub.is_none() && top.command.name != "command" {
        return fail("Invalid command specified");
    }
    let named = sub.unwrap_or(top);
    let arity = named.sub.map_or(named.command.arity, |sub| sub.arity);
    let len = request.len() - AT;
    let keys = named.keys();
    if keys == NONE {
        return fail("The command has no key arguments");
    }
    if !takes(arity, len) {
        return fail("Invalid number of arguments specified for command");
    }
    let mut access = named.doc().access;
    // Its key alone is used in another way with an option.
    if named.command.name == "set" {
        let tells = (AT + 3..request.len()).any(|at| request.is(at, "get"));
        access = if tells { &[&["RW", "access", "update"]] } else { &[&["OW", "update"]] };
    }
    let of = |(index, place): (usize, usize)| {
        let access = access.get(index).or(access.last()).copied().unwrap_or_default();
        show(Reply::Bulk(request.bytes_of(place + AT)), access)
    };
    Ok(Reply::Array(key_places(keys, len).enumerate().map(of).collect()))
}
