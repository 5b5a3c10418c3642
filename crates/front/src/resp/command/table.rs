//! The table of commands: what exists, how many arguments it takes, where its keys are.

use super::server as local;
use super::{
    Data, clients, commands, config, deadlines, hashes, info, keys, sorted_ranges, sorted_sets,
    strings,
};
use crate::resp::client::Client;
use crate::resp::frame::Request;
use crate::resp::keyspace::Outcome;

/// What carries a command out.
#[derive(Clone, Copy)]
pub enum Action {
    /// A program on the keyspace, answered when its epoch ends.
    Data(Data),
    /// The connection alone, answered in its turn without a round.
    Local(Local),
    /// The state of a connection's transaction, or its end.
    Control(Control),
}

/// The code of a command about the connection or the server.
pub type Local = fn(&mut Client, &Request) -> Outcome;

/// Commands that change how the next ones are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// `MULTI`
    Multi,
    /// `EXEC`
    Exec,
    /// `DISCARD`
    Discard,
    /// `WATCH`
    Watch,
    /// `UNWATCH`
    Unwatch,
    /// `QUIT`
    Quit,
    /// `RESET`
    Reset,
}

/// One command.
pub struct Command {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Number of arguments, the name included; negative: at least so many.
    pub arity: i32,
    /// Letters: `w`rites, `r`eads, may need `m`emory, is `f`ast, needs `n`o password, `a`dmin; and
    /// what Redis says of its own: not in `s`cripts, while `l`oading, not in the slow log (`k`),
    /// while `b`usy.
    pub flags: &'static str,
    /// First key, last key (negative: from the end) and step.
    pub keys: Keys,
    /// What carries it out.
    pub action: Action,
}

impl Command {
    /// Whether a flag letter is set.
    pub fn is(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// The arguments of a request of `len` that are keys.
    pub fn key_places(&self, len: usize) -> impl Iterator<Item = usize> + use<> {
        key_places(self.keys, len)
    }

    /// The kind of data it is about, as `COMMAND DOCS` groups commands.
    pub fn group(&self) -> &'static str {
        match (self.name.as_bytes(), self.action) {
            (_, Action::Control(Control::Quit | Control::Reset)) => "connection",
            (_, Action::Control(_)) => "transactions",
            (b"auth" | b"client" | b"echo" | b"hello" | b"ping" | b"select", _) => "connection",
            (b"wait", _) => "generic",
            (_, Action::Local(_)) => "server",
            ([b'h', ..], _) => "hash",
            ([b'z', ..], _) => "sorted-set",
            (b"dbsize" | b"flushall" | b"flushdb", _) => "server",
            (
                b"copy" | b"del" | b"exists" | b"expire" | b"expireat" | b"expiretime" | b"keys"
                | b"object" | b"persist" | b"pexpire" | b"pexpireat" | b"pexpiretime" | b"pttl"
                | b"randomkey" | b"rename" | b"renamenx" | b"scan" | b"touch" | b"ttl" | b"type"
                | b"unlink",
                _,
            ) => "generic",
            _ => "string",
        }
    }
}

/// The command called `name`, in any case.
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    const NAME_BYTES_MAX: usize = 20;
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = TABLE.binary_search_by(|command| command.name.as_bytes().cmp(lower)).ok()?;
    TABLE.get(at)
}

/// Where keys are among the arguments that `keys` says, of a request of `len`.
pub fn key_places(keys: Keys, len: usize) -> impl Iterator<Item = usize> + use<> {
    let (first, last, step) = keys;
    let last = if last < 0 { len as i32 + last } else { last.min(len as i32 - 1) };
    let places = if first > 0 { first..last + 1 } else { 0..0 };
    places.step_by(step.unsigned_abs().max(1) as usize).map(|place| place as usize)
}

/// First key, last key (negative: from the end) and step.
pub type Keys = (i32, i32, i32);
/// No keys.
pub const NONE: Keys = (0, 0, 0);
const ONE: Keys = (1, 1, 1);
const TWO: Keys = (1, 2, 1);
const ALL: Keys = (1, -1, 1);

const fn data(
    name: &'static str,
    arity: i32,
    flags: &'static str,
    keys: Keys,
    code: Data,
) -> Command {
    Command { name, arity, flags, keys, action: Action::Data(code) }
}

const fn connection(name: &'static str, arity: i32, flags: &'static str, code: Local) -> Command {
    Command { name, arity, flags, keys: NONE, action: Action::Local(code) }
}

const fn control(
    name: &'static str,
    arity: i32,
    flags: &'static str,
    keys: Keys,
    code: Control,
) -> Command {
    Command { name, arity, flags, keys, action: Action::Control(code) }
}

/// All commands, in order of name.
pub static TABLE: &[Command] = &[
    data("append", 3, "wmf", ONE, strings::append),
    connection("auth", -2, "slfnb", local::auth),
    connection("client", -2, "", clients::client),
    connection("command", -1, "l", commands::command),
    connection("config", -2, "", config::config),
    data("copy", -3, "wm", TWO, keys::copy),
    data("dbsize", 1, "rf", NONE, keys::dbsize),
    connection("debug", -2, "asl", local::debug),
    data("decr", 2, "wmf", ONE, strings::decr),
    data("decrby", 3, "wmf", ONE, strings::decrby),
    data("del", -2, "w", ALL, keys::del),
    control("discard", 1, "slfb", NONE, Control::Discard),
    connection("echo", 2, "lf", local::echo),
    control("exec", 1, "slk", NONE, Control::Exec),
    data("exists", -2, "rf", ALL, keys::exists),
    data("expire", -3, "wf", ONE, deadlines::expire),
    data("expireat", -3, "wf", ONE, deadlines::expireat),
    data("expiretime", 2, "rf", ONE, deadlines::expiretime),
    data("flushall", -1, "w", NONE, keys::flush),
    data("flushdb", -1, "w", NONE, keys::flush),
    data("get", 2, "rf", ONE, strings::get),
    data("getdel", 2, "wf", ONE, strings::getdel),
    data("getex", -2, "wf", ONE, strings::getex),
    data("getrange", 4, "r", ONE, strings::getrange),
    data("getset", 3, "wmf", ONE, strings::getset),
    data("hdel", -3, "wf", ONE, hashes::hdel),
    connection("hello", -1, "slfnb", local::hello),
    data("hexists", 3, "rf", ONE, hashes::hexists),
    data("hget", 3, "rf", ONE, hashes::hget),
    data("hgetall", 2, "r", ONE, hashes::hgetall),
    data("hincrby", 4, "wmf", ONE, hashes::hincrby),
    data("hincrbyfloat", 4, "wmf", ONE, hashes::hincrbyfloat),
    data("hkeys", 2, "r", ONE, hashes::hkeys),
    data("hlen", 2, "rf", ONE, hashes::hlen),
    data("hmget", -3, "rf", ONE, hashes::hmget),
    data("hmset", -4, "wmf", ONE, hashes::hmset),
    data("hscan", -3, "r", ONE, hashes::hscan),
    data("hset", -4, "wmf", ONE, hashes::hset),
    data("hsetnx", 4, "wmf", ONE, hashes::hsetnx),
    data("hstrlen", 3, "rf", ONE, hashes::hstrlen),
    data("hvals", 2, "r", ONE, hashes::hvals),
    data("incr", 2, "wmf", ONE, strings::incr),
    data("incrby", 3, "wmf", ONE, strings::incrby),
    data("incrbyfloat", 3, "wmf", ONE, strings::incrbyfloat),
    connection("info", -1, "l", info::info),
    data("keys", 2, "r", NONE, keys::keys),
    connection("lastsave", 1, "lf", local::lastsave),
    data("mget", -2, "rf", ALL, strings::mget),
    data("mset", -3, "wm", (1, -1, 2), strings::mset),
    data("msetnx", -3, "wm", (1, -1, 2), strings::msetnx),
    control("multi", 1, "slfb", NONE, Control::Multi),
    data("object", -2, "", (2, 2, 1), keys::object),
    data("persist", 2, "wf", ONE, deadlines::persist),
    data("pexpire", -3, "wf", ONE, deadlines::pexpire),
    data("pexpireat", -3, "wf", ONE, deadlines::pexpireat),
    data("pexpiretime", 2, "rf", ONE, deadlines::pexpiretime),
    connection("ping", -1, "f", local::ping),
    data("psetex", 4, "wm", ONE, strings::psetex),
    data("pttl", 2, "rf", ONE, deadlines::pttl),
    control("quit", -1, "slfnb", NONE, Control::Quit),
    data("randomkey", 1, "r", NONE, keys::randomkey),
    data("rename", 3, "w", TWO, keys::rename),
    data("renamenx", 3, "wf", TWO, keys::renamenx),
    control("reset", 1, "slfnb", NONE, Control::Reset),
    data("scan", -2, "r", NONE, keys::scan),
    connection("select", 2, "lf", local::select),
    data("set", -3, "wm", ONE, strings::set),
    data("setex", 4, "wm", ONE, strings::setex),
    data("setnx", 3, "wmf", ONE, strings::setnx),
    data("setrange", 4, "wm", ONE, strings::setrange),
    data("strlen", 2, "rf", ONE, strings::strlen),
    data("substr", 4, "r", ONE, strings::getrange),
    connection("time", 1, "lf", local::time),
    data("touch", -2, "rf", ALL, keys::exists),
    data("ttl", 2, "rf", ONE, deadlines::ttl),
    data("type", 2, "rf", ONE, keys::kind),
    data("unlink", -2, "wf", ALL, keys::del),
    control("unwatch", 1, "slfb", NONE, Control::Unwatch),
    connection("wait", 3, "s", local::wait),
    control("watch", -2, "slfb", ALL, Control::Watch),
    data("zadd", -4, "wmf", ONE, sorted_sets::zadd),
    data("zcard", 2, "rf", ONE, sorted_sets::zcard),
    data("zcount", 4, "rf", ONE, sorted_ranges::zcount),
    data("zincrby", 4, "wmf", ONE, sorted_sets::zincrby),
    data("zlexcount", 4, "rf", ONE, sorted_ranges::zlexcount),
    data("zmscore", -3, "rf", ONE, sorted_sets::zmscore),
    data("zpopmax", -2, "wf", ONE, sorted_sets::zpopmax),
    data("zpopmin", -2, "wf", ONE, sorted_sets::zpopmin),
    data("zrange", -4, "r", ONE, sorted_ranges::zrange),
    data("zrangebylex", -4, "r", ONE, sorted_ranges::zrangebylex),
    data("zrangebyscore", -4, "r", ONE, sorted_ranges::zrangebyscore),
    data("zrank", 3, "rf", ONE, sorted_sets::zrank),
    data("zrem", -3, "wf", ONE, sorted_sets::zrem),
    data("zremrangebylex", 4, "w", ONE, sorted_ranges::zremrangebylex),
    data("zremrangebyrank", 4, "w", ONE, sorted_ranges::zremrangebyrank),
    data("zremrangebyscore", 4, "w", ONE, sorted_ranges::zremrangebyscore),
    data("zrevrange", -4, "r", ONE, sorted_ranges::zrevrange),
    data("zrevrangebylex", -4, "r", ONE, sorted_ranges::zrevrangebylex),
    data("zrevrangebyscore", -4, "r", ONE, sorted_ranges::zrevrangebyscore),
    data("zrevrank", 3, "rf", ONE, sorted_sets::zrevrank),
    data("zscan", -3, "r", ONE, sorted_sets::zscan),
    data("zscore", 3, "rf", ONE, sorted_sets::zscore),
];

/// A command of a container.
pub struct Subcommand {
    container: &'static str,
    /// Its name, in lower case.
    pub name: &'static str,
    /// Number of arguments, the container's name included; negative: at least so many.
    pub arity: i32,
    /// Letters, as those of commands.
    pub flags: &'static str,
    /// Where its keys are.
    pub keys: Keys,
}

impl Subcommand {
    /// Whether this is its name, in any case.
    pub fn is_called(&self, name: &[u8]) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(name)
    }
}

const fn of(
    container: &'static str,
    name: &'static str,
    arity: i32,
    flags: &'static str,
) -> Subcommand {
    Subcommand { container, name, arity, flags, keys: NONE }
}

const fn of_key(container: &'static str, name: &'static str) -> Subcommand {
    Subcommand { container, name, arity: 3, flags: "r", keys: (2, 2, 1) }
}

static SUBCOMMANDS: &[Subcommand] = &[
    of("client", "getname", 2, "sl"),
    of("client", "help", 2, "l"),
    of("client", "id", 2, "sl"),
    of("client", "info", 2, "sl"),
    of("client", "list", -2, "asl"),
    of("client", "no-evict", 3, "asl"),
    of("client", "setname", 3, "sl"),
    of("command", "count", 2, "l"),
    of("command", "docs", -2, "l"),
    of("command", "getkeys", -4, "l"),
    of("command", "getkeysandflags", -4, "l"),
    of("command", "help", 2, "l"),
    of("command", "info", -2, "l"),
    of("command", "list", -2, "l"),
    of("config", "get", -3, "asl"),
    of("config", "help", 2, "l"),
    of("config", "resetstat", 2, "asl"),
    of("config", "rewrite", 2, "asl"),
    of("config", "set", -4, "asl"),
    of_key("object", "encoding"),
    of_key("object", "freq"),
    of("object", "help", 2, "l"),
    of_key("object", "idletime"),
    of_key("object", "refcount"),
];

/// The commands that `command` contains.
pub fn subcommands(command: &Command) -> impl Iterator<Item = &'static Subcommand> + use<> {
    let container = command.name;
    SUBCOMMANDS.iter().filter(move |sub| sub.container == container)
}

/// Why a request is refused before it is looked at, or queued, if it is.
pub fn misfit(command: &Command, request: &Request) -> Option<Vec<u8>> {
    let arity = |name: &str| format!("wrong number of arguments for '{name}' command").into_bytes();
    let mut subcommands = subcommands(command).peekable();
    if subcommands.peek().is_none() || request.len() < 2 {
        let fits = takes(command.arity, request.len());
        let is_refused = fits && command.name == "debug";
        return match fits {
            true => is_refused.then(|| local::NO_DEBUG.into()),
            false => Some(arity(command.name)),
        };
    }
    match subcommands.find(|sub| sub.is_called(request.get(1))) {
        Some(sub) => (!takes(sub.arity, request.len()))
            .then(|| arity(&format!("{}|{}", sub.container, sub.name))),
        None => {
            let container = command.name.to_ascii_uppercase();
            let name = request.shown(1, 128);
            let help = format!("'. Try {container} HELP.");
            Some([b"unknown subcommand '", name, help.as_bytes()].concat())
        }
    }
}

/// Whether a request with `len` arguments fits.
pub fn takes(arity: i32, len: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { len >= wanted } else { len == wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_found() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
        for command in TABLE {
            let found = lookup(command.name.to_uppercase().as_bytes()).map(|found| found.name);
            assert_eq!(found, Some(command.name));
        }
        assert!(lookup(b"lpush").is_none());
        assert!(lookup(b"a name that is longer than any command has").is_none());
    }
}
