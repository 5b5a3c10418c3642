//! Whether a trace is there to its end: what is missing was not audited, and may be the leak.

use fogbank_store::trace::Truncation;

use crate::{Finding, Verdict};

/// That a trace of `subject` was cut short: too little data, whatever the rest shows.
pub(crate) fn cut_short(cut: &Truncation, subject: &str) -> Finding {
    let (path, offset) = (cut.path.display(), cut.offset);
    let how = match cut.bytes {
        0 => format!(
            "{path} has no end: {offset} bytes of it are whole, and nothing says that no more were \
             written"
        ),
        bytes => format!(
            "{path} is cut short: after {offset} bytes it ends within a block, of which {bytes} \
             bytes are left"
        ),
    };
    Finding {
        check: "trace-whole".into(),
        subject: subject.into(),
        verdict: Verdict::TooFew,
        figure: cut.bytes as f64,
        threshold: 0.0,
        samples: 1,
        smallest_leak: None,
        words: format!(
            "{how}. What came after was not audited. A crash of the recorder does that, and so \
             does a copy that was not finished."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_file_and_leaves_the_verdict_open() {
        let cut = Truncation { path: "busy.trace".into(), offset: 4711, bytes: 17 };
        let finding = cut_short(&cut, "busy");
        assert_eq!((finding.check.as_str(), finding.verdict), ("trace-whole", Verdict::TooFew));
        assert!(finding.words.contains("busy.trace") && finding.words.contains("4711 bytes"));
        let unended = cut_short(&Truncation { bytes: 0, ..cut }, "busy");
        assert_eq!(unended.verdict, Verdict::TooFew);
        assert!(unended.words.contains("busy.trace has no end: 4711 bytes"), "{}", unended.words);
    }
}
