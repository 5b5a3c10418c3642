//! A new site that is made of a backup of another: with a key, an id and a header of its own.
//!
//! All blocks go into its image (`fogbank_oram::hierarchy`), before anybody can join. After a stop
//! the same again goes on, as long as nobody could join. That is also how a key is changed: whoever
//! has the old one alone is no client of the new site.

use std::io::Read;

use fogbank_durable::BackupReader;
use fogbank_durable::shared::{Site, SiteParameters};
use fogbank_oram::hierarchy::{Take, finish_with};
use fogbank_store::DepartureGrid;

use super::{SitePlace, SiteShape, parameters_of};
use crate::backup::{blocks, unread};
use crate::error::{Error, Result};
use crate::fill::Progress;

impl SitePlace {
    /// Makes a site at `store` of what a backup holds, and this folder its first client. `open`
    /// opens the backup, as often as it is asked to.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a site or something else already, or it is no backup of a site;
    /// [`Error::CheckFailed`] if the backup does not open. Nobody can join what was not finished.
    pub async fn restore<R: Read>(
        &self,
        store: &str,
        open: impl FnMut() -> Result<BackupReader<R>> + Send,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let mut open = open;
        let shape = SiteShape::of(open()?.config()).ok_or_else(|| {
            Error::Usage("this is no backup of a site: fogbank restore makes a store of it".into())
        })?;
        let parameters = parameters_of(shape.bytes(), shape.block_bytes.into())?;
        let parameters = SiteParameters { has_image: true, ..parameters };
        let fill = async |site: Site, grid: &DepartureGrid| {
            let mut failure = None;
            let through = |take: &mut Take<'_>| {
                go_through(&mut open, shape, take).map_err(|failed| match failed {
                    Failed::Taking(error) => error,
                    Failed::Reading(error) => {
                        failure = Some(error);
                        fogbank_oram::Error::Caller("the backup cannot be read".into())
                    }
                })
            };
            let finished = finish_with(site, grid, through, &mut *progress).await;
            match (failure, finished) {
                (Some(failure), _) => Err(failure),
                (None, finished) => Ok(finished?),
            }
        };
        self.make(store, parameters, fill).await
    }
}

enum Failed {
    Reading(Error),
    Taking(fogbank_oram::Error),
}

/// Takes all blocks of a backup.
fn go_through<R: Read>(
    open: &mut impl FnMut() -> Result<BackupReader<R>>,
    shape: SiteShape,
    take: &mut Take<'_>,
) -> std::result::Result<(), Failed> {
    let mut backup = open().map_err(Failed::Reading)?;
    loop {
        let section = backup.section().map_err(unread).map_err(Failed::Reading)?;
        let Some((tag, data)) = section else { return Ok(()) };
        let blocks = blocks(shape.block_bytes as usize, tag, &data).map_err(Failed::Reading)?;
        for (address, value) in blocks {
            take(address.0, value).map_err(Failed::Taking)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytes::Bytes;
    use fogbank_oram::{Access, Address};
    use fogbank_seal::MasterKey;

    use super::*;

    const KIB: u64 = 1 << 10;

    fn opened<'a>(
        file: &'a [u8],
        key: &'a MasterKey,
    ) -> impl FnMut() -> Result<BackupReader<&'a [u8]>> + Send {
        move || BackupReader::open(file, key).map_err(unread)
    }

    fn content(block: u32) -> Bytes {
        vec![block as u8 + 1; 512].into()
    }

    async fn holds(place: &SitePlace) {
        let disk = place.open().await.unwrap();
        for block in 0..64 {
            let read = disk.engine().submit(Address(block), Access::Read).await.unwrap();
            let expected =
                if block.is_multiple_of(3) { content(block) } else { vec![0; 512].into() };
            assert_eq!(read, expected, "{block}");
        }
        disk.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_site_goes_to_a_file_and_another_one_is_made_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let url = |name: &str| format!("file://{}", at(name).display());
        let place = |name: &str| SitePlace::new(&at(name));
        let key = |place: &SitePlace| place.master();
        let old = place("old");
        old.create(&url("old-cloud"), 32 * KIB, 512).await.unwrap();
        let disk = old.open().await.unwrap();
        for block in (0..64).step_by(3) {
            let access = Access::Write { offset: 0, bytes: content(block) };
            disk.engine().submit(Address(block), access).await.unwrap();
            disk.engine().submit(Address((block + 1) % 64), Access::Read).await.unwrap();
        }
        disk.close().await.unwrap();
        assert_eq!(old.verify(&mut |_, _| {}).await.unwrap(), 22);
        let (file, blocks) = old.back_up(Vec::new(), &mut |_, _| {}).await.unwrap();
        assert_eq!(blocks, 22);
        // It takes the old key, and all of the file; what was begun is no site meanwhile.
        let (old_key, new) = (key(&old).unwrap(), place("new"));
        let none = MasterKey::from_bytes(&mut [9; 32]);
        let cut = &file[..file.len() - 30];
        for (file, key) in [(&file[..], &none), (cut, &old_key)] {
            let restored = new.restore(&url("new-cloud"), opened(file, key), &mut |_, _| {}).await;
            let error = restored.unwrap_err();
            assert!(matches!(error, Error::CheckFailed(_)), "{error}");
            assert!(new.open().await.is_err());
        }
        new.restore(&url("new-cloud"), opened(&file, &old_key), &mut |_, _| {}).await.unwrap();
        holds(&new).await;
        holds(&old).await;
        let again = new.restore(&url("new-cloud"), opened(&file, &old_key), &mut |_, _| {}).await;
        assert!(matches!(again, Err(Error::Usage(_))), "{again:?}");
        // Who has the old key alone is no client of the new site.
        let (of_old, of_new) = (old.status().await.unwrap(), new.status().await.unwrap());
        assert!(of_old.id != of_new.id);
        for id in [&of_old.id, &of_new.id] {
            let joined = place("lost")
                .join(&url("new-cloud"), &old.master().unwrap(), id)
                .await
                .unwrap_err();
            assert!(matches!(joined, Error::Usage(_)), "{joined}");
        }
        place("other").join(&url("new-cloud"), &new.master().unwrap(), &of_new.id).await.unwrap();
        holds(&place("other")).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_of_a_store_makes_no_site() {
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::from_bytes(&mut [9; 32]);
        let random = crate::site::randomness().unwrap();
        let writer =
            fogbank_durable::BackupWriter::begin(Vec::new(), &key, b"{}", &random).unwrap();
        let file = writer.finish().unwrap();
        let place = SitePlace::new(Path::new(folder.path()));
        let url = format!("file://{}", folder.path().join("cloud").display());
        let refused = place.restore(&url, opened(&file, &key), &mut |_, _| {}).await;
        assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
        assert!(!place.is_there());
    }
}
