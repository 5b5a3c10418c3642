//! Checkpoints of an engine that cuts: written beside further records of the journal, then adopted.

use fogbank_store::trace::Condition;

use super::{COMMIT, Chain, Kept, Place, Put, Step, record_name};

impl Chain {
    /// The accesses of the record of so many bytes that is about to be put.
    pub fn accesses_of(&self, bytes: u64) -> Step<u32> {
        match self.parts {
            Some(parts) => self.accesses(parts, bytes),
            None => Ok(0),
        }
    }

    /// The name of the next record.
    pub fn next_record(&self) -> String {
        record_name(self.epoch() + 1, self.end())
    }

    /// A checkpoint holds everything that is journalled so far.
    pub fn cut(&mut self) {
        self.cut = self.end();
    }

    /// A piece of it is put.
    pub fn cut_piece(
        &mut self,
        piece: u32,
        (name, kept, condition): (&str, Kept, &Condition),
    ) -> Step {
        self.put_piece((piece, true), name, kept, condition)
    }

    /// The commit that adopts it, or that closes the store.
    pub fn cut_commit(&mut self, closes: bool, kept: Kept, condition: &Condition) -> Step {
        self.put_commit(if closes { Put::Close } else { Put::Adopt(self.cut) }, kept, condition)
    }

    /// What is being put under this name.
    pub fn putting(&self, name: &str) -> Option<Kept> {
        match name {
            COMMIT => self.putting.as_ref().map(|record| record.kept),
            name => self.blobs.get(name).map(|blob| blob.kept),
        }
    }

    /// A record or piece is durable.
    pub fn landed(&mut self, name: &str) {
        self.blobs.landed(name);
    }

    /// The commit is durable. Returns the names of what it superseded.
    pub fn committed(&mut self, closes: bool) -> Vec<String> {
        self.settle();
        self.up = !closes;
        std::mem::take(&mut self.superseded)
    }

    /// A deletion of blobs leaves.
    pub fn deletes(&mut self, names: &[String]) {
        self.blobs.delete(names);
    }

    /// It has ended.
    pub fn deleted(&mut self, names: &[String]) {
        names.iter().for_each(|name| self.blobs.forget(name));
    }

    /// What an opening has found in the journal that its checkpoint does not hold: by epoch and
    /// place, records of accesses only.
    pub fn journalled(&self) -> Vec<String> {
        let open = (self.start()..).zip(&self.places).filter(|(_, of)| **of == Place::Batch);
        open.map(|(place, _)| record_name(self.epoch() + 1, place)).collect()
    }
}
