//! A book whose pages one program rewrites all, over several epochs, and what has to be true of
//! them after any stop.
//!
//! The pages of one edition are other records than those of the next, which deletes them; or all
//! editions are the same records, which each gives another attribute and no other value.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_txn::{Error, Key, KeyRange, Pause, Proxy, View};

/// Pages of an edition: more than twice what an epoch of the small shape writes.
const PAGES: u64 = 20;
/// The same of attributes alone, of which an epoch takes three where it takes a page, and half of
/// that while others write.
const MARKED_PAGES: u64 = 28;

/// How an edition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printing {
    /// By one program.
    Whole,
    /// By two, one after the other. The canary.
    InHalves,
    /// By one that gives all pages another attribute; the first edition as a whole.
    Marked,
    /// The same by two. The canary.
    MarkedInHalves,
}

impl Printing {
    fn pages(self) -> u64 {
        if self.marks() { MARKED_PAGES } else { PAGES }
    }

    fn marks(self) -> bool {
        matches!(self, Self::Marked | Self::MarkedInHalves)
    }

    /// The pages of each program that prints `edition`.
    fn parts(self, edition: u64) -> Vec<(u64, u64)> {
        let (pages, half) = (self.pages(), self.pages() / 2);
        match self {
            Self::Whole | Self::Marked => vec![(0, pages)],
            Self::MarkedInHalves if edition == 1 => vec![(0, pages)],
            Self::InHalves | Self::MarkedInHalves => vec![(0, half), (half, pages)],
        }
    }

    /// The edition whose text stands on the pages of `edition`.
    fn text_of(self, edition: u64) -> u64 {
        if self.marks() { 1 } else { edition }
    }
}

/// What its writer was told, over all lives.
#[derive(Debug, Clone)]
pub(super) struct Book {
    printing: Printing,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    begun: u64,
    acknowledged: u64,
}

impl Book {
    /// One that has no edition yet.
    pub fn new(printing: Printing) -> Self {
        Self { printing, told: Arc::default() }
    }

    /// The number of the last edition that was acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.told.lock().acknowledged
    }

    /// Writes editions until the proxy stops.
    pub async fn write(self, proxy: Proxy) {
        let session = proxy.session();
        loop {
            let edition = {
                let mut told = self.told.lock();
                told.begun += 1;
                told.begun
            };
            let marks = self.printing.marks();
            for (from, to) in self.printing.parts(edition) {
                let written = session.submit(move |view: &mut View<'_>| match marks {
                    true => mark(view, edition, from, to),
                    false => print(view, edition, from, to),
                });
                match written.await {
                    Ok(()) => {}
                    Err(Error::Stopped(_) | Error::Closed) => return,
                    Err(other) => panic!("an edition is refused: {other}"),
                }
            }
            self.told.lock().acknowledged = edition;
        }
    }

    /// Holds the pages against what the writer was told.
    ///
    /// # Errors
    /// What is not as it has to be, in words.
    pub async fn check(&self, proxy: &Proxy) -> Result<(), String> {
        let (begun, acknowledged) = {
            let told = self.told.lock();
            (told.begun, told.acknowledged)
        };
        let session = proxy.session();
        let pages =
            session.submit(pages).await.map_err(|e| format!("cannot read the book: {e}"))?;
        let Some((_, edition, _)) = pages.first() else {
            return match acknowledged {
                0 => Ok(()),
                lost => Err(format!("edition {lost} was acknowledged and is lost")),
            };
        };
        if !(acknowledged..=begun).contains(edition) {
            return Err(format!("edition {edition} is there, {acknowledged} was acknowledged"));
        }
        let printed = self.printing.text_of(*edition);
        let page = |page| (page, *edition, text(printed, page));
        let whole: Vec<_> = (0..self.printing.pages()).map(page).collect();
        if pages != whole {
            let seen: Vec<_> = pages.iter().map(|(page, edition, _)| (page, edition)).collect();
            return Err(format!("the book is torn: {seen:?}"));
        }
        Ok(())
    }
}

/// Page, edition and text of every page that there is, the pages in order.
type Pages = Vec<(u64, u64, Bytes)>;

fn print(view: &mut View<'_>, edition: u64, from: u64, to: u64) -> Result<(), Pause> {
    for (key, stat) in view.scan(&book(), usize::MAX, false)? {
        if (from..to).contains(&page_of(&key)) && stat.attr != edition {
            view.delete(&key)?;
        }
    }
    (from..to).try_for_each(|page| view.put(&key(edition, page), text(edition, page), edition))
}

/// Of a page that is not there yet, its text, too.
fn mark(view: &mut View<'_>, edition: u64, from: u64, to: u64) -> Result<(), Pause> {
    (from..to).try_for_each(|page| match view.set_attr(&key(1, page), edition)? {
        true => Ok(()),
        false => view.put(&key(1, page), text(1, page), edition),
    })
}

fn pages(view: &mut View<'_>) -> Result<Pages, Pause> {
    let found = view.scan(&book(), usize::MAX, false)?;
    let keys: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
    let records = view.get_many(&keys)?;
    let page = |(key, record): (&Key, Option<fogbank_txn::Record>)| {
        record.map(|record| (page_of(key), record.attr, record.value))
    };
    let mut pages: Pages = keys.iter().zip(records).filter_map(page).collect();
    pages.sort_unstable();
    Ok(pages)
}

fn book() -> KeyRange {
    KeyRange::group(b"book")
}

fn key(edition: u64, page: u64) -> Key {
    Key::new(b"book", format!("{} {page}", edition % 2).as_bytes())
}

fn page_of(key: &Key) -> u64 {
    let name = String::from_utf8_lossy(key.member()).into_owned();
    name.split(' ').next_back().and_then(|page| page.parse().ok()).unwrap_or(u64::MAX)
}

fn text(edition: u64, page: u64) -> Bytes {
    Bytes::from(format!("{edition} of {page}"))
}
