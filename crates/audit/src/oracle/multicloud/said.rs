//! What a message to a cloud says: the name that it has in a trace, taken apart.

/// Cells of a level as a message names it: the level, and which job wrote it.
pub type Named = (u8, u64);

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Cells of a read.
    Look { read: u64, partition: u16, places: Vec<(u8, u64, u32)> },
    /// Which of the cells of a read is wanted, of how many.
    Want { read: u64, partition: u16, cells: u32, index: u32 },
    /// A job that reads whole levels is named to the holder.
    Recall { partition: u16, job: u64, sources: Vec<Named> },
    /// The same for a shuffler that has lost what it kept.
    Hand { partition: u16, job: u64, sources: Vec<Named> },
    /// A rebuild of the top: the cells that go to the shuffler, or through the client.
    List { partition: u16, job: u64, sources: Vec<Named>, marks: Vec<u64>, fetches: bool },
    /// Records of the new level.
    Records { partition: u16, job: u64, count: u32 },
    /// A job is named to the shuffler.
    Mix { partition: u16, job: u64, level: u8, sources: Vec<Named> },
    /// Seeds of what was handed over.
    Strip { partition: u16, job: u64 },
    /// The level of a job counts.
    Commit { partition: u16, job: u64 },
    /// How far the client's journal goes.
    Reached { epoch: u64, place: u64 },
}

impl Said {
    /// What a name says; nothing if it says nothing.
    pub fn of(name: &str) -> Option<Self> {
        let mut words = name.split('/');
        let mut next = || words.next();
        let said = match next()? {
            "look" => Self::Look {
                read: number(next()?)?,
                partition: number(next()?)?,
                places: all(next()?, |place| {
                    let mut parts = place.split('.');
                    let level = number(parts.next()?)?;
                    Some((level, number(parts.next()?)?, number(parts.next()?)?))
                })?,
            },
            "want" => Self::Want {
                read: number(next()?)?,
                partition: number(next()?)?,
                cells: number(next()?)?,
                index: number(next()?)?,
            },
            "recall" => Self::Recall {
                partition: number(next()?)?,
                job: number(next()?)?,
                sources: sources(next()?)?,
            },
            "hand" => Self::Hand {
                partition: number(next()?)?,
                job: number(next()?)?,
                sources: sources(next()?)?,
            },
            kind @ ("carry" | "fetch") => Self::List {
                partition: number(next()?)?,
                job: number(next()?)?,
                sources: sources(next()?)?,
                marks: all(next()?, |word| u64::from_str_radix(word, 16).ok())?,
                fetches: kind == "fetch",
            },
            "records" => Self::Records {
                partition: number(next()?)?,
                job: number(next()?)?,
                count: number(next()?)?,
            },
            "mix" => Self::Mix {
                partition: number(next()?)?,
                job: number(next()?)?,
                level: number(next()?)?,
                sources: sources(next()?)?,
            },
            "strip" => {
                let (partition, job) = (number(next()?)?, number(next()?)?);
                let _seeds: u32 = number(next()?)?;
                Self::Strip { partition, job }
            }
            "commit" => Self::Commit { partition: number(next()?)?, job: number(next()?)? },
            "reached" => Self::Reached { epoch: number(next()?)?, place: number(next()?)? },
            _ => return None,
        };
        next().is_none().then_some(said)
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}

/// Items with commas between them; none of an empty word.
fn all<T>(word: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if word.is_empty() { Some(Vec::new()) } else { word.split(',').map(one).collect() }
}

fn sources(word: &str) -> Option<Vec<Named>> {
    all(word, |source| {
        let (level, job) = source.split_once('.')?;
        Some((number(level)?, number(job)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_or_more_says_nothing() {
        for name in [
            "look/7/3/1.131072.5,2.262144.0",
            "look/7/3/",
            "want/7/3/2/1",
            "recall/3/131072/",
            "carry/3/131072/1.65536/ff,0",
            "fetch/3/131072/1.65536/ff",
            "records/3/131072/9",
            "mix/3/131072/1/1.65536",
            "commit/3/131072",
            "reached/1/2",
        ] {
            assert!(Said::of(name).is_some(), "{name}");
            assert_eq!(Said::of(&format!("{name}/1")), None, "{name}");
            let (cut, _) = name.rsplit_once('/').unwrap();
            assert_eq!(Said::of(cut), None, "{cut}");
        }
        assert_eq!(Said::of("other/1"), None);
    }
}
