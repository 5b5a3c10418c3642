//! One partition of three levels under every schedule of so many steps: which block is asked for
//! and what for, when a record is cut, which reply comes next. Whatever was asked, the same
//! schedule shows the same calls, and every answer is that of a plain map.

use std::collections::HashMap;

use super::{Harness, Seen, write};
use crate::Access;
use crate::partition::canary::Canary;
use crate::partition::layout::Layout;

/// Accesses before the schedule begins, so that levels are filled and due.
const BEFORE: u32 = 5;
/// Steps of a schedule.
const STEPS: u32 = 10;
const LAYOUT: Layout =
    Layout { blocks: 3, partitions: 1, levels: 3, top_blocks: 4, kept_levels: 0, segment_cells: 7 };

/// What a scheduler may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Arrive,
    Cut,
    /// The reply to the oldest call comes, to the newest, or to the one in the middle.
    First,
    Last,
    Middle,
}

const ALL: [Step; 5] = [Step::Arrive, Step::Cut, Step::First, Step::Last, Step::Middle];

/// Whether a step can be taken, and differs from those before it in [`ALL`].
fn is_possible(harness: &Harness, step: Step) -> bool {
    match step {
        Step::Arrive | Step::Cut => true,
        Step::First => harness.under_way() > 0,
        Step::Last => harness.under_way() > 1,
        Step::Middle => harness.under_way() > 2,
    }
}

/// The `nth` access of a workload.
type Asked = fn(u32) -> (u32, Access);

struct Run {
    harness: Harness,
    asked: Asked,
    plain: HashMap<u32, u64>,
    wanted: Vec<u64>,
}

impl Run {
    fn new(asked: Asked, canary: Canary) -> Self {
        let mut run = Self {
            harness: Harness::new(LAYOUT, 1),
            asked,
            plain: HashMap::new(),
            wanted: Vec::new(),
        };
        run.harness.plane.canary = canary;
        for _ in 0..BEFORE {
            run.take(Step::Arrive);
            run.harness.settle();
        }
        run
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Arrive => {
                let (block, access) = (self.asked)(self.wanted.len() as u32);
                if let Access::Write { bytes, .. } = &access {
                    self.plain.insert(block, u64::from_le_bytes(bytes[..].try_into().unwrap()));
                }
                self.wanted.push(self.plain.get(&block).copied().unwrap_or(0));
                self.harness.arrive(block, access);
            }
            Step::Cut => _ = self.harness.cut(),
            Step::First => self.harness.reply(0),
            Step::Last => self.harness.reply(self.harness.under_way() - 1),
            Step::Middle => self.harness.reply(self.harness.under_way() / 2),
        }
        let answered = self.harness.answers.len() as u64;
        self.harness.trace.push(("answered", answered, vec![]));
    }

    /// What the cloud has seen when everything has come to its end.
    fn seen(mut self) -> Vec<Seen> {
        self.harness.settle();
        let answers = self.harness.answers.iter();
        let answers: Vec<u64> =
            answers.map(|(_, value)| u64::from_le_bytes(value[..].try_into().unwrap())).collect();
        assert_eq!(answers, self.wanted);
        self.harness.trace
    }
}

/// Every schedule of `steps` steps, as far as each is possible in its turn.
fn schedules(asked: Asked, steps: u32) -> Vec<Vec<Step>> {
    let mut all = vec![Vec::new()];
    for _ in 0..steps {
        let mut longer = Vec::new();
        for schedule in all {
            let mut run = Run::new(asked, Canary::default());
            schedule.iter().for_each(|step| run.take(*step));
            let possible = ALL.into_iter().filter(|step| is_possible(&run.harness, *step));
            longer.extend(possible.map(|step| [&schedule[..], &[step]].concat()));
        }
        all = longer;
    }
    all
}

const WORKLOADS: [Asked; 3] = [
    |_| (0, Access::Read),
    |at| (at % 3, write(at.into())),
    |at| (at / 2 % 2, if at % 2 == 0 { Access::Read } else { write(at.into()) }),
];

/// The first schedule under which two workloads show different calls, if there is one.
fn told_by(schedules: &[Vec<Step>], canary: impl Fn() -> Canary) -> Option<&Vec<Step>> {
    schedules.iter().find(|schedule| {
        let [first, others @ ..] = WORKLOADS.map(|asked| {
            let mut run = Run::new(asked, canary());
            schedule.iter().for_each(|step| run.take(*step));
            run.seen()
        });
        others.iter().any(|other| *other != first)
    })
}

#[test]
fn every_schedule_shows_the_same_whatever_is_asked() {
    let schedules = schedules(WORKLOADS[0], STEPS);
    assert!(schedules.len() > 20_000, "{}", schedules.len());
    assert_eq!(told_by(&schedules, Canary::default), None);
}

/// What leaks is told by some of them.
#[cfg(feature = "canaries")]
#[test]
fn a_leak_shows_under_some_schedule() {
    use crate::partition::canary::Leak;
    let schedules = schedules(WORKLOADS[0], STEPS);
    for leak in [Leak::JobUnawaited, Leak::HitSendsNothing] {
        assert!(told_by(&schedules, || Canary::new(leak)).is_some(), "{leak:?}");
    }
}
