//! Variables of the environment that begin as ours do and are none: a setting that was meant to be
//! made and would not be. All programs refuse them alike: who has more than one of these on a
//! machine sets the variables of all.

const PREFIX: &str = "FOGBANK_";
/// What variables name settings, of whichever program, without the beginning.
pub const SETTINGS: [&str; 35] = [
    "BATCH",
    "BUCKET_DUMMIES",
    "BUCKET_REALS",
    "CACHE",
    "CAPACITY",
    "CLOUD_CREDENTIALS",
    "CONFIG",
    "DASHBOARD",
    "DATA",
    "EVICT_EVERY",
    "HISTORY",
    "INTERVAL_MS",
    "IN_FLIGHT",
    "LEAF_LEVEL",
    "LINGER_S",
    "LISTEN",
    "MAX_CONNECTIONS",
    "METRICS",
    "PASSWORD_FILE",
    "PRESET",
    "READ_BATCHES",
    "RECORD",
    "REGISTERS",
    "REST_AFTER",
    "SCHEDULE",
    "SECOND_STORE",
    "SECRET_METRICS_ADDRESS",
    "STORE",
    "TIME_ZONE",
    "TLS_CERT",
    "TLS_KEY",
    "VALUE_SIZE",
    "WINDOWS",
    "WRITE_BATCH",
    "XOR",
];
/// What beginnings the project's own tests and scripts use.
const OF_TESTS: [&str; 9] = [
    "FOGBANK_TEST_",
    "FOGBANK_SIM_",
    "FOGBANK_KILL",
    "FOGBANK_PLUGS",
    "FOGBANK_FUZZ_",
    "FOGBANK_DIFF_",
    "FOGBANK_RESP_",
    "FOGBANK_CLAIMS",
    "FOGBANK_BENCH_",
];

/// Why the environment is refused, if it is: names in it that are no setting's.
pub(crate) fn refusal(names: impl Iterator<Item = String>) -> Option<String> {
    let is_strange = |name: &String| {
        let of_tests = OF_TESTS.iter().any(|beginning| name.starts_with(beginning));
        let rest = name.strip_prefix(PREFIX).filter(|_| !of_tests);
        rest.is_some_and(|rest| !SETTINGS.contains(&rest))
    };
    let name = names.filter(is_strange).min()?;
    let instead = match near(&name[PREFIX.len()..]) {
        Some(near) => format!("; did you mean {PREFIX}{near}?"),
        None => ".".into(),
    };
    Some(format!(
        "the environment sets {name}, which is no setting{instead} Unset it: what it was meant for \
         would not be done"
    ))
}

/// The setting that was meant, if one is as near as a slip of the finger, or two in a long name.
fn near(name: &str) -> Option<&'static str> {
    let most = (name.len() / 4).clamp(1, 2);
    let far = |setting: &str| distance(setting, name);
    SETTINGS.into_iter().filter(|setting| far(setting) <= most).min_by_key(|setting| far(setting))
}

/// How many letters have to be changed, put in, left out, or to change places with the next.
fn distance(a: &str, b: &str) -> usize {
    let [a, b]: [Vec<char>; 2] = [a, b].map(|word| word.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let (Some(before), Some(left)) = (i.checked_sub(1), j.checked_sub(1)) else {
                rows[i][j] = i + j;
                continue;
            };
            let changed = rows[before][left] + usize::from(a[before] != b[left]);
            rows[i][j] = changed.min(rows[before][j] + 1).min(rows[i][left] + 1);
            let swapped = i > 1 && j > 1 && a[before] == b[left - 1] && a[before - 1] == b[left];
            if swapped {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(names: &[&str]) -> Option<String> {
        refusal(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn what_is_no_setting_is_told_with_what_was_meant() {
        let known = ["PATH", "FOGBANK_CAPACITY", "FOGBANK_STORE", "FOGBANK_CLOUD_CREDENTIALS"];
        assert_eq!(refused(&known), None);
        assert_eq!(refused(&["FOGBANK_SIM_SCALE", "FOGBANK_KILLS", "NOFOGBANK_X"]), None);
        for (typed, meant) in [
            ("CAPACTIY", "CAPACITY"),
            ("STROE", "STORE"),
            ("CONFG", "CONFIG"),
            ("REGISTER", "REGISTERS"),
            ("WRITEBATCH", "WRITE_BATCH"),
            ("XORR", "XOR"),
        ] {
            let told = refused(&[&format!("{PREFIX}{typed}")]).unwrap();
            assert!(told.contains(&format!("did you mean {PREFIX}{meant}?")), "{told}");
        }
    }

    /// Of three letters two were another setting's.
    #[test]
    fn what_is_near_to_nothing_is_told_without_a_guess() {
        for typed in ["FOO", "BAR", "X", "", "SOMETHING_ELSE", "MAX_MEMORY", "BITES", "PORT"] {
            let told = refused(&[&format!("{PREFIX}{typed}"), "FOGBANK_DATA"]).unwrap();
            let is_named = told.contains(&format!("{PREFIX}{typed}, which is no setting"));
            assert!(is_named && !told.contains("did you mean"), "{told}");
        }
    }

    #[test]
    fn letters_are_counted() {
        for (a, b, letters) in [
            ("", "", 0),
            ("abc", "abd", 1),
            ("abc", "ac", 1),
            ("", "ab", 2),
            ("abcd", "acbd", 1),
            ("ab", "ba", 1),
        ] {
            assert_eq!(distance(a, b), letters, "{a} {b}");
            assert_eq!(distance(b, a), letters, "{b} {a}");
        }
    }
}
