//! Orders and their lines.
//!
//! All lines of an order are one record: they are made together and delivered together. So the date
//! of delivery is there once and not in every line; with it in each, fifteen lines would need some
//! of their texts cut to fit into 690 bytes.

use bytes::Bytes;

use super::keys::Place;
use super::rows::Row;
use crate::database::Result;
use crate::record::{Fields, Reader};

/// Lines that an order has at least.
pub(super) const FEWEST: u32 = 5;
/// Lines that an order has at most.
pub(super) const MOST: u32 = 15;

/// An order without its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub customer: u32,
    pub entered: i64,
    /// Who delivers it; 0 before.
    pub carrier: u32,
    pub lines: u32,
    /// Whether all of it is from its own warehouse.
    pub local: bool,
}

impl Row for Order {
    const WHAT: &'static str = "order";

    fn read(fields: &mut Reader) -> Result<Self> {
        let (customer, entered) = (fields.u32()?, fields.i64()?);
        let (carrier, lines, local) = (fields.u32()?, fields.u32()?, fields.u32()? == 1);
        Ok(Self { customer, entered, carrier, lines, local })
    }

    fn write(&self) -> Fields {
        let fields = Fields::new().u32(self.customer).i64(self.entered);
        fields.u32(self.carrier).u32(self.lines).u32(self.local.into())
    }
}

/// The lines of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lines {
    /// 0 before they are delivered.
    pub delivered: i64,
    pub lines: Vec<Line>,
}

impl Lines {
    /// What all of them cost, in cents.
    pub fn amount(&self) -> i64 {
        self.lines.iter().map(|line| i64::from(line.amount)).sum()
    }
}

/// A line of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub item: u32,
    /// The warehouse that it comes from.
    pub supply: u32,
    pub quantity: u32,
    /// In cents.
    pub amount: u32,
    pub info: Bytes,
}

impl Row for Lines {
    const WHAT: &'static str = "record of an order's lines";

    fn read(fields: &mut Reader) -> Result<Self> {
        let (delivered, count) = (fields.i64()?, fields.u32()?);
        let lines = (0..count).map(|_| Line::read(fields)).collect::<Result<_>>()?;
        Ok(Self { delivered, lines })
    }

    fn write(&self) -> Fields {
        let fields = Fields::new().i64(self.delivered).u32(self.lines.len() as u32);
        self.lines.iter().fold(fields, |fields, line| line.write(fields))
    }
}

impl Line {
    fn read(fields: &mut Reader) -> Result<Self> {
        let (item, supply) = (fields.u32()?, fields.u32()?);
        let (quantity, amount) = (fields.u32()?, fields.u32()?);
        Ok(Self { item, supply, quantity, amount, info: fields.text()? })
    }

    fn write(&self, fields: Fields) -> Fields {
        let fields = fields.u32(self.item).u32(self.supply);
        fields.u32(self.quantity).u32(self.amount).text(&self.info)
    }
}

/// The record that an order is not delivered yet. What it says is in its key as well; the
/// specification's row is as large.
pub(super) fn undelivered(at: Place, order: u32) -> Bytes {
    Fields::new().u32(at.district).u32(order).done()
}
