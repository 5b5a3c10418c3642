//! Leaks of the pyramids on purpose, see [`crate::canary`]. Those of the shell stand in
//! `immediate/canary.rs`.

use crate::canary::canary;

canary! {
    leaks {
        /// An access whose block is in the proxy reads nothing. Rule: a cell of every filled level.
        HitSendsNothing,
        /// A job reads the live cells of its sources and no dummy. Rule: the quota.
        QuotaOfReals,
        /// A dummy is read again and again. Rule: no cell twice in a generation.
        DummyReadTwice,
        /// An access ends when its own cells have come. Rule: also those of a job of its partition.
        JobUnawaited,
        /// Orders count for jobs when they are given. Rule: when they are durable.
        OrderBeforeDurable,
        /// A job writes while cells that were read early for it are under way. Rule: it waits.
        EarlyUnawaited,
        /// A level gives dummies until its job begins. Rule: until it is due.
        LateMark,
        /// A level without live blocks is not written. Rule: every level is, whole.
        EmptySkipped,
        /// What is written counts before a barrier has passed. Rule: behind it.
        BarrierSkipped,
        /// What a job takes of the budget is what lives in its sources. Rule: quotas and cells.
        BudgetByReals,
        /// What died is dropped when any checkpoint counts. Rule: when one does that was cut later.
        DroppedEarly,
        /// A request that finds another waiting shows the partition of its block as well. Rule: one
        /// drawn for it.
        OwnPartitionTwice,
        /// A recovery reads other dummies than the journal names. Rule: the same cells.
        ReplayFreshDummies,
        /// A request that finds another waiting reads nothing. Rule: every access reads.
        DuplicateOmitted,
        /// An access whose block is in the proxy ends before its cells have come. Rule: when they
        /// have.
        HitAnswered,
        /// No job begins in a record with a request whose block is in the proxy. Rule: as soon as
        /// the budget allows.
        JobDelayed,
        /// Accesses read dummies of levels that a job reads. Rule: no cell once it has begun.
        SourceRead,
        /// A commit takes effect when its record is cut. Rule: when that is durable.
        CommitAtCut,
        /// The cells of a level lie in the order of its ranks. Rule: in a secret one.
        CellsInOrder,
        /// The dummies of a job are the first unread ones of their level. Rule: any of them.
        FrontDummies,
    }
    state {}
    asks {
        sends_nothing: HitSendsNothing,
        reads_reals: QuotaOfReals,
        keeps_dummy: DummyReadTwice,
        awaits_no_job: JobUnawaited,
        counts_at_once: OrderBeforeDurable,
        awaits_no_early: EarlyUnawaited,
        marks_late: LateMark,
        skips_empty: EmptySkipped,
        skips_barrier: BarrierSkipped,
        counts_reals: BudgetByReals,
        drops_early: DroppedEarly,
        shows_twice: OwnPartitionTwice,
        reads_others: ReplayFreshDummies,
        omits_duplicates: DuplicateOmitted,
        answers_hits: HitAnswered,
        delays_jobs: JobDelayed,
        reads_sources: SourceRead,
        commits_at_cut: CommitAtCut,
        lays_in_order: CellsInOrder,
        reads_front: FrontDummies,
    }
}
