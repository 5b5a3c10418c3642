use std::collections::HashSet;

use super::values::Kind;
use super::*;

/// Of version 9, with the checksum that belongs to it.
fn dump(body: &[u8]) -> Vec<u8> {
    let mut dump = [b"REDIS0009", body, b"\xff"].concat();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, &dump);
    dump.extend(sum.to_le_bytes());
    dump
}

/// What is taken from a file, or why it is refused.
fn taken(file: &[u8], skip_unsupported: bool) -> Result<(Vec<Record>, LeftOut)> {
    let mut records = Vec::new();
    let refused = |why: &str| Error::Usage(why.into());
    let left_out = each(file, skip_unsupported, refused, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok((records, left_out))
}

fn refused(file: &[u8]) -> String {
    taken(file, true).expect_err("it is refused").to_string()
}

const ONE: &[u8] = b"\xfe\x00\x00\x01a\x011";

#[test]
fn the_end_of_a_dump_is_looked_at() {
    let whole = dump(ONE);
    assert_eq!(taken(&whole, false).unwrap().0.len(), 1);
    // Redis reckons no checksum if it is told so, and had none before version 5.
    let unsummed = [b"REDIS0009", ONE, b"\xff\0\0\0\0\0\0\0\0"].concat();
    let old = [b"REDIS0003", ONE, b"\xff"].concat();
    for file in [&unsummed, &old] {
        assert_eq!(taken(file, false).unwrap().0.len(), 1);
    }
    for at in 0..whole.len() {
        let said = refused(&whole[..at]);
        // Before its first key it may be anything.
        assert!(at < 9 || said.contains("cut off"), "{at}: {said}");
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        refused(&damaged);
    }
    let said = refused(b"REDIS0009\xfe\x00\x00\x01a\x011\xff12345678");
    assert!(said.contains("checksum"), "{said}");
    for file in [&whole, &unsummed, &old] {
        let commands = [&file[..], b"*1\r\n$4\r\nPING\r\n"].concat();
        let (said, at) = (refused(&commands), file.len());
        let remedy = [format!("head -c {at})"), format!("tail -c +{},", at + 1)];
        assert!(remedy.iter().all(|part| said.contains(part)), "{said}");
        let more = [&file[..], b"\n"].concat();
        assert!(refused(&more).contains("something follows"), "{}", refused(&more));
    }
    assert!(refused(b"*1\r\n$4\r\nPING\r\n").contains("--pipe"));
    for none in [&b"key,value\n"[..], b"REDIS0014\xff", b"REDIS+009\xff", b"REDIS0000\xff"] {
        assert!(refused(none).contains("no dump"));
    }
}

/// A buffer's worth and more, so that sums and ends span several.
#[test]
fn a_long_dump_is_summed_whole() {
    let value = |n: u32| [&[0x80][..], &100_000_u32.to_be_bytes(), &[n as u8; 100_000]].concat();
    let keys = (0..7).flat_map(|n| [&[0, 1, b'a' + n as u8][..], &value(n)].concat());
    let mut whole = dump(&[&[0xfe, 0][..], &keys.collect::<Vec<_>>()].concat());
    assert_eq!(taken(&whole, false).unwrap().0.len(), 7);
    whole[350_000] ^= 4;
    assert!(refused(&whole).contains("checksum"));
}

#[test]
fn what_is_no_key_is_told_too() {
    let function = b"\xf5\x04code";
    let auxiliary = b"\xf7\x01\x02\x02\x00"; // module 1, when: 2 (0), end
    for (body, what) in [
        ([&function[..], function, ONE].concat(), "functions"),
        ([&auxiliary[..], ONE].concat(), "modules"),
        ([ONE, &auxiliary[..]].concat(), "modules"),
    ] {
        let file = dump(&body);
        let said = taken(&file, false).unwrap_err().to_string();
        assert!(said.contains(what) && said.contains("--skip-unsupported"), "{said}");
        let (records, left_out) = taken(&file, true).unwrap();
        assert_eq!((records.len(), left_out.others.len()), (1, 1));
    }
    // Of a key of its own, with its deadline before it.
    let kept = b"\xfe\x00\xfc\x10\0\0\0\0\0\0\0\xf3\x01name\x00\x00\x01a\x011";
    assert!(taken(&dump(kept), false).unwrap_err().to_string().contains("about keys"));
    let used = b"\xfe\x00\xfc\x10\0\0\0\0\0\0\0\xf9\x07\x00\x01a\x011";
    let (records, left_out) = taken(&dump(used), false).unwrap();
    assert_eq!((records[0].deadline_ms, left_out), (Some(16), LeftOut::default()));
}

#[test]
fn what_no_key_can_be_is_not_taken() {
    let set = |score: f64| [b"\xfe\x00\x05\x01z\x01\x01m", &score.to_le_bytes()[..]].concat();
    assert!(taken(&dump(&set(1.5)), false).is_ok());
    for nan in [f64::NAN, -f64::NAN] {
        let said = refused(&dump(&set(nan)));
        assert!(said.contains("\"m\"") && said.contains("no number"), "{said}");
    }
    let old = dump(b"\xfe\x00\x03\x01z\x01\x01m\xfd"); // as it was written before Redis 4
    assert!(refused(&old).contains("no number"));
    // As the text of a score, too.
    let packed = b"\x12\0\0\0\x02\0\x81m\x02\x83nan\x04\xff";
    let packed = [b"\xfe\x00\x11\x01z", &[packed.len() as u8][..], packed].concat();
    assert!(taken(&dump(&packed), true).is_err());
    for empty in [&b"\xfe\x00\x05\x01z\x00"[..], b"\xfe\x00\x04\x01h\x00"] {
        let file = dump(empty);
        assert!(taken(&file, false).unwrap_err().to_string().contains("of nothing"));
        assert_eq!(taken(&file, true).unwrap().1.keys, 1);
    }
    let past = b"\xfe\x00\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01a\x011";
    assert_eq!(taken(&dump(past), false).unwrap().0[0].deadline_ms, Some(0));
}

/// A string, its length before it.
fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    match length {
        0..64 => [&[length as u8], bytes].concat(),
        _ => [&[0x80][..], &length.to_be_bytes(), bytes].concat(),
    }
}

fn key(code: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[code][..], &text(name.as_bytes()), value].concat()
}

/// Short strings, packed as Redis 7 does it.
fn list_pack(strings: &[&str]) -> Vec<u8> {
    let each = strings.iter().map(|one| {
        let length = one.len() as u8;
        [&[0x80 | length], one.as_bytes(), &[length + 1]].concat()
    });
    let all = each.collect::<Vec<_>>().concat();
    let bytes = (4 + 2 + all.len() + 1) as u32;
    [&bytes.to_le_bytes()[..], &(strings.len() as u16).to_le_bytes(), &all, b"\xff"].concat()
}

/// As earlier ones did it.
fn zip_list(strings: &[&str]) -> Vec<u8> {
    let (mut all, mut last) = (Vec::new(), 0);
    for one in strings {
        all.extend([&[last as u8, one.len() as u8], one.as_bytes()].concat());
        last = 2 + one.len();
    }
    let bytes = 4 + 4 + 2 + all.len() + 1;
    let head = [bytes, bytes - 1 - last].map(|at| (at as u32).to_le_bytes()).concat();
    [&head[..], &(strings.len() as u16).to_le_bytes(), &all, b"\xff"].concat()
}

/// As the first ones did it, with two bytes free behind each value.
fn zip_map(strings: &[&str]) -> Vec<u8> {
    let each = strings.chunks(2).map(|pair| {
        let [field, value] = pair else { panic!("a pair") };
        let (long, short) = (field.len() as u8, value.len() as u8);
        [&[long], field.as_bytes(), &[short, 2], value.as_bytes(), b"??"].concat()
    });
    let all = each.collect::<Vec<_>>().concat();
    [&[strings.len() as u8 / 2][..], &all, b"\xff"].concat()
}

/// A stream with an entry, a group, a consumer and what he has not acknowledged, as `version` is.
fn stream(version: u8) -> Vec<u8> {
    let since = |first: u8, bytes: &[u8]| if version < first { Vec::new() } else { bytes.to_vec() };
    [
        [&[1][..], &text(&[0; 16]), &text(&list_pack(&["f", "v"])), &[1, 5, 0]].concat(),
        since(2, &[5, 0, 0, 0, 1]),
        [&[1][..], &text(b"group"), &[5, 0]].concat(),
        since(2, &[1]),
        [&[1][..], &[7; 16 + 8], &[1], &[1], &text(b"consumer"), &[8; 8]].concat(),
        since(3, &[9; 8]),
        [&[1][..], &[7; 16]].concat(),
        since(4, &[&[9, 9, 1][..], &text(b"who"), &[1], &text(b"which"), &[5, 0, 1, 0]].concat()),
    ]
    .concat()
}

/// What a module wrote: each of the kinds of things.
fn of_module() -> Vec<u8> {
    [b"\x01\x05\x02\x40\x50\x03fourfour"[..10].to_vec(), b"\x04eight...\x05".to_vec(), text(b"s")]
        .concat()
        .into_iter()
        .chain([0])
        .collect()
}

/// A value of every kind that is known.
fn values() -> Vec<(u8, Vec<u8>)> {
    let (one, two) = (1.0_f64.to_le_bytes(), (-2.5_f64).to_le_bytes());
    let long = "a".repeat(100);
    let module = [&b"\x81\x12\x34\x56\x78\x9a\xbc\xde\x01"[..], &of_module()].concat();
    let each = [
        (0, b"\xc3\x05\x40\x64\0a\xe0\x5a\0"[..].to_vec()),
        (1, b"\x02\x01a\xc0\x07".to_vec()),
        (2, b"\x02\x01a\x01b".to_vec()),
        (3, b"\x04\x01a\x031.5\x01b\xfe\x01c\xff\x01d\x02-7".to_vec()),
        (4, [b"\x02\x01a", &text(long.as_bytes())[..], b"\xc0\x07\0"].concat()),
        (5, [b"\x02\x01a", &one[..], b"\x01b", &two].concat()),
        (7, module),
        (9, text(&zip_map(&["a", "1", "b", "two"]))),
        (10, text(&zip_list(&["a", "b"]))),
        (11, text(b"\x02\0\0\0\x01\0\0\0\x07\0")),
        (12, text(&zip_list(&["a", "1.5", "b", "-inf"]))),
        (13, text(&zip_list(&["a", "1", "b", "two"]))),
        (14, [&[2][..], &text(&zip_list(&["a"])), &text(&zip_list(&["b"]))].concat()),
        (15, stream(1)),
        (16, text(&list_pack(&["a", "1", "b", "two"]))),
        (17, text(&list_pack(&["a", "1.5", "b", "-inf"]))),
        (18, [&[2, 1][..], &text(b"plain"), &[2], &text(&list_pack(&["b"]))].concat()),
        (19, stream(2)),
        (20, text(&list_pack(&["a", "b"]))),
        (21, stream(3)),
        (22, b"\x02\x00\x01a\x011\x40\x50\x01b\x012".to_vec()),
        (23, text(&list_pack(&["a", "1", "0"]))),
        (24, b"eight...\x02\x00\x01a\x011\x40\x50\x01b\x012".to_vec()),
        (25, [&b"eight..."[..], &text(&list_pack(&["a", "1", "0"]))].concat()),
        (26, stream(4)),
    ];
    each.to_vec()
}

#[test]
fn a_value_of_every_kind_is_read_or_passed_over() {
    let values = values();
    let known = (0..=u8::MAX).filter(|code| Kind::of(*code).is_some());
    assert_eq!(known.collect::<Vec<_>>(), values.iter().map(|(code, _)| *code).collect::<Vec<_>>());
    for (code, value) in values {
        let (kind, key) = (Kind::of(code).unwrap(), key(code, "k", &value));
        let file = dump(&[&key[..], ONE].concat());
        let found = taken(&file, false);
        if kind.stored.is_some() {
            let records = found.unwrap().0;
            assert_eq!(records.len(), 2, "{code}");
            assert_eq!(records[1].name, b"a", "{code}");
            assert_eq!(taken(&file, true).unwrap(), (records, LeftOut::default()));
        } else {
            let said = found.unwrap_err().to_string();
            assert!(said.contains(kind.is) && said.contains("key number 1, \"k\""), "{said}");
        }
        // Passed over, from another database.
        let elsewhere = dump(&[b"\xfe\x01", &key[..], ONE].concat());
        let (records, left_out) = taken(&elsewhere, true).unwrap();
        assert_eq!((records.len(), left_out.keys), (1, 1), "{code}");
        for at in 9..9 + key.len() {
            assert!(refused(&file[..at]).contains("cut off"), "{code}, {at}");
            assert!(refused(&elsewhere[..at + 2]).contains("cut off"), "{code}, {at}");
        }
    }
    assert!(refused(&dump(&key(6, "k", b"\x01"))).contains("unknown kind (6)"));
}

#[test]
fn what_is_stored_is_what_redis_means() {
    let pairs = |pairs: &[(&str, &str)]| {
        let each = pairs.iter().map(|(a, b)| (a.as_bytes().to_vec(), b.as_bytes().to_vec()));
        Content::Hash(each.collect())
    };
    let scored = |members: &[(&str, f64)]| {
        let each = members.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score));
        Content::SortedSet(each.collect())
    };
    let long = "a".repeat(100);
    let (up, down) = (f64::INFINITY, f64::NEG_INFINITY);
    for (code, value) in values() {
        let meant = match code {
            0 => Content::String(long.clone().into()),
            3 => scored(&[("a", 1.5), ("b", up), ("c", down), ("d", -7.0)]),
            4 => pairs(&[("a", &long), ("7", "")]),
            5 => scored(&[("a", 1.0), ("b", -2.5)]),
            9 | 13 | 16 => pairs(&[("a", "1"), ("b", "two")]),
            12 | 17 => scored(&[("a", 1.5), ("b", down)]),
            _ => continue,
        };
        let records = taken(&dump(&key(code, "k", &value)), false).unwrap().0;
        assert_eq!(records[0].content, meant, "{code}");
    }
}

#[test]
fn nothing_between_keys_is_passed_over_unseen() {
    let module = values().into_iter().find(|(code, _)| *code == 7).unwrap().1;
    let stream = key(19, "k", &stream(2));
    let module = key(7, "k", &module);
    let slots = b"\xf4\x01\x01\x00".to_vec();
    for (beside, what) in [
        (&b"\xf5\x04code"[..], "functions"),
        (b"\xf7\x01\x02\x02\x02\x05\x00", "modules"),
        (b"\xf3\x01name\x00", "about keys"),
    ] {
        for before in [&module, &stream, &slots, &key(1, "k", b"\x01\x01a")] {
            let file = dump(&[before, beside, ONE].concat());
            let (records, left_out) = taken(&file, true).unwrap();
            assert_eq!((records.len(), left_out.others.len()), (1, 1), "{what}");
            assert_eq!(left_out.keys, u64::from(*before != slots));
        }
        let said = taken(&dump(&[&slots, beside, ONE].concat()), false).unwrap_err().to_string();
        assert!(said.contains(what) && said.contains("--skip-unsupported"), "{said}");
    }
    // Nor what belongs to the next key where there is none.
    assert!(refused(&dump(b"\xfc\x10\0\0\0\0\0\0\0")).contains("that of no key"));
}

#[test]
fn what_comes_twice_in_a_key_is_refused() {
    let fields = &["a", "1", "b", "2", "a", "3"];
    for (code, value) in [
        (4, b"\x03\x01a\x011\x01b\x012\x01a\x013".to_vec()),
        (4, b"\x02\xc0\x07\x011\x017\x012".to_vec()), // as a number, and as text
        (9, text(&zip_map(fields))),
        (13, text(&zip_list(fields))),
        (16, text(&list_pack(fields))),
        (3, b"\x03\x01a\x011\x01b\x012\x01a\x013".to_vec()),
        (5, b"\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\x40".to_vec()),
        (12, text(&zip_list(fields))),
        (17, text(&list_pack(fields))),
    ] {
        let said = refused(&dump(&[ONE, &key(code, "twice", &value)].concat()));
        let parts = ["key number 2", "\"twice\"", "comes twice"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn packed_values_that_do_not_add_up_are_refused() {
    let (list, zip, map) = (list_pack(&["a", "1"]), zip_list(&["a", "1"]), zip_map(&["a", "1"]));
    for (code, value) in [(16, list), (13, zip), (9, map)] {
        assert!(taken(&dump(&key(code, "k", &text(&value))), false).is_ok());
        let more = [&value[..], b"\xff"].concat();
        assert!(refused(&dump(&key(code, "k", &text(&more)))).contains("\"k\""));
        for at in 0..value.len() {
            let said = refused(&dump(&key(code, "k", &text(&value[..at]))));
            assert!(said.contains("key number 1, \"k\"") && said.contains("damaged"), "{said}");
        }
    }
    // What they say for who reads backwards, too.
    let long = "a".repeat(200);
    let longer = [&[0xe0, 200][..], long.as_bytes(), &[202 >> 7, 202 & 0x7f | 0x80]].concat();
    let list = [&b"\xd6\0\0\0\x02\0"[..], &longer, b"\x81b\x02\xff"].concat();
    for (code, value) in [(16, list), (13, zip_list(&["a", "1", "bc", "2"]))] {
        let whole = taken(&dump(&key(code, "k", &text(&value))), false).unwrap();
        for bit in 0..8 * value.len() {
            let mut other = value.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let other = taken(&dump(&key(code, "k", &text(&other))), false);
            assert!(other.is_err() || other.unwrap() != whole, "{code}: bit {bit} says nothing");
        }
    }
    for half in [(16, list_pack(&["a"])), (13, zip_list(&["a"]))] {
        assert!(refused(&dump(&key(half.0, "k", &text(&half.1)))).contains("other half"));
    }
}

/// Damaged dumps without a checksum are refused, or read: then all that they hold is there, once,
/// and no longer than the file can say.
#[test]
fn no_damage_is_too_much() {
    let beside =
        b"\xfa\x03ver\x017\xfe\0\xfb\x05\x01\xf4\x01\x02\x03\xf5\x04code\xf7\x01\x02\x02\x00";
    let about = b"\xfc\x10\0\0\0\0\0\0\0\xf8\x05\xf9\x07\xf3\x01name\x00";
    let keys = values().into_iter().map(|(code, value)| key(code, &format!("k{code}"), &value));
    let keys = keys.collect::<Vec<_>>().concat();
    let whole = [b"REDIS0013", &beside[..], about, &keys, b"\xff", &[0; 8]].concat();
    assert_eq!(taken(&whole, true).unwrap().0.len(), 9);
    let pieces: &[&[u8]] = &[
        b"\x81\x40\0\0\0\0\0\0\0",
        b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\xff\xff\xff\xff",
        b"\x80\x1f\xff\xff\xff",
        b"\xc3\x05\x81\x40\0\0\0\0\0\0\0\0a\xe0\x5a\0",
        b"\xff\xff\xff\xff",
        b"\x80",
        b"\xf0",
        b"\xfe\x01",
    ];
    // Marsaglia's xorshift.
    let mut state = 88_172_645_463_325_252_u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let (mut read, mut left) = (0, 0);
    for _ in 0..FUZZED {
        let mut file = whole.clone();
        for _ in 0..1 + below(3) {
            let at = 9 + below(file.len() - 9);
            let end = file.len().min(at + 1 + below(8));
            match below(6) {
                0 | 1 => file[at] ^= 1 << below(8),
                2 => file[at] = below(256) as u8,
                3 => drop(file.drain(at..end)),
                4 => drop(file.splice(at..end, pieces[below(pieces.len())].iter().copied())),
                _ => {
                    let again = file[at..end].to_vec();
                    file.splice(at..at, again);
                }
            }
            if file.len() < 20 {
                break;
            }
        }
        let strict = taken(&file, false);
        let Ok((records, left_out)) = taken(&file, true) else {
            assert!(strict.is_err());
            continue;
        };
        read += 1;
        left += u32::from(left_out != LeftOut::default());
        assert_eq!(strict.is_err(), left_out != LeftOut::default());
        let mut bytes = 0;
        for record in &records {
            let names: Vec<&Vec<u8>> = match &record.content {
                Content::String(value) => {
                    bytes += value.len();
                    continue;
                }
                Content::Hash(fields) => {
                    bytes += fields.iter().map(|(_, value)| value.len()).sum::<usize>();
                    fields.iter().map(|(field, _)| field).collect()
                }
                Content::SortedSet(members) => members.iter().map(|(member, _)| member).collect(),
            };
            bytes += names.iter().map(|name| name.len()).sum::<usize>();
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        }
        assert!(bytes < 100 * file.len(), "{bytes} bytes of {}", file.len());
    }
    assert!(read > FUZZED / 20 && left > 0, "{read} of {FUZZED} were read, {left} not whole");
}

const FUZZED: u32 = 20_000;
