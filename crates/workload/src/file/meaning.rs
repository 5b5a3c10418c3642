//! What a file means: names become groups, what is left out gets its default, and what cannot be is
//! refused with its line.

use std::ops::Range;

use toml::Spanned;

use super::FileError;
use super::description::{self, Description, Distribution};
use super::record::HEAD_BYTES;

/// The usual exponent.
const THETA: f64 = 0.99;
const THETA_MAX: f64 = 5.0;
const NAME_BYTES_MAX: usize = 100;
const RECORDS_MAX: u32 = 100_000_000;
const VALUE_BYTES_MAX: u32 = 1 << 20;
/// Records of one access.
const COUNT_MAX: u32 = 10_000;
/// What a file without a name is called.
pub(super) const NAMELESS: &str = "workload file";

/// Records that are alike.
#[derive(Debug)]
pub(super) struct Group {
    pub name: String,
    /// Records there are at first.
    pub count: u32,
    /// Bytes of a value.
    pub bytes: u32,
    /// Whether some are overwritten unread, so that their counters are lost.
    pub overwritten: bool,
}

/// A transaction that is drawn.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub name: String,
    pub percent: u32,
    pub steps: Vec<Step>,
}

/// What is asked for together.
#[derive(Debug, Clone, Default)]
pub(super) struct Step {
    pub reads: Vec<Access>,
    pub updates: Vec<Access>,
    pub writes: Vec<Access>,
    pub inserts: Vec<Access>,
    pub scan: Option<Access>,
}

/// Some records of a group.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// Which of the groups.
    pub group: usize,
    pub count: u32,
    pub which: Which,
}

/// Which records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Which {
    Uniform,
    Zipfian(f64),
    /// Zipfian, back from the newest.
    Latest(f64),
}

type Result<T> = std::result::Result<T, FileError>;

/// Name, groups and transactions of a file.
pub(super) fn of(file: Description, text: &str) -> Result<(String, Vec<Group>, Vec<Kind>)> {
    let source = Source(text);
    let mut groups: Vec<Group> = Vec::new();
    for group in &file.groups {
        let before = groups.iter().any(|other| other.name == *group.name.get_ref());
        source.name(&group.name, before)?;
        groups.push(Group {
            name: group.name.get_ref().clone(),
            count: source.within("count", &group.count, 1, RECORDS_MAX)?,
            bytes: source.within("bytes", &group.bytes, HEAD_BYTES, VALUE_BYTES_MAX)?,
            overwritten: false,
        });
    }
    if groups.is_empty() {
        let what = "there are no records; add a [[group]] with name, count and bytes";
        return Err(source.wrong(0..0, what.into()));
    }
    let (mut kinds, mut last): (Vec<Kind>, _) = (Vec::new(), 0..0);
    for transaction in file.transactions {
        let before = kinds.iter().any(|other| other.name == *transaction.name.get_ref());
        source.name(&transaction.name, before)?;
        let percent = source.within("percent", &transaction.percent, 1, 100)?;
        last = transaction.percent.span();
        if transaction.steps.is_empty() {
            let what = "this transaction has no steps; add a [[transaction.step]] after it";
            return Err(source.wrong(transaction.name.span(), what.into()));
        }
        let steps = transaction.steps.into_iter().map(|step| source.step(step, &groups));
        let steps = steps.collect::<Result<_>>()?;
        kinds.push(Kind { name: transaction.name.into_inner(), percent, steps });
    }
    let percents: u32 = kinds.iter().map(|kind| kind.percent).sum();
    if percents != 100 {
        let what = format!(
            "the transactions' percents come to {percents} and have to come to 100: there are {} \
             [[transaction]]s",
            kinds.len()
        );
        return Err(source.wrong(last, what));
    }
    for access in kinds.iter().flat_map(|kind| &kind.steps).flat_map(|step| &step.writes) {
        if let Some(group) = groups.get_mut(access.group) {
            group.overwritten = true;
        }
    }
    Ok((file.name.unwrap_or_else(|| NAMELESS.into()), groups, kinds))
}

/// The text, to name lines of it.
struct Source<'a>(&'a str);

impl Source<'_> {
    fn wrong(&self, at: Range<usize>, what: String) -> FileError {
        let before = self.0.as_bytes().iter().take(at.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        FileError::Meaning { line, what }
    }

    fn name(&self, name: &Spanned<String>, there_before: bool) -> Result<()> {
        let what = match name.get_ref() {
            word if word.is_empty() || word.len() > NAME_BYTES_MAX => {
                format!("name: a name has 1 to {NAME_BYTES_MAX} bytes")
            }
            word if there_before => format!("name: there is another \"{word}\" above; rename one"),
            _ => return Ok(()),
        };
        Err(self.wrong(name.span(), what))
    }

    fn within(&self, field: &str, number: &Spanned<u32>, least: u32, most: u32) -> Result<u32> {
        let value = *number.get_ref();
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(number.span(), format!("{field}: {value} is outside {least} to {most}")))
    }

    fn step(&self, step: Spanned<description::Step>, groups: &[Group]) -> Result<Step> {
        let span = step.span();
        let step = step.into_inner();
        let all = |accesses: Vec<description::Access>| -> Result<Vec<Access>> {
            accesses.into_iter().map(|access| self.access(&access, groups)).collect()
        };
        for insert in &step.insert.0 {
            self.is_without_distribution(insert)?;
        }
        for write in &step.write.0 {
            self.is_not_latest(write)?;
        }
        let others = [&step.read, &step.update, &step.write, &step.insert];
        let others: usize = others.iter().map(|several| several.0.len()).sum();
        let scans = step.scan.0.len();
        if scans > 1 || (scans == 1 && others > 0) {
            let what =
                "a scan is a step of its own: put the rest into another [[transaction.step]]";
            return Err(self.wrong(span, what.into()));
        }
        if scans + others == 0 {
            let what = "this step does nothing: give it a read, update, write, insert or scan";
            return Err(self.wrong(span, what.into()));
        }
        Ok(Step {
            reads: all(step.read.0)?,
            updates: all(step.update.0)?,
            writes: all(step.write.0)?,
            inserts: all(step.insert.0)?,
            scan: all(step.scan.0)?.pop(),
        })
    }

    fn access(&self, access: &description::Access, groups: &[Group]) -> Result<Access> {
        let name = access.group.get_ref();
        let Some(index) = groups.iter().position(|group| group.name == *name) else {
            let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
            let names = names.join(", ");
            let what = format!("group: there is no [[group]] \"{name}\", but {names}");
            return Err(self.wrong(access.group.span(), what));
        };
        let records = groups.get(index).map_or(1, |group| group.count);
        let count = match &access.count {
            Some(count) => self.within("count", count, 1, COUNT_MAX.min(records))?,
            None => 1,
        };
        let theta = match &access.theta {
            Some(theta) if !(*theta.get_ref() > 0.0 && *theta.get_ref() <= THETA_MAX) => {
                let what = format!("theta: it is above 0 and at most {THETA_MAX}");
                return Err(self.wrong(theta.span(), what));
            }
            Some(theta) => *theta.get_ref(),
            None => THETA,
        };
        let distribution = access.distribution.as_ref().map(|d| *d.get_ref());
        let which = match distribution.unwrap_or(Distribution::Uniform) {
            Distribution::Zipfian => Which::Zipfian(theta),
            Distribution::Latest => Which::Latest(theta),
            Distribution::Uniform => match &access.theta {
                None => Which::Uniform,
                Some(theta) => {
                    let what = "theta: it belongs to distribution = \"zipfian\" or \"latest\"";
                    return Err(self.wrong(theta.span(), what.into()));
                }
            },
        };
        Ok(Access { group: index, count, which })
    }

    fn is_without_distribution(&self, insert: &description::Access) -> Result<()> {
        match &insert.distribution {
            None => Ok(()),
            Some(distribution) => {
                let what = "distribution: an insert takes the next number; leave it out";
                Err(self.wrong(distribution.span(), what.into()))
            }
        }
    }

    fn is_not_latest(&self, write: &description::Access) -> Result<()> {
        match &write.distribution {
            Some(latest) if *latest.get_ref() == Distribution::Latest => {
                let what = "distribution: the latest record may not be inserted yet; write uniform \
                            or zipfian ones, or update this one";
                Err(self.wrong(latest.span(), what.into()))
            }
            _ => Ok(()),
        }
    }
}
