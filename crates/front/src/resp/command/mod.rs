//! Commands: the table that names them, and what their code has in common.
//!
//! A command's code reads its arguments and acts on the keyspace; it runs inside a program, once
//! or several times, so it has no effect but through the keyspace. Errors in arguments are found
//! in the order in which Redis finds them, before or after the look at the key.

mod clients;
mod commands;
mod config;
mod deadlines;
mod docs;
mod hashes;
mod info;
mod keys;
mod server;
mod sorted_ranges;
mod sorted_sets;
mod strings;
mod table;

pub use table::{Action, Command, Control, Local, lookup, misfit};

use super::frame::Request;
use super::keyspace::{Halt, Keyspace, Outcome, fail};
use super::number::{Extended, parse_double, parse_integer};
use super::reply::Reply;

/// The code of a command that works on keys.
pub type Data = fn(&mut Keyspace<'_, '_>, &Request) -> Outcome;

const NOT_AN_INTEGER: &str = "value is not an integer or out of range";

fn syntax_error<T>() -> Outcome<T> {
    fail("syntax error")
}

fn wrong_arity<T>(request: &Request) -> Outcome<T> {
    let name = request.get(0).to_ascii_lowercase();
    fail([b"wrong number of arguments for '", &name[..], b"' command"].concat())
}

fn integer(request: &Request, index: usize) -> Outcome<i64> {
    match parse_integer(request.get(index)) {
        Some(value) => Ok(value),
        None => fail(NOT_AN_INTEGER),
    }
}

/// One that Redis keeps in 32 bits.
fn small_integer(request: &Request, index: usize) -> Outcome<i32> {
    i32::try_from(integer(request, index)?).map_or_else(
        |_| {
            fail(format!("value is out of range, value must between {} and {}", i32::MIN, i32::MAX))
        },
        Ok,
    )
}

fn double(text: &[u8]) -> Outcome<f64> {
    parse_double(text).map_or_else(|| fail("value is not a valid float"), Ok)
}

fn extended(text: &[u8], refusal: &str) -> Outcome<Extended> {
    Extended::parse(text).map_or_else(|| fail(refusal), Ok)
}

/// The sum of two long doubles, as text.
fn extended_sum(a: Extended, b: Extended) -> Outcome<String> {
    match a.add(b) {
        Some(sum) if !sum.is_infinite() => Ok(sum.format()),
        _ => fail("increment would produce NaN or Infinity"),
    }
}

fn integer_sum(value: i64, by: i64) -> Outcome<i64> {
    value.checked_add(by).map_or_else(|| fail("increment or decrement would overflow"), Ok)
}

/// The reply that a halted command gives, if it is one.
pub fn reply_of(outcome: Outcome) -> Result<Reply, fogbank_txn::Pause> {
    match outcome {
        Ok(reply) | Err(Halt::Reply(reply)) => Ok(reply),
        Err(Halt::Pause(pause)) => Err(pause),
    }
}
