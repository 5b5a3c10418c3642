//! How rows become records, and the rows of warehouses, districts, items and stock.
//!
//! A row's numbers that its key says are not in its record.

use bytes::Bytes;
use fogbank_txn::Key;

use crate::database::{Result, Statements};
use crate::record::{Fields, Reader};

/// Bytes of what a stock says about a district; an order's line takes it over.
pub(super) const INFO: usize = 24;

/// Something that one record holds.
pub(super) trait Row: Sized {
    /// What to call it in messages.
    const WHAT: &'static str;

    /// Reads it, field by field.
    fn read(fields: &mut Reader) -> Result<Self>;

    /// Writes its fields in the same order.
    fn write(&self) -> Fields;

    /// Its record.
    fn record(&self) -> Bytes {
        self.write().done()
    }

    /// Of a record that has to be there.
    fn of(record: Option<Bytes>) -> Result<Self> {
        Self::read(&mut Reader::must(record, Self::WHAT)?)
    }
}

/// Records that came back for keys, to be taken in the order of the keys.
pub(super) struct Found(std::vec::IntoIter<Option<Bytes>>);

impl From<Vec<Option<Bytes>>> for Found {
    fn from(records: Vec<Option<Bytes>>) -> Self {
        Self(records.into_iter())
    }
}

impl Found {
    /// Reads the records of `keys` in one round.
    pub async fn of(on: &dyn Statements, keys: &[Key]) -> Result<Self> {
        // Not every server takes a question about nothing.
        let records = if keys.is_empty() { Vec::new() } else { on.get_many(keys).await? };
        Ok(records.into())
    }

    /// The next record.
    pub fn record(&mut self) -> Option<Bytes> {
        self.0.next().flatten()
    }

    /// The next record, which has to be there.
    pub fn row<R: Row>(&mut self) -> Result<R> {
        R::of(self.record())
    }

    /// The next record, if it is there.
    pub fn row_if_any<R: Row>(&mut self) -> Result<Option<R>> {
        self.record().map(|record| R::of(Some(record))).transpose()
    }
}

/// The number of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(pub u32);

impl Row for Number {
    const WHAT: &'static str = "number of an order";

    fn read(fields: &mut Reader) -> Result<Self> {
        Ok(Self(fields.u32()?))
    }

    fn write(&self) -> Fields {
        Fields::new().u32(self.0)
    }
}

/// What a warehouse or a district has taken this year, in cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takings(pub i64);

impl Row for Takings {
    const WHAT: &'static str = "record of a year's takings";

    fn read(fields: &mut Reader) -> Result<Self> {
        Ok(Self(fields.i64()?))
    }

    fn write(&self) -> Fields {
        Fields::new().i64(self.0)
    }
}

/// Street, city, state and zip code, as they stand in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub street: [Bytes; 2],
    pub city: Bytes,
    pub state: Bytes,
    pub zip: Bytes,
}

impl Address {
    /// Reads it within another row.
    pub fn read(fields: &mut Reader) -> Result<Self> {
        let street = [fields.text()?, fields.text()?];
        Ok(Self { street, city: fields.text()?, state: fields.text()?, zip: fields.text()? })
    }

    /// Writes it within another row.
    pub fn write(&self, fields: Fields) -> Fields {
        let [first, second] = &self.street;
        fields.text(first).text(second).text(&self.city).text(&self.state).text(&self.zip)
    }
}

/// What nobody changes about a warehouse or a district.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    pub name: Bytes,
    pub address: Address,
    /// In parts of ten thousand.
    pub tax: u32,
}

impl Row for Site {
    const WHAT: &'static str = "warehouse or district";

    fn read(fields: &mut Reader) -> Result<Self> {
        let (name, address) = (fields.text()?, Address::read(fields)?);
        Ok(Self { name, address, tax: fields.u32()? })
    }

    fn write(&self) -> Fields {
        self.address.write(Fields::new().text(&self.name)).u32(self.tax)
    }
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub image: u32,
    pub name: Bytes,
    /// In cents.
    pub price: u32,
    pub data: Bytes,
}

impl Row for Item {
    const WHAT: &'static str = "item";

    fn read(fields: &mut Reader) -> Result<Self> {
        let (image, name) = (fields.u32()?, fields.text()?);
        Ok(Self { image, name, price: fields.u32()?, data: fields.text()? })
    }

    fn write(&self) -> Fields {
        Fields::new().u32(self.image).text(&self.name).u32(self.price).text(&self.data)
    }
}

/// What a warehouse has of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stock {
    pub quantity: u32,
    /// For each district, [`INFO`] bytes.
    pub infos: Bytes,
    /// Sold this year, in pieces.
    pub sold: u32,
    pub orders: u32,
    /// Orders of other warehouses among them.
    pub remote: u32,
    pub data: Bytes,
}

impl Stock {
    /// Takes out what an order's line asks for (clause 2.4.2.2).
    pub fn take(&mut self, quantity: u32, remote: bool) {
        let left = self.quantity.saturating_sub(quantity);
        self.quantity =
            if left >= 10 { left } else { (self.quantity + 91).saturating_sub(quantity) };
        self.sold = self.sold.saturating_add(quantity);
        self.orders = self.orders.saturating_add(1);
        self.remote = self.remote.saturating_add(remote.into());
    }

    /// What it says about a district.
    pub fn info(&self, district: u32) -> Bytes {
        let from = (district as usize).saturating_sub(1) * INFO;
        let to = (from + INFO).min(self.infos.len());
        self.infos.slice(from.min(to)..to)
    }
}

impl Row for Stock {
    const WHAT: &'static str = "stock";

    fn read(fields: &mut Reader) -> Result<Self> {
        let (quantity, infos) = (fields.u32()?, fields.text()?);
        let (sold, orders, remote) = (fields.u32()?, fields.u32()?, fields.u32()?);
        Ok(Self { quantity, infos, sold, orders, remote, data: fields.text()? })
    }

    fn write(&self) -> Fields {
        let fields = Fields::new().u32(self.quantity).text(&self.infos);
        fields.u32(self.sold).u32(self.orders).u32(self.remote).text(&self.data)
    }
}
