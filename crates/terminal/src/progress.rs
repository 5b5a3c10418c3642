//! How far a long command is: a bar on a terminal; elsewhere, such as in a service's log, a line
//! from time to time.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use fogbank_env::{Clock, Mutex, Nanos, SystemClock};
use fogbank_process::say_error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// Between two lines, and before the first.
const QUIET_NANOS: Nanos = 10_000_000_000;

/// A bar on a terminal, lines elsewhere; with the time that is left.
pub fn bar(what: impl Into<Cow<'static, str>>) -> ProgressBar {
    if io::stderr().is_terminal() {
        return styled(ProgressBar::new(0), "{msg} {wide_bar} {percent} % {eta}")
            .with_message(what);
    }
    let say = |line: &str| say_error!("{line}");
    lines(Arc::new(SystemClock::new()), Box::new(say)).with_message(what)
}

/// Shows how far it is.
pub fn show(bar: &ProgressBar, done: u32, of: u32) {
    bar.set_length(of.into());
    bar.set_position(done.into());
}

fn lines(clock: Arc<dyn Clock>, say: Say) -> ProgressBar {
    let told = Mutex::new(Told { at: clock.now(), line: String::new() });
    let lines = Lines { clock, say, told };
    let target = ProgressDrawTarget::term_like_with_hz(Box::new(lines), 1);
    let bar = ProgressBar::with_draw_target(Some(0), target);
    styled(bar, "{msg}: {percent} % ({pos} of {len}), {eta} left")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

type Say = Box<dyn Fn(&str) + Send + Sync>;

/// What is drawn on as if it were a terminal: of what comes there the last is told, seldom.
struct Lines {
    clock: Arc<dyn Clock>,
    say: Say,
    told: Mutex<Told>,
}

struct Told {
    at: Nanos,
    /// What has been written since.
    line: String,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        u16::MAX
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.told.lock().line.push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.told.lock().line.clear();
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut told = self.told.lock();
        let line = std::mem::take(&mut told.line);
        let now = self.clock.now();
        if !line.trim().is_empty() && now.saturating_sub(told.at) >= QUIET_NANOS {
            told.at = now;
            (self.say)(line.trim());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    /// Time that goes on by itself.
    struct Ticking(Mutex<Nanos>);

    impl Ticking {
        fn pass(&self, nanos: Nanos) {
            *self.0.lock() += nanos;
        }
    }

    impl Clock for Ticking {
        fn now(&self) -> Nanos {
            *self.0.lock()
        }

        fn wall_ms(&self) -> u64 {
            0
        }

        fn sleep_until(&self, _: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
    }

    #[test]
    fn where_there_is_no_terminal_a_line_comes_every_ten_seconds() {
        let clock = Arc::new(Ticking(Mutex::new(5)));
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let say = move |line: &str| heard.lock().push(line.to_owned());
        let bar = lines(clock.clone(), Box::new(say)).with_message("loading");
        bar.set_length(40);
        for done in 1..=40 {
            clock.pass(1_000_000_000);
            bar.set_position(done);
            bar.force_draw(); // as often as it likes
        }
        bar.finish_and_clear();
        let said = said.lock();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[0].starts_with("loading: 25 % (10 of 40), "), "{}", said[0]);
        assert!(said[3].starts_with("loading: 100 %") && said[3].ends_with("left"), "{}", said[3]);
    }
}
