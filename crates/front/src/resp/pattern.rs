//! Patterns of `KEYS` and `MATCH`: `*`, `?`, `[a-z]`, `[^a]`, `\x`, in time linear in the text for
//! each star.

/// Whether the whole of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one byte later in the text.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        match one(&pattern[p..], text[t]) {
            Some(len) => {
                p += len;
                t += 1;
            }
            None => match retry {
                Some((star, from)) => {
                    p = star;
                    t = from + 1;
                    retry = Some((star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// What it costs to hold names of these lengths against `pattern`, in steps of a program: next to
/// nothing for what people write, and as much as there is to do for what is made to be slow.
pub fn steps(pattern: &[u8], names: impl Iterator<Item = usize>) -> usize {
    const COMPARED_A_STEP: usize = 256;
    names
        .map(|len| pattern.len().saturating_mul(len) / COMPARED_A_STEP)
        .fold(0, usize::saturating_add)
}

/// The length of the pattern's first item if it matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, byte),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at.min(pattern.len())..] {
            [] => break, // a class that does not end: as if it ended here
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                // Redis compares signed characters.
                let (from, to, byte) = (*from as i8, *to as i8, byte as i8);
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("*b*", "abc", true),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[^a]x", "bx", true),
            ("[^a]x", "ax", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[ab", "a", true),
            ("", "", true),
            ("*", "", false),
            ("a**", "a", true),
            ("h[ae]llo*", "hello world", true),
            ("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_people_write_costs_nothing_and_what_is_slow_much() {
        let names = || std::iter::repeat_n(20, 50_000);
        assert_eq!(steps(b"user:*", names()), 0);
        assert!(steps(&[b'['; 65_536], names()) > 1 << 27);
        assert_eq!(steps(&[b'*'; 4_096], std::iter::repeat_n(usize::MAX, 300)), usize::MAX);
    }
}
