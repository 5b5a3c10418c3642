//! What a key is to whoever uses it: for messages that name records to their owner.

use super::layout::{Role, split_order, split_suffix};
use fogbank_txn::Key;

/// The record of a key in words: what a command calls it, or group and member as they stand.
pub fn told(key: &Key) -> String {
    let (group, member) = (key.group(), key.member());
    let stored = || format!("the record {} of the group {}", quoted(member), quoted(&group));
    if &group[..] == b"R" {
        return "the number of the last FLUSHDB".into();
    }
    let Some((role, suffix)) = split_group(&group) else { return stored() };
    let collection = split_suffix(suffix).map(|(name, _)| quoted(name));
    let of = |what: &str, kind: &str| match &collection {
        Some(name) => format!("the {what} of the {kind} {name}"),
        None => stored(),
    };
    match role {
        _ if role == Role::Strings as u8 => format!("the string {}", quoted(member)),
        _ if role == Role::Fields as u8 => of(&format!("field {}", quoted(member)), "hash"),
        _ if role == Role::Members as u8 => of(&format!("member {}", quoted(member)), "sorted set"),
        _ if role == Role::Order as u8 => {
            let member = split_order(member).map_or(member, |(_, member)| member);
            of(&format!("place of {}", quoted(member)), "sorted set")
        }
        _ if role == Role::Deadlines as u8 => format!("when {} expires", quoted(member)),
        _ => stored(),
    }
}

/// The role and what follows it in a group's name.
fn split_group(group: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = group.strip_prefix(b"r")?.split_first()?;
    let rest = rest.get(usize::from(digits.checked_sub(2)?)..)?;
    rest.split_first().map(|(role, suffix)| (*role, suffix))
}

/// Bytes between quotes, with escapes for those that are not printed.
fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::super::layout::{collection_group, generation_key, order_member, shared_group};
    use super::*;

    #[test]
    fn records_are_called_what_commands_call_them() {
        for generation in [0, 1, 200] {
            let collection = |role| collection_group(generation, role, b"ward 3", 7);
            let shared = |role| shared_group(generation, role);
            let of = |group: &[u8], member: &[u8]| told(&Key::new(group, member));
            assert_eq!(of(&shared(Role::Strings), b"a\0b"), "the string \"a\\x00b\"");
            let field = of(&collection(Role::Fields), b"bed");
            assert_eq!(field, "the field \"bed\" of the hash \"ward 3\"");
            let member = of(&collection(Role::Members), b"anna");
            assert_eq!(member, "the member \"anna\" of the sorted set \"ward 3\"");
            let order = of(&collection(Role::Order), &order_member(2.5, b"anna"));
            assert_eq!(order, "the place of \"anna\" of the sorted set \"ward 3\"");
            assert_eq!(of(&shared(Role::Deadlines), b"x"), "when \"x\" expires");
        }
        assert_eq!(told(&generation_key()), "the number of the last FLUSHDB");
        for group in [&b"patient"[..], b"", b"r", b"r\x01", b"r\x09S", b"r\x02"] {
            let said = told(&Key::new(group, b"17"));
            assert!(said.starts_with("the record \"17\" of the group"), "{said}");
        }
    }
}
