//! `--schedule`: when epochs run, from words to what the transaction layer keeps to.
//!
//! `always`; `connected`, while a client is; or hours such as `mon-fri 08:00-18:00`, `sat,sun 22:00-06:00`
//! (which end on the day after) or `07:30-19:00`, by the clock of a time zone.

use std::sync::Arc;
use std::time::Duration;

use fogbank_txn::{Hours, Uptime};
use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;

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

/// Seconds for which epochs go on without a client.
const LINGER_S: u64 = 60;

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
        match schedule {
            "always" => Ok(Uptime::Always),
            "connected" => {
                let linger = Duration::from_secs(self.linger_s.unwrap_or(LINGER_S));
                Ok(Uptime::WhilePresent { linger })
            }
            hours => Ok(Uptime::Hours(Arc::new(Office::parse(hours, self.zone()?)?))),
        }
    }

    /// What would be ignored was meant to do something.
    fn check_flags(&self, schedule: &str) -> Result<()> {
        let idle = |flag, matters| {
            let words = format!("{flag} matters to --schedule {matters} only, not to {schedule:?}");
            Err(Error::Usage(format!("{words}; say that, or leave {flag} out")))
        };
        if self.linger_s.is_some() && schedule != "connected" {
            return idle("--linger-s", "connected");
        }
        if self.time_zone.is_some() && matches!(schedule, "always" | "connected") {
            return idle("--time-zone", "\"mon-fri 08:00-18:00\" or the like");
        }
        Ok(())
    }

    /// Whether epochs may pause.
    pub fn pauses(&self) -> bool {
        self.schedule.trim() != "always"
    }

    fn zone(&self) -> Result<TimeZone> {
        let Some(name) = &self.time_zone else { return Ok(TimeZone::system()) };
        TimeZone::get(name).map_err(|e| {
            Error::Usage(format!("--time-zone {name}: {e}; give a name such as Europe/Berlin"))
        })
    }
}

impl Office {
    fn parse(words: &str, zone: TimeZone) -> Result<Self> {
        let wrong = || {
            Error::Usage(format!(
                "--schedule {words}: give always, connected, or hours such as \
                 \"mon-fri 08:00-18:00\""
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
        let has_hours = !matches!(schedule, "always" | "connected");
        let time_zone = has_hours.then(|| "Europe/Berlin".into());
        ScheduleArgs { schedule: schedule.into(), time_zone, linger_s: None }
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
        for (schedule, zone, linger_s) in [
            ("always", Some("UTC"), None),
            ("connected", Some("UTC"), None),
            ("always", None, Some(5)),
            ("08:00-18:00", None, Some(5)),
        ] {
            let schedule = schedule.into();
            let given = ScheduleArgs { schedule, time_zone: zone.map(str::to_owned), linger_s };
            let told = given.uptime().err().map(|e| e.to_string()).unwrap_or_default();
            let flag = if zone.is_some() { "--time-zone" } else { "--linger-s" };
            assert!(told.contains(flag) && told.contains("matters to --schedule"), "{told}");
        }
        assert!(!args("always").pauses() && args("connected").pauses());
    }
}
