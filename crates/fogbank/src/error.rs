//! What ends a command, and with which exit code.

use std::process::ExitCode;

use fogbank_durable::Suspicion;
use fogbank_oram::Unverified;

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was typed cannot be done; the text says what to type instead.
    #[error("{0}")]
    Usage(String),
    /// A check failed: what was measured is not what was stored, or a trace shows a leak.
    #[error("{0}")]
    CheckFailed(String),
    /// The cloud returned something else than it was given, or nothing: what it holds was changed.
    #[error("{0}")]
    CloudLied(String),
    /// Another proxy has the store now.
    #[error("{0}")]
    Overtaken(String),
    /// Another client moves the site elsewhere.
    #[error("{0}")]
    Moved(String),
    /// There was too little data for a check to say anything.
    #[error("{0}")]
    TooFewData(String),
    /// A file or folder of the trusted side cannot be used.
    #[error("{0}")]
    CannotUse(String),
    /// The store is absent.
    #[error("{0}")]
    Absent(String),
    /// The store allows no more: its operator has to.
    #[error("{0}")]
    Refused(String),
    /// A signal ended the command before it was done.
    #[error("stopped by a signal")]
    Interrupted,
    /// Our fault.
    #[error("internal fault: {0}; please report it")]
    Bug(String),
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The exit code, as `docs/exit-codes.md` lists them.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Self::CheckFailed(_) | Self::CloudLied(_) => 1,
            Self::TooFewData(_) => 3,
            Self::Usage(_) => 64,
            Self::Absent(_) => 69,
            Self::Bug(_) => 70,
            Self::CannotUse(_) => 74,
            Self::Refused(_) => 77,
            Self::Overtaken(_) | Self::Moved(_) => 78,
            Self::Interrupted => 130,
        }
    }

    /// What to do about a server that has ended by this itself, whose store is `kept` when it has.
    pub fn advice(&self, kept: bool) -> &'static str {
        match self {
            Self::CloudLied(_) => {
                "what the cloud holds was changed, by whoever can: see to that before you start \
                 again; \
                 docs/exit-codes.md says how"
            }
            Self::Overtaken(_) => {
                "go on with the other proxy, and leave this one as it is: started again, it would \
                 take the store back and stop the other, unless two clouds have the volume, which \
                 only the other can open from now on. If the other is the one that should not run, \
                 stop it first"
            }
            Self::Moved(_) => {
                "everything it has acknowledged goes along. When whoever moves the site has sent \
                 you an invitation, join the new one with another --data (fogbank site join). This \
                 one does not start again, unless somebody says that the move has failed (fogbank \
                 site stay)"
            }
            _ if !kept => "the store was in memory: what it held is gone",
            _ => "nothing that was acknowledged is lost; start again once the cause is gone",
        }
    }
}

impl From<fogbank_durable::Error> for Error {
    fn from(error: fogbank_durable::Error) -> Self {
        use fogbank_durable::Error as E;
        match &error {
            E::Absent(_) => Self::Absent(error.to_string()),
            E::Refused(_) => Self::Refused(error.to_string()),
            E::CloudLied(suspicion) => Self::CloudLied(format!("{error}{}", way_on(*suspicion))),
            E::CloudEmpty => Self::CloudLied(error.to_string()),
            E::Fenced => Self::Overtaken(error.to_string()),
            E::OtherSettings(_) | E::Format { .. } | E::Exists | E::NoStore | E::Ahead { .. } => {
                Self::Usage(error.to_string())
            }
            E::RegisterLost(_) | E::Register { .. } | E::Near(_) | E::Stopped => {
                Self::CannotUse(error.to_string())
            }
            E::Bug(reason) => Self::Bug(reason.clone()),
        }
    }
}

impl From<fogbank_oram::Error> for Error {
    fn from(error: fogbank_oram::Error) -> Self {
        use fogbank_oram::Error as E;
        match error {
            E::Absent(_) => Self::Absent(error.to_string()),
            E::Refused(_) => Self::Refused(error.to_string()),
            E::CloudLied(ref place) => {
                let next = match place {
                    Unverified::Vault(suspicion) => way_on(*suspicion),
                    _ => format!("{PAST_LOST_CELLS}{OF_A_STORE_OF_KEYS}"),
                };
                Self::CloudLied(format!("{error}{next}"))
            }
            E::Fenced => Self::Overtaken(error.to_string()),
            E::Moved => Self::Moved(error.to_string()),
            E::Register(reason) => Self::CannotUse(reason),
            E::Caller(reason) => Self::Usage(reason),
            E::Bug(reason) => Self::Bug(reason),
        }
    }
}

impl From<fogbank_store::StoreError> for Error {
    fn from(error: fogbank_store::StoreError) -> Self {
        fogbank_durable::Error::from(error).into()
    }
}

impl From<fogbank_txn::Error> for Error {
    fn from(error: fogbank_txn::Error) -> Self {
        use fogbank_txn::Error as E;
        match error {
            E::Stopped(engine) => engine.into(),
            E::BadCheckpoint(_) => Self::Bug(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}

impl Error {
    /// Whether it would help to go on with what the cloud shows: then the error itself says so.
    /// Anything else, a store that is in use among it, is no reason to give freshness up.
    pub fn is_mended_by_acceptance(&self) -> bool {
        let of_freshness = matches!(self, Self::CloudLied(_) | Self::CannotUse(_));
        of_freshness && self.to_string().contains(ACCEPTANCE)
    }

    /// The same for a volume in two clouds, which cannot go on from an older state: that advice is
    /// not given.
    pub(crate) fn in_two_clouds(self) -> Self {
        match self {
            Self::CloudLied(why) => Self::CloudLied(without_acceptance(why)),
            Self::CannotUse(why) => Self::CannotUse(without_acceptance(why)),
            error => error,
        }
    }

    /// This error, as a client of a site can act on it: another command makes a site of a backup.
    pub fn in_a_site(self) -> Self {
        let of_site = |why: String| {
            why.replace(OF_A_STORE_OF_KEYS, "").replace("fogbank restore", "fogbank site restore")
        };
        match self {
            Self::CloudLied(why) => Self::CloudLied(of_site(why)),
            error => error,
        }
    }
}

/// The advice to go on from an older state is the last clause before this, and begins so.
const ACCEPTANCE: &str = "`fogbank recover --accept-rollback-risk`";
const CLAUSE: &str = ", or";

fn without_acceptance(why: String) -> String {
    let Some((before, after)) = why.split_once(ACCEPTANCE) else { return why };
    let kept = before.rsplit_once(CLAUSE).map_or(before, |(kept, _)| kept);
    let next = match kept.contains("fogbank restore") {
        true => String::new(),
        false => format!("; {FROM_A_BACKUP}"),
    };
    format!("{kept}{next}{after}; {NO_WAY_BACK}")
}

/// That `--accept-rollback-risk` was said where nobody can go on from an older state.
pub(crate) fn no_acceptance() -> Error {
    Error::Usage(format!(
        "{NO_WAY_BACK}: leave --accept-rollback-risk out, and put back the newest copy of the \
         trusted side (DIR/proxy); {FROM_A_BACKUP}"
    ))
}

const NO_WAY_BACK: &str = "a volume in two clouds cannot go on from an older state, for both \
    clouds would see numbers and covers a second time";

/// What is left where the newest state of a volume in two clouds is lost.
pub(crate) const FROM_A_BACKUP: &str = "if there is none, make a new volume of a backup by fogbank \
    restore (docs/backup.md)";

/// What whoever reads this can do about what the cloud showed.
fn way_on(suspicion: Suspicion) -> String {
    match suspicion {
        Suspicion::WrongKey => "; put back the key of this store".into(),
        // What is newer than the register and opens by the key somebody has written who has both.
        Suspicion::OtherStore | Suspicion::Unknown => ELSEWHERE.into(),
        Suspicion::UnknownTo(_) => "; nothing was claimed or changed. Say where the volume lies \
            (--store; the second cloud in DIR/proxy/second-store): another tenant knows nothing of \
            it. If it is the right one, put back what it held before, or restore a backup (fogbank \
            restore)"
            .into(),
        Suspicion::JournalLong(_) => format!("{ELSEWHERE}{WITHOUT_JOURNAL}"),
        // What is older, or spoiled, no proxy leaves.
        Suspicion::RolledBack => AS_IT_WAS.into(),
        Suspicion::JournalCut(_) | Suspicion::Journal(_) => format!("{AS_IT_WAS}{WITHOUT_JOURNAL}"),
        Suspicion::Piece(_) => {
            "; without it no block can be found, so nothing can be salvaged: put \
            back what the cloud held before, or restore a backup (fogbank restore)"
                .into()
        }
        Suspicion::Format(_) => {
            "; put back what the cloud held before, or use the newer version".into()
        }
        Suspicion::Commit | Suspicion::CommitReplaced => {
            "; without it no block can be found, so nothing \
            can be salvaged: put back the blob `commit` as the cloud held it last, or restore a \
            backup (fogbank restore)"
                .into()
        }
        _ => "; put back what the cloud held before, or restore a backup (fogbank restore)".into(),
    }
}

/// Where what the cloud shows is newer than the register, or of another history.
const ELSEWHERE: &str = "; is another proxy running on this store, or was one since, from a copy \
    of the trusted side (DIR/proxy) elsewhere? Then go on there, and with nothing here. If not, \
    put the newest copy of that side back which is old, or, if there is none, go on with what the \
    cloud shows by `fogbank recover --accept-rollback-risk`";

/// Where it is older, or spoiled.
const AS_IT_WAS: &str = "; put back what the cloud held last. If that is gone, restore a backup \
    (fogbank restore), or go on with the older state that the cloud shows by `fogbank recover \
    --accept-rollback-risk`";

const WITHOUT_JOURNAL: &str = ". What a store of keys has committed needs no journal: `fogbank \
    backup --salvage` keeps it";

/// What can be done when cells do not verify.
const PAST_LOST_CELLS: &str = "; put back what the cloud held there, or restore a backup (fogbank \
    restore)";
const OF_A_STORE_OF_KEYS: &str = ". Of a store of keys `fogbank backup --salvage` keeps every \
    record that verifies and names those that are lost, and `fogbank verify --repair --to NEWDIR` \
    makes a new store of them";

#[cfg(test)]
mod tests {
    use fogbank_durable::Error as Vault;
    use fogbank_store::StoreError;

    use super::*;

    fn all() -> [Error; 13] {
        let said = String::new;
        [
            Error::Usage(said()),
            Error::CheckFailed(said()),
            Error::CloudLied(said()),
            Error::Overtaken(said()),
            Error::Moved(said()),
            Error::TooFewData(said()),
            Error::CannotUse(said()),
            Error::Absent(said()),
            Error::Refused(said()),
            Error::Interrupted,
            Error::Bug(said()),
            Vault::NoStore.into(),
            Vault::RegisterLost(said()).into(),
        ]
    }

    /// The page has a row of every code there is, and says of each whether to start again.
    #[test]
    fn every_exit_code_is_in_its_page() {
        let page = include_str!("../../../docs/exit-codes.md");
        for error in all() {
            let row = format!("| {} |", error.code());
            assert!(page.lines().any(|line| line.starts_with(&row)), "{row}");
        }
        let unit = page.lines().find(|line| line.starts_with("RestartPreventExitStatus=")).unwrap();
        for (error, again) in all().map(|error| (error.code(), matches!(error.code(), 69 | 74))) {
            let prevented = unit.split(['=', ' ']).any(|code| code == error.to_string());
            assert!(again != prevented || error == 130, "{error}");
        }
    }

    /// Where going on from an older state is refused, nobody is sent there; the rest is still said.
    #[test]
    fn acceptance_is_advised_where_there_is_such_a_thing() {
        let lie = |of| Error::from(Vault::CloudLied(of));
        let lost: Error = Vault::RegisterLost("r".into()).into();
        let blob = fogbank_durable::Blob::Journal { epoch: 1, place: 2 };
        for (error, kept) in [
            (lie(fogbank_durable::Suspicion::RolledBack), "restore a backup (fogbank restore); a"),
            (lie(fogbank_durable::Suspicion::Unknown), "put the newest copy of that side back"),
            (lie(fogbank_durable::Suspicion::JournalCut(blob)), "--salvage` keeps it"),
            (lost, "put its newest copy back; if there is none, make a new volume of a backup by"),
        ] {
            assert!(error.is_mended_by_acceptance(), "{error}");
            let code = error.code();
            let error = error.in_two_clouds();
            assert_eq!((error.code(), error.is_mended_by_acceptance()), (code, false));
            let said = error.to_string();
            assert!(!said.contains("accept-rollback") && said.contains(kept), "{said}");
            assert!(said.contains("fogbank restore"), "{said}");
        }
    }

    /// Who has a site is sent to the command that makes one of a backup, and to no other.
    #[test]
    fn a_site_is_restored_by_its_own_command() {
        let lies: [Error; 2] = [
            Vault::CloudLied(fogbank_durable::Suspicion::Reply).into(),
            fogbank_oram::Error::CloudLied(Unverified::Reply("r".into())).into(),
        ];
        for lie in lies {
            let said = lie.to_string();
            assert!(said.contains("(fogbank restore)"), "{said}");
            let said = lie.in_a_site().to_string();
            assert!(said.ends_with("restore a backup (fogbank site restore)"), "{said}");
        }
    }

    /// Whatever a cloud can do to what it holds ends with one code, and nothing else does in these
    /// commands.
    #[test]
    fn what_a_cloud_does_to_its_bytes_has_one_code() {
        use fogbank_durable::Suspicion as S;
        let blob = fogbank_durable::Blob::Journal { epoch: 1, place: 2 };
        let suspicions = [
            S::Reply,
            S::WrongKey,
            S::Commit,
            S::OtherStore,
            S::RolledBack,
            S::Unknown,
            S::JournalCut(blob),
            S::Journal(blob),
            S::JournalLong(blob),
            S::Place,
            S::CommitReplaced,
            S::Unchanged,
            S::Format(7),
            S::Piece(blob),
            S::Config,
            S::SiteHeader,
            S::Site("gone"),
            S::UnknownTo("first"),
        ];
        let lies = suspicions.map(Vault::CloudLied).into_iter().chain([Vault::CloudEmpty]);
        for lie in lies {
            let words = lie.to_string();
            assert_eq!(Error::from(lie).code(), 1, "{words}");
        }
        let gone = || "gone".to_owned();
        for lie in [StoreError::Misbehaved(gone()), StoreError::NoArray(gone())] {
            assert_eq!(Error::from(lie).code(), 1);
        }
        for (other, code) in [
            (Vault::Absent(StoreError::Absent(gone())), 69),
            (Vault::Refused(gone()), 77),
            (Vault::Fenced, 78),
            (Vault::Exists, 64),
            (Vault::Ahead { newest: 7 }, 64),
            (Vault::Format { found: 9, known: 3 }, 64),
            (Vault::Register { place: gone(), reason: gone() }, 74),
        ] {
            assert_eq!(Error::from(other).code(), code);
        }
        // A second proxy is spoken of only where it can be one.
        for suspicion in suspicions {
            let newer = matches!(suspicion, S::OtherStore | S::Unknown | S::JournalLong(_));
            assert_eq!(way_on(suspicion).contains("another proxy"), newer, "{suspicion:?}");
        }
    }
}
