//! When epochs run, from words to what the transaction layer keeps to.
//!
//! `--schedule`: `always`, or hours such as `mon-fri 08:00-18:00`, `sat,sun 22:00-06:00` (which end
//! on the day after) or `07:30-19:00`, by the clock of a time zone. `--rest-after`: not while no
//! client has been here for so long.

use std::sync::Arc;
use std::time::Duration;

use fogbank_txn::{Hours, Uptime};
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::args::ScheduleArgs;
use crate::error::{Error, Result};

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// The shortest time after which a store rests. Below it every client of a moment would show.
const REST_AFTER_MIN: Duration = Duration::from_secs(1);

/// Hours of some days of the week.
#[derive(Debug, Clone)]
struct Office {
    words: String,
    /// From Monday.
    days: [bool; 7],
    from: Time,
    to: Time,
    zone: TimeZone,
}

impl ScheduleArgs {
    /// When epochs run.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what cannot be read.
    pub fn uptime(&self) -> Result<Uptime> {
        let schedule = self.schedule.trim();
        self.check_flags(schedule)?;
        match (schedule, self.rest_after) {
            ("always", None) => Ok(Uptime::Always),
            ("always", Some(linger)) => Ok(Uptime::WhilePresent { linger }),
            (hours, _) => Ok(Uptime::Hours(Arc::new(Office::parse(hours, self.zone()?)?))),
        }
    }

    /// What would be ignored was meant to do something.
    fn check_flags(&self, schedule: &str) -> Result<()> {
        if schedule == "connected" || self.linger_s.is_some() {
            return Err(Error::Usage(
                "--schedule connected and --linger-s are --rest-after now: say --rest-after 1m in \
                 place of --schedule connected --linger-s 60"
                    .into(),
            ));
        }
        if schedule != "always" && self.rest_after.is_some() {
            return Err(Error::Usage(format!(
                "--rest-after goes with --schedule always, not with {schedule:?}; leave one of the \
                 two out"
            )));
        }
        if schedule == "always" && self.time_zone.is_some() {
            return Err(Error::Usage(
                "--time-zone matters to --schedule \"mon-fri 08:00-18:00\" or the like only; say that, or \
                 leave --time-zone out"
                    .into(),
            ));
        }
        Ok(())
    }

    /// What the cloud sees of it, in words, if epochs may pause.
    pub fn seen(&self) -> Option<String> {
        match self.rest_after {
            Some(after) => Some(rest_seen(after)),
            None if self.schedule.trim() == "always" => None,
            None => Some(format!("{}: the cloud sees when there is traffic", self.schedule)),
        }
    }

    fn zone(&self) -> Result<TimeZone> {
        let Some(name) = &self.time_zone else { return Ok(TimeZone::system()) };
        TimeZone::get(name).map_err(|e| {
            Error::Usage(format!("--time-zone {name}: {e}; give a name such as Europe/Berlin"))
        })
    }
}

/// What the cloud sees of a store that rests.
pub fn rest_seen(after: Duration) -> String {
    // As it is typed: 10m, and not 600s.
    let after =
        SignedDuration::try_from(after).map_or(format!("{after:?}"), |after| format!("{after:#}"));
    format!(
        "rests when no client has been connected for {after}; the cloud sees when someone is \
         there, and nothing else"
    )
}

/// A time such as `90s`, `10m` or `1h 30m`.
///
/// # Errors
/// What is wrong with it.
pub fn rest_after(words: &str) -> std::result::Result<Duration, String> {
    let time = words.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| *time >= REST_AFTER_MIN)
        .ok_or_else(|| "give a time of a second or more, such as 90s, 10m or 1h".into())
}

impl Office {
    fn parse(words: &str, zone: TimeZone) -> Result<Self> {
        let wrong = || {
            Error::Usage(format!(
                "--schedule {words}: give always, or hours such as \"mon-fri 08:00-18:00\""
            ))
        };
        let (days, hours) = match words.split_once(' ') {
            Some((days, hours)) => (days_of(days).ok_or_else(wrong)?, hours.trim()),
            None => ([true; 7], words),
        };
        let (from, to) = hours.split_once('-').ok_or_else(wrong)?;
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).map_err(|_| wrong());
        let (from, to) = (time(from)?, time(to)?);
        if from == to || !days.contains(&true) {
            return Err(wrong());
        }
        Ok(Self { words: words.into(), days, from, to, zone })
    }

    fn is_open(&self, day: Weekday, time: Time) -> bool {
        let on = |day: Weekday| self.days[usize::from(day.to_monday_zero_offset().unsigned_abs())];
        match self.from < self.to {
            true => on(day) && self.from <= time && time < self.to,
            false => (on(day) && time >= self.from) || (on(day.previous()) && time < self.to),
        }
    }
}

impl Hours for Office {
    fn closed_at(&self, wall_ms: u64) -> Option<String> {
        let now =
            i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok())?;
        let now = now.to_zoned(self.zone.clone());
        let zone = self.zone.iana_name().unwrap_or("local time");
        let closed =
            || format!("hours are {} ({zone}), it is {}", self.words, now.strftime("%a %H:%M"));
        (!self.is_open(now.weekday(), now.time())).then(closed)
    }
}

/// Days such as `mon-fri`, `sat,sun` or `fri-mon`.
fn days_of(words: &str) -> Option<[bool; 7]> {
    let day = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        DAYS.iter().position(|(day, _)| *day == name)
    };
    let mut days = [false; 7];
    for part in words.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        let count = (last + 7 - first) % 7;
        (first..=first + count).for_each(|day| days[day % 7] = true);
    }
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(schedule: &str) -> ScheduleArgs {
        let time_zone = (schedule != "always").then(|| "Europe/Berlin".into());
        ScheduleArgs { schedule: schedule.into(), time_zone, rest_after: None, linger_s: None }
    }

    fn is_open(schedule: &str, at: &str) -> bool {
        let Ok(Uptime::Hours(hours)) = args(schedule).uptime() else { panic!("{schedule}") };
        let at: Timestamp = at.parse().unwrap();
        hours.closed_at(at.as_millisecond() as u64).is_none()
    }

    #[test]
    fn hours_are_those_of_the_zone() {
        // 2026-11-20 is a Friday; Berlin is an hour ahead in winter and two in summer.
        for (schedule, at, open) in [
            ("mon-fri 08:00-18:00", "2026-11-20T06:59:00Z", false),
            ("mon-fri 08:00-18:00", "2026-11-20T07:00:00Z", true),
            ("mon-fri 08:00-18:00", "2026-11-20T16:59:59Z", true),
            ("mon-fri 08:00-18:00", "2026-11-20T17:00:00Z", false),
            ("mon-fri 08:00-18:00", "2026-11-21T10:00:00Z", false),
            ("mon-fri 08:00-18:00", "2026-07-17T06:00:00Z", true),
            ("07:30-19:00", "2026-11-22T06:30:00Z", true),
            ("sat,sun 22:00-06:00", "2026-11-21T22:00:00Z", true),
            ("sat,sun 22:00-06:00", "2026-11-23T04:00:00Z", true), // Monday morning
            ("sat,sun 22:00-06:00", "2026-11-21T04:00:00Z", false), // Saturday morning
            ("fri-mon 10:00-11:00", "2026-11-23T09:30:00Z", true),
            ("fri-mon 10:00-11:00", "2026-11-24T09:30:00Z", false),
        ] {
            assert_eq!(is_open(schedule, at), open, "{schedule} at {at}");
        }
        let Ok(Uptime::Hours(hours)) = args("mon 08:00-18:00").uptime() else { panic!() };
        let told = hours.closed_at(1_763_800_000_000).unwrap();
        assert!(told.contains("mon 08:00-18:00 (Europe/Berlin)"), "{told}");
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for wrong in ["", "sometimes", "mon-fri", "mon-fri 8-18", "xyz 08:00-18:00", "08:00-08:00"]
        {
            assert!(matches!(args(wrong).uptime(), Err(Error::Usage(_))), "{wrong}");
        }
        let nowhere = ScheduleArgs { time_zone: Some("Mars".into()), ..args("08:00-18:00") };
        assert!(matches!(nowhere.uptime(), Err(Error::Usage(_))));
        assert!(matches!(args("always").uptime(), Ok(Uptime::Always)));
        let given = |schedule: &str, zone: Option<&str>, rest: bool, linger: Option<&str>| {
            let rest_after = rest.then_some(Duration::from_secs(600));
            let (schedule, time_zone) = (schedule.into(), zone.map(str::to_owned));
            let linger_s = linger.map(str::to_owned);
            ScheduleArgs { schedule, time_zone, rest_after, linger_s }
        };
        for (refused, flag) in [
            (given("always", Some("UTC"), false, None), "--time-zone"),
            (given("08:00-18:00", None, true, None), "--rest-after"),
            (given("connected", None, false, None), "--rest-after 1m"),
            (given("always", None, false, Some("5")), "--rest-after 1m"),
        ] {
            let told = refused.uptime().err().map(|e| e.to_string()).unwrap_or_default();
            assert!(told.contains(flag) && told.contains("--schedule"), "{told}");
        }
        assert_eq!(args("always").seen(), None);
        assert!(args("08:00-18:00").seen().unwrap().contains("when there is traffic"));
    }

    #[test]
    fn a_store_rests_after_a_time() {
        for (words, s) in [("1s", 1), ("90s", 90), ("10m", 600), ("1h 30m", 5_400), ("2h", 7_200)] {
            assert_eq!(rest_after(words), Ok(Duration::from_secs(s)), "{words}");
        }
        for wrong in ["", "0s", "10", "m", "-10m", "10 apples", "500ms"] {
            assert!(rest_after(wrong).is_err(), "{wrong}");
        }
        let rest_after = Some(Duration::from_secs(600));
        let given = ScheduleArgs { rest_after, ..args("always") };
        let Ok(Uptime::WhilePresent { linger }) = given.uptime() else { panic!() };
        assert_eq!(linger, Duration::from_secs(600));
        assert!(given.seen().unwrap().contains("no client has been connected for 10m"));
    }
}
