//! Words for whoever typed a command, who may have gone: `fogbank plan | head -n 3` reads three
//! lines, and a terminal can be closed under a server. `println!` and `eprintln!` panic then, and
//! the panic takes down a store that was to be closed.

use std::fmt::Arguments;
use std::io::Write;

/// As `println!`, except that nobody need be there to read it.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::to_output(format_args!($($words)*)) };
}

/// As `eprintln!`, except that nobody need be there to read it.
#[macro_export]
macro_rules! say_error {
    ($($words:tt)*) => { $crate::to_error(format_args!($($words)*)) };
}

/// What [`say!`] does.
pub fn to_output(words: Arguments<'_>) {
    let _hung_up = writeln!(std::io::stdout(), "{words}");
}

/// What [`say_error!`] does.
pub fn to_error(words: Arguments<'_>) {
    let _hung_up = writeln!(std::io::stderr(), "{words}");
}
