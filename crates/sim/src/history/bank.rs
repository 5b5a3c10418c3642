//! The bank: transfers move money between accounts, so every snapshot of all accounts has the same
//! sum, and no snapshot shows half a transfer.

use std::fmt;

use super::Nanos;

/// All balances as one transaction saw them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Which client read it.
    pub client: u32,
    /// When it was asked for.
    pub started: Nanos,
    /// The balances; an absent account holds nothing.
    pub balances: Vec<i64>,
}

/// A snapshot that no order of whole transfers explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Which snapshot.
    pub at: usize,
    /// Its sum.
    pub total: i64,
    /// What the sum should be.
    pub expected: i64,
    /// An account below zero, which transfers never leave behind.
    pub overdrawn: Option<usize>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot {} sums to {}, not {}", self.at, self.total, self.expected)?;
        match self.overdrawn {
            Some(account) => write!(f, "; account {account} is below zero"),
            None => Ok(()),
        }
    }
}

/// The snapshots that are wrong, given the total that the bank was opened with.
pub fn check(expected: i64, snapshots: &[Snapshot]) -> Vec<Wrong> {
    let wrong = snapshots.iter().enumerate().filter_map(|(at, snapshot)| {
        let total = snapshot.balances.iter().sum();
        let overdrawn = snapshot.balances.iter().position(|balance| *balance < 0);
        let right = total == expected && overdrawn.is_none();
        (!right).then_some(Wrong { at, total, expected, overdrawn })
    });
    wrong.collect()
}
