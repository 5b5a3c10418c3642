//! Words of a command line that is printed to be typed.

use std::ffi::OsStr;

/// As a shell takes it for one word, whatever is in it: a path, a URL with its options.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-,@%+:".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_takes_any_word_for_itself() {
        for word in [
            "plain/path-1.0",
            "grpc://127.0.0.1:7455/office?credentials=my file&x=$HOME",
            "it's \"one\" of `these`",
            "",
            "~",
            "#x",
            "a=b",
            "two\nlines",
            "-n",
            "*",
            "!!",
        ] {
            let line = format!("printf '[%s]' {}", quoted(word));
            let said = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("[{word}]"), "{line}");
        }
        assert_eq!(quoted("/srv/data"), "/srv/data");
    }
}
