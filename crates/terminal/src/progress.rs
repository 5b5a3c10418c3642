//! How far a long command is: a bar on a terminal; elsewhere, such as in a service's log, a line
//! from time to time.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fogbank_env::{Clock, Mutex, Nanos, SystemClock};
use fogbank_process::say_error;
use indicatif::style::ProgressTracker;
use indicatif::{
    HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike,
};

/// Between two lines, and before the first.
const QUIET_NANOS: Nanos = 10_000_000_000;

/// A bar on a terminal, lines elsewhere; with the time that is left.
pub fn bar(what: impl Into<Cow<'static, str>>) -> ProgressBar {
    if io::stderr().is_terminal() {
        return styled(ProgressBar::new(0), "{msg} {wide_bar} {percent} % {left}")
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
    styled(bar, "{msg}: {percent} % ({pos} of {len}), {left} left")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("left", Left::default())),
        Err(_) => bar,
    }
}

/// The time that is left, by what was done since the first that was seen of it: what comes in
/// bursts, and what a load that goes on finds done, do not move it.
#[derive(Debug, Clone, Default)]
struct Left {
    /// How much was done then, and when.
    first: Option<(u64, Duration)>,
}

impl ProgressTracker for Left {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, state: &ProgressState, _: Instant) {
        if state.len().is_some_and(|of| of > 0) {
            self.first.get_or_insert((state.pos(), state.elapsed()));
        }
    }

    fn reset(&mut self, _: &ProgressState, _: Instant) {
        self.first = None;
    }

    fn write(&self, state: &ProgressState, into: &mut dyn fmt::Write) {
        let now = (state.pos(), state.elapsed());
        let left = self.first.and_then(|first| left(first, now, state.len()?));
        let _nowhere = match left {
            Some(left) => write!(into, "{:#}", HumanDuration(left)),
            None => write!(into, "?"),
        };
    }
}

/// How long it takes from `now` on to come to `of`, at the pace since `first`; nothing if nothing
/// was done since. Each is how much was done and when.
fn left(first: (u64, Duration), now: (u64, Duration), of: u64) -> Option<Duration> {
    let done = now.0.checked_sub(first.0).filter(|done| *done > 0)?;
    let pace = now.1.saturating_sub(first.1).as_secs_f64() / done as f64;
    Duration::try_from_secs_f64(pace * of.saturating_sub(now.0) as f64).ok()
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

    /// What is done comes in bursts, with long pauses between: a figure that follows the last of it
    /// says a second now and an hour then.
    #[test]
    fn what_comes_in_bursts_does_not_move_the_time_that_is_left() {
        let second = Duration::from_secs(1);
        let first = (400, 30 * second); // a load that goes on finds so much done
        assert_eq!(left(first, first, 1000), None);
        let mut said = Vec::new();
        for burst in 1..=20 {
            for one in 0..10 {
                let done = (400 + 10 * (burst - 1) + one + 1, (30 + 20 * burst as u32) * second);
                said.extend(left(first, done, 1000).map(|left| (left + done.1).as_secs_f64()));
            }
        }
        // After the first bursts every figure means about the same end: 30 s + 600 * 2 s.
        assert!(said[50..].iter().all(|end| (1200.0..1500.0).contains(end)), "{said:?}");
        assert_eq!(left(first, (1000, 90 * second), 1000), Some(Duration::ZERO));
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
