//! A new store of records that the caller has at hand.

use fogbank_front::resp::Filled;
use fogbank_txn::Filling;

use crate::error::{Error, Result};
use crate::fill::{Fill, Progress};
use crate::open::OpenOptions;

impl OpenOptions {
    /// Makes a new store of `records`, each key once, and closes it; how many there were. The front
    /// end may keep one as several. The cloud sees as many epochs as the capacity says, whatever
    /// they hold.
    ///
    /// # Errors
    /// [`Error::Usage`] for a record that does not fit; what making one says; otherwise by blame.
    /// What was begun is left unusable.
    pub async fn make_of(
        self,
        records: impl Iterator<Item = Result<Vec<Filled>>> + Send,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        let config = self.new_config(self.combines())?;
        let shape = config.ring_settings().shape;
        let mut filling = Filling::new(&config.proxy_settings(), shape, &self.randomness()?);
        let mut new = Fill::begin(self, &config, &[], false, 0, progress).await?;
        let mut count = 0;
        for record in records {
            for (key, value, attr) in record? {
                let blocks = filling.put(&key, &value, attr);
                let blocks = blocks.map_err(|e| Error::Usage(format!("record {count}: {e}")))?;
                new.write(blocks).await?;
            }
            count += 1;
        }
        new.finish(filling.sections()).await?;
        Ok(count)
    }
}
