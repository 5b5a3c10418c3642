//! Leaks of the client on purpose, see [`crate::canary`].

use crate::canary::canary;

canary! {
    leaks {
        /// The wanted cell is named first. Rule: cells are named in a secret order.
        WantedFirst,
        /// All reads have one seed. Rule: no pad covers two cells.
        ReadPadTwice,
        /// All rebuilds of the top have one seed for what they carry. Rule: the same.
        CarryPadTwice,
        /// The first unread dummy is read. Rule: a uniform one.
        FirstDummy,
        /// While a list is out dummies are read of the whole level. Rule: of the list.
        OutsideList,
        /// A refresh lists what holds blocks, and no dummy; meanwhile any dummy is read. Rule: the
        /// quota.
        RefreshOfReals,
        /// Where no cell is wanted the index is 0. Rule: a uniform one.
        ConstantIndex,
        /// Only the wanted cell is checked. Rule: all are.
        WantedChecked,
        /// The answer is checked if its cell is wanted. Rule: every answer is.
        DummyUnchecked,
        /// The answer is checked at the point of who sends it. Rule: at the other's.
        AnswerAtOwnPoint,
        /// What a refresh fetches is checked at the point of who sends it. Rule: at the other's.
        RefreshAtOwnPoint,
        /// Both clouds have one point. Rule: each has its own.
        OnePoint,
        /// A second attempt takes what the first took. Rule: what was asked for since is left out.
        TakenAgain,
        /// A second attempt has the name of the first, and so its seeds. Rule: all are new.
        SameAttempt,
        /// A read that is repeated names its cells in another order. Rule: it is the same.
        RepeatedOtherwise,
        /// An answer leaves before what its step writes down. Rule: its result is durable before.
        AnswerEarly,
        /// Clouds are told of a commit with reads under way of what it replaces. Rule: when there
        /// are none.
        CommitAtOnce,
        /// A chain is walked as far as it goes. Rule: the same work for every cell.
        WalksShort,
        /// The entry of an access follows its messages. Rule: it is durable before.
        EntryLate,
        /// A journal is served that ends before what the clouds have seen. Rule: it is refused.
        ServesOlder,
        /// What a shuffler says that it was moved is not checked. Rule: it is.
        MovedTrusted,
        /// What a holder says that it stored is not checked. Rule: it is.
        LevelTrusted,
        /// The seal under the records of a level is not looked at. Rule: it says whether a record
        /// was altered.
        SealIgnored,
        /// What is shown as a proof need not be signed. Rule: it is signed, or whoever shows it
        /// lies.
        ProofBelieved,
        /// A cloud that does not answer is waited for, for ever. Rule: it is told as absent.
        CloudForEver,
        /// The same of the link between the clouds. Rule: the same.
        LinkForEver,
    }
    state {}
    asks {
        names_wanted_first: WantedFirst,
        repeats_read_pads: ReadPadTwice,
        repeats_carry_pads: CarryPadTwice,
        reads_first_dummy: FirstDummy,
        reads_outside_list: OutsideList,
        fetches_reals: RefreshOfReals,
        has_constant_index: ConstantIndex,
        checks_wanted: WantedChecked,
        skips_dummies: DummyUnchecked,
        checks_answer_there: AnswerAtOwnPoint,
        checks_refresh_there: RefreshAtOwnPoint,
        has_one_point: OnePoint,
        takes_again: TakenAgain,
        keeps_attempt: SameAttempt,
        repeats_otherwise: RepeatedOtherwise,
        answers_early: AnswerEarly,
        commits_at_once: CommitAtOnce,
        walks_short: WalksShort,
        journals_late: EntryLate,
        serves_older: ServesOlder,
        trusts_moved: MovedTrusted,
        trusts_levels: LevelTrusted,
        ignores_seals: SealIgnored,
        believes_proofs: ProofBelieved,
        waits_for_clouds: CloudForEver,
        waits_for_links: LinkForEver,
    }
}
