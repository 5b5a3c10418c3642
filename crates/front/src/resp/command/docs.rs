//! What each command is for, since which version Redis has it, and how it uses its keys.
//!
//! `RO`, `RW`, `OW` and `RM`: a key is only read, changed, replaced or removed; then what becomes
//! of its data: it is told (`access`), changed (`update`), added to (`insert`) or taken away
//! (`delete`).

/// What is told of a command.
#[derive(Debug, Clone, Copy)]
pub struct Doc {
    /// In a few words.
    pub summary: &'static str,
    /// The first version of Redis that had it.
    pub since: &'static str,
    /// How keys are used: one entry for all, or one a key.
    pub access: Access,
}

type Access = &'static [&'static [&'static str]];

/// What is told of `command` or `command|subcommand`, in lower case.
pub fn doc(name: &str) -> Doc {
    let at = DOCS.binary_search_by(|(known, ..)| (*known).cmp(name));
    let (_, since, access, summary) = at.map_or(("", "", NONE, ""), |at| DOCS[at]);
    Doc { summary, since, access }
}

const RW_INSERT: Access = &[&["RW", "insert"]];
const NONE: Access = &[];
const RO_ACCESS_THEN_OW_UPDATE: Access = &[&["RO", "access"], &["OW", "update"]];
const RW_ACCESS_UPDATE: Access = &[&["RW", "access", "update"]];
const RM_DELETE: Access = &[&["RM", "delete"]];
const RO: Access = &[&["RO"]];
const RW_UPDATE: Access = &[&["RW", "update"]];
const RO_ACCESS: Access = &[&["RO", "access"]];
const RW_ACCESS_DELETE: Access = &[&["RW", "access", "delete"]];
const RW_DELETE: Access = &[&["RW", "delete"]];
const OW_UPDATE: Access = &[&["OW", "update"]];
const OW_INSERT: Access = &[&["OW", "insert"]];
const RW_ACCESS_DELETE_THEN_OW_UPDATE: Access = &[&["RW", "access", "delete"], &["OW", "update"]];
const RW_ACCESS_DELETE_THEN_OW_INSERT: Access = &[&["RW", "access", "delete"], &["OW", "insert"]];
const RW_ACCESS_UPDATE_VARIABLE_FLAGS: Access = &[&["RW", "access", "update", "variable_flags"]];

/// In order of name.
static DOCS: &[(&str, &str, Access, &str)] = &[
    ("append", "2.0.0", RW_INSERT, "Append bytes to a string, or make it"),
    ("auth", "1.0.0", NONE, "Show that one may use this server"),
    ("client", "2.4.0", NONE, "A container for commands about connections"),
    ("client|getname", "2.6.9", NONE, "The name that this connection gave itself"),
    ("client|help", "5.0.0", NONE, "What the subcommands do"),
    ("client|id", "5.0.0", NONE, "The number of this connection"),
    ("client|info", "6.2.0", NONE, "What is known of this connection"),
    ("client|list", "2.4.0", NONE, "What is known of all connections, or some"),
    ("client|no-evict", "7.0.0", NONE, "Taken, and without effect"),
    ("client|setname", "2.6.9", NONE, "Give this connection a name"),
    ("command", "2.8.13", NONE, "What is known of all commands"),
    ("command|count", "2.8.13", NONE, "How many commands there are"),
    ("command|docs", "7.0.0", NONE, "What commands are for"),
    ("command|getkeys", "2.8.13", NONE, "The arguments of a command that are keys"),
    (
        "command|getkeysandflags",
        "7.0.0",
        NONE,
        "The arguments of a command that are keys, and how it uses them",
    ),
    ("command|help", "5.0.0", NONE, "What the subcommands do"),
    ("command|info", "2.8.13", NONE, "What is known of some commands, or all"),
    ("command|list", "7.0.0", NONE, "The names of all commands, or those that pass a filter"),
    ("config", "2.0.0", NONE, "A container for commands about the settings"),
    ("config|get", "2.0.0", NONE, "The values of settings"),
    ("config|help", "5.0.0", NONE, "What the subcommands do"),
    ("config|resetstat", "2.0.0", NONE, "Taken, and without effect"),
    ("config|rewrite", "2.8.0", NONE, "Refused: there is no file to write"),
    ("config|set", "2.0.0", NONE, "Refused: nothing is set while the server runs"),
    ("copy", "6.2.0", RO_ACCESS_THEN_OW_UPDATE, "Copy what a key holds to another key"),
    ("dbsize", "1.0.0", NONE, "How many keys there are"),
    ("debug", "1.0.0", NONE, "Refused"),
    ("decr", "1.0.0", RW_ACCESS_UPDATE, "Take one from a number"),
    ("decrby", "1.0.0", RW_ACCESS_UPDATE, "Take an amount from a number"),
    ("del", "1.0.0", RM_DELETE, "Remove keys"),
    ("discard", "2.0.0", NONE, "Forget the commands queued since MULTI"),
    ("echo", "1.0.0", NONE, "Say again what was said"),
    ("exec", "1.2.0", NONE, "Carry out the commands queued since MULTI"),
    ("exists", "1.0.0", RO, "How many of some keys there are"),
    ("expire", "1.0.0", RW_UPDATE, "Let a key expire in so many seconds"),
    ("expireat", "1.2.0", RW_UPDATE, "Let a key expire at a second of Unix time"),
    ("expiretime", "7.0.0", RO_ACCESS, "The second of Unix time at which a key expires"),
    ("flushall", "1.0.0", NONE, "Remove all keys"),
    ("flushdb", "1.0.0", NONE, "Remove all keys"),
    ("get", "1.0.0", RO_ACCESS, "The value of a string"),
    ("getdel", "6.2.0", RW_ACCESS_DELETE, "The value of a string, which is removed"),
    ("getex", "6.2.0", RW_ACCESS_UPDATE, "The value of a string, and change when it expires"),
    ("getrange", "2.4.0", RO_ACCESS, "Some bytes of a string"),
    ("getset", "1.0.0", RW_ACCESS_UPDATE, "Set a string and tell the value that it had"),
    ("hdel", "2.0.0", RW_DELETE, "Remove fields of a hash"),
    ("hello", "6.0.0", NONE, "Greet, and choose the version of the protocol"),
    ("hexists", "2.0.0", RO, "Whether a hash has a field"),
    ("hget", "2.0.0", RO_ACCESS, "The value of a field of a hash"),
    ("hgetall", "2.0.0", RO_ACCESS, "All fields of a hash with their values"),
    ("hincrby", "2.0.0", RW_ACCESS_UPDATE, "Add an amount to a number in a field of a hash"),
    (
        "hincrbyfloat",
        "2.6.0",
        RW_ACCESS_UPDATE,
        "Add an amount to a decimal number in a field of a hash",
    ),
    ("hkeys", "2.0.0", RO_ACCESS, "All fields of a hash"),
    ("hlen", "2.0.0", RO, "How many fields a hash has"),
    ("hmget", "2.0.0", RO_ACCESS, "The values of some fields of a hash"),
    ("hmset", "2.0.0", RW_UPDATE, "Set fields of a hash"),
    ("hscan", "2.8.0", RO_ACCESS, "Walk through the fields of a hash"),
    ("hset", "2.0.0", RW_UPDATE, "Set fields of a hash, and tell how many are new"),
    ("hsetnx", "2.0.0", RW_INSERT, "Set a field of a hash if it has no such field"),
    ("hstrlen", "3.2.0", RO, "The length of the value of a field of a hash"),
    ("hvals", "2.0.0", RO_ACCESS, "All values of a hash"),
    ("incr", "1.0.0", RW_ACCESS_UPDATE, "Add one to a number"),
    ("incrby", "1.0.0", RW_ACCESS_UPDATE, "Add an amount to a number"),
    ("incrbyfloat", "2.6.0", RW_ACCESS_UPDATE, "Add an amount to a decimal number"),
    ("info", "1.0.0", NONE, "What is known of the server"),
    ("keys", "1.0.0", NONE, "All keys whose names match a pattern"),
    ("lastsave", "1.0.0", NONE, "When the server began to save, which it does all the time"),
    ("mget", "1.0.0", RO_ACCESS, "The values of some strings"),
    ("mset", "1.0.1", OW_UPDATE, "Set strings"),
    ("msetnx", "1.0.1", OW_INSERT, "Set strings if none of the keys is there"),
    ("multi", "1.2.0", NONE, "Queue the commands that follow, until EXEC"),
    ("object", "2.2.3", NONE, "A container for commands about how values are kept"),
    ("object|encoding", "2.2.3", RO, "How a value is encoded: a constant for its type"),
    ("object|freq", "4.0.0", RO, "Refused: nobody counts how often a key is used"),
    ("object|help", "6.2.0", NONE, "What the subcommands do"),
    ("object|idletime", "2.2.3", RO, "Seconds since a key was last used: 0"),
    ("object|refcount", "2.2.3", RO, "How many references there are to a value: 1"),
    ("persist", "2.2.0", RW_UPDATE, "Let a key not expire"),
    ("pexpire", "2.6.0", RW_UPDATE, "Let a key expire in so many milliseconds"),
    ("pexpireat", "2.6.0", RW_UPDATE, "Let a key expire at a millisecond of Unix time"),
    ("pexpiretime", "7.0.0", RO_ACCESS, "The millisecond of Unix time at which a key expires"),
    ("ping", "1.0.0", NONE, "Ask for a sign of life"),
    ("psetex", "2.6.0", OW_UPDATE, "Set a string that expires in so many milliseconds"),
    ("pttl", "2.6.0", RO_ACCESS, "Milliseconds until a key expires"),
    ("quit", "1.0.0", NONE, "End the connection"),
    ("randomkey", "1.0.0", NONE, "Some key"),
    ("rename", "1.0.0", RW_ACCESS_DELETE_THEN_OW_UPDATE, "Give what a key holds to another key"),
    (
        "renamenx",
        "1.0.0",
        RW_ACCESS_DELETE_THEN_OW_INSERT,
        "Give what a key holds to another key if that is not there",
    ),
    ("reset", "6.2.0", NONE, "Put the connection back as it began"),
    ("scan", "2.8.0", NONE, "Walk through the keys"),
    ("select", "1.0.0", NONE, "Choose a database: there is one, number 0"),
    ("set", "1.0.0", RW_ACCESS_UPDATE_VARIABLE_FLAGS, "Set a string"),
    ("setex", "2.0.0", OW_UPDATE, "Set a string that expires in so many seconds"),
    ("setnx", "1.0.0", OW_INSERT, "Set a string if there is no such key"),
    ("setrange", "2.2.0", RW_UPDATE, "Replace some bytes of a string"),
    ("strlen", "2.2.0", RO, "The length of a string"),
    ("substr", "1.0.0", RO_ACCESS, "Some bytes of a string"),
    ("time", "2.6.0", NONE, "The time of the server"),
    ("touch", "3.2.1", RO, "How many of some keys there are"),
    ("ttl", "1.0.0", RO_ACCESS, "Seconds until a key expires"),
    ("type", "1.0.0", RO, "What kind of value a key holds"),
    ("unlink", "4.0.0", RM_DELETE, "Remove keys"),
    ("unwatch", "2.2.0", NONE, "Forget the keys that are watched"),
    ("wait", "3.0.0", NONE, "Wait for replicas, of which there are none"),
    ("watch", "2.2.0", RO, "Let the next EXEC do nothing if one of these keys changes before"),
    ("zadd", "1.2.0", RW_UPDATE, "Put members into a sorted set, or change their scores"),
    ("zcard", "1.2.0", RO, "How many members a sorted set has"),
    ("zcount", "2.0.0", RO_ACCESS, "How many members of a sorted set have scores in a range"),
    (
        "zincrby",
        "1.2.0",
        RW_ACCESS_UPDATE,
        "Add an amount to the score of a member of a sorted set",
    ),
    ("zlexcount", "2.8.9", RO_ACCESS, "How many members of a sorted set are in a range of names"),
    ("zmscore", "6.2.0", RO_ACCESS, "The scores of some members of a sorted set"),
    (
        "zpopmax",
        "5.0.0",
        RW_ACCESS_DELETE,
        "The members of a sorted set with the highest scores, which are removed",
    ),
    (
        "zpopmin",
        "5.0.0",
        RW_ACCESS_DELETE,
        "The members of a sorted set with the lowest scores, which are removed",
    ),
    ("zrange", "1.2.0", RO_ACCESS, "Members of a sorted set in a range"),
    ("zrangebylex", "2.8.9", RO_ACCESS, "Members of a sorted set in a range of names"),
    ("zrangebyscore", "1.0.5", RO_ACCESS, "Members of a sorted set with scores in a range"),
    ("zrank", "2.0.0", RO_ACCESS, "The place of a member of a sorted set, from the lowest score"),
    ("zrem", "1.2.0", RW_DELETE, "Remove members of a sorted set"),
    ("zremrangebylex", "2.8.9", RW_DELETE, "Remove members of a sorted set in a range of names"),
    ("zremrangebyrank", "2.0.0", RW_DELETE, "Remove members of a sorted set in a range of places"),
    (
        "zremrangebyscore",
        "1.2.0",
        RW_DELETE,
        "Remove members of a sorted set with scores in a range",
    ),
    (
        "zrevrange",
        "1.2.0",
        RO_ACCESS,
        "Members of a sorted set in a range of places, from the highest score",
    ),
    (
        "zrevrangebylex",
        "2.8.9",
        RO_ACCESS,
        "Members of a sorted set in a range of names, from the last",
    ),
    (
        "zrevrangebyscore",
        "2.2.0",
        RO_ACCESS,
        "Members of a sorted set with scores in a range, from the highest",
    ),
    (
        "zrevrank",
        "2.0.0",
        RO_ACCESS,
        "The place of a member of a sorted set, from the highest score",
    ),
    ("zscan", "2.8.0", RO_ACCESS, "Walk through the members of a sorted set"),
    ("zscore", "1.2.0", RO_ACCESS, "The score of a member of a sorted set"),
];

#[cfg(test)]
mod tests {
    use super::super::table::{TABLE, subcommands};
    use super::*;

    #[test]
    fn every_command_is_told_of_and_no_other() {
        assert!(DOCS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut count = 0;
        for command in TABLE {
            let of_subs = subcommands(command).map(|sub| format!("{}|{}", command.name, sub.name));
            for name in std::iter::once(command.name.to_owned()).chain(of_subs) {
                assert!(!doc(&name).summary.is_empty(), "{name}");
                count += 1;
            }
            let keyed = command.keys.0 > 0 && subcommands(command).next().is_none();
            assert_eq!(doc(command.name).access.is_empty(), !keyed, "{}", command.name);
        }
        assert_eq!(count, DOCS.len());
    }
}
