//! Customers, how they are found, and what they have paid.
//!
//! A transaction names its customer by number or by last name. Of those who share a last name,
//! sorted by first name, it means the one in the middle (clause 2.5.2.2).

use bytes::Bytes;
use fogbank_txn::Key;

use super::keys::{self, Place};
use super::rows::{Address, Row};
use crate::database::{Error, Result};
use crate::record::{Fields, Reader};

/// Bytes that a customer's data may have.
const DATA: usize = 500;

/// Whom a transaction is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// The customer with this number.
    Number(u32),
    /// One of those with the last name of this number.
    Name(u32),
}

impl Who {
    /// The record by which the customer is found: that of the customer, if the number is known.
    pub fn key(self, at: Place) -> Key {
        match self {
            Self::Number(number) => keys::customer(at, number),
            Self::Name(name) => keys::customers_by_name(at, name),
        }
    }
}

/// Numbers of the customers who share a last name, sorted by their first names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Namesakes(pub Vec<u32>);

impl Namesakes {
    /// The one who is meant by the name.
    pub fn middle(&self) -> Result<u32> {
        let at = self.0.len().saturating_sub(1) / 2;
        self.0.get(at).copied().ok_or_else(|| Error::broken("nobody has a last name that is kept"))
    }
}

impl Row for Namesakes {
    const WHAT: &'static str = "customer of that name";

    fn read(fields: &mut Reader) -> Result<Self> {
        Ok(Self(fields.list()?))
    }

    fn write(&self) -> Fields {
        Fields::new().list(&self.0)
    }
}

/// A customer; money in cents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Customer {
    pub first: Bytes,
    pub middle: Bytes,
    pub last: Bytes,
    pub address: Address,
    pub phone: Bytes,
    pub since: i64,
    pub credit: Bytes,
    pub limit: i64,
    /// In parts of ten thousand.
    pub discount: u32,
    pub balance: i64,
    pub paid: i64,
    pub payments: u32,
    pub deliveries: u32,
    pub data: Bytes,
}

impl Customer {
    /// Credit of those whose payments are noted in their data.
    pub const BAD: &'static [u8] = b"BC";

    /// A payment of `amount`, in cents; `note` goes before the data of those with bad credit, which
    /// then lose as much at the end.
    pub fn pay(&mut self, amount: i64, note: &str) {
        self.balance -= amount;
        self.paid += amount;
        self.payments = self.payments.saturating_add(1);
        if self.credit == Self::BAD {
            let mut data = [note.as_bytes(), &self.data].concat();
            data.truncate(DATA);
            self.data = data.into();
        }
    }

    /// A delivery of goods for `amount`, in cents.
    pub fn receive(&mut self, amount: i64) {
        self.balance += amount;
        self.deliveries = self.deliveries.saturating_add(1);
    }
}

impl Row for Customer {
    const WHAT: &'static str = "customer";

    fn read(fields: &mut Reader) -> Result<Self> {
        let (first, middle, last) = (fields.text()?, fields.text()?, fields.text()?);
        let (address, phone) = (Address::read(fields)?, fields.text()?);
        Ok(Self {
            first,
            middle,
            last,
            address,
            phone,
            since: fields.i64()?,
            credit: fields.text()?,
            limit: fields.i64()?,
            discount: fields.u32()?,
            balance: fields.i64()?,
            paid: fields.i64()?,
            payments: fields.u32()?,
            deliveries: fields.u32()?,
            data: fields.text()?,
        })
    }

    fn write(&self) -> Fields {
        let name = Fields::new().text(&self.first).text(&self.middle).text(&self.last);
        let fields = self.address.write(name).text(&self.phone).i64(self.since);
        let fields = fields.text(&self.credit).i64(self.limit).u32(self.discount);
        let fields = fields.i64(self.balance).i64(self.paid);
        fields.u32(self.payments).u32(self.deliveries).text(&self.data)
    }
}

/// The record of a payment of `amount` cents at `at`. It is kept and never read.
pub(super) fn history(at: Place, date: i64, amount: i64, data: &[u8]) -> Bytes {
    let fields = Fields::new().u32(at.warehouse).u32(at.district);
    fields.i64(date).i64(amount).text(data).done()
}
