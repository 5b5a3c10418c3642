//! How far a long command is.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal, and nothing elsewhere.
pub fn bar(what: impl Into<Cow<'static, str>>) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}");
    let bar = ProgressBar::new(0).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Shows how far it is.
pub fn show(bar: &ProgressBar, done: u32, of: u32) {
    bar.set_length(of.into());
    bar.set_position(done.into());
}
