//! Where a server is and how it and its client know each other, in one line that is a secret:
//!
//! ```text
//! register://HOST:PORT/TOKEN?pin=PIN        token and pin: 64 hexadecimal digits each
//! ```

use fogbank_tls::{Pin, Token};
use zeroize::Zeroizing;

/// All that a client has to know of a server.
#[derive(Debug, Clone)]
pub struct PeerAddress {
    /// `HOST:PORT`.
    pub place: String,
    /// What to show it.
    pub token: Token,
    /// Its certificate.
    pub pin: Pin,
}

/// Why a list of servers cannot be used. Names lines and not what stands in them: tokens do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// A line is no address.
    #[error(
        "line {0} is not register://HOST:PORT/TOKEN?pin=PIN; copy it from the server's file \
         `address`"
    )]
    Line(usize),
    /// Two lines name one server.
    #[error("line {0} names a server a second time: a majority has to be of different ones")]
    Twice(usize),
    /// No majority can be had of so many.
    #[error("it names {0} servers; give an odd number, 3 or more: one a line")]
    Count(usize),
}

impl PeerAddress {
    /// Reads one line; `None` if it is no address.
    pub fn parse(line: &str) -> Option<Self> {
        let (place, rest) = line.strip_prefix("register://")?.split_once('/')?;
        let (token, pin) = rest.split_once("?pin=")?;
        let (host, port) = place.rsplit_once(':')?;
        let whole = !host.is_empty() && port.parse::<u16>().is_ok();
        let (token, pin) = (Token::parse(token)?, Pin::parse(pin)?);
        whole.then(|| Self { place: place.to_owned(), token, pin })
    }

    /// The line: a secret.
    pub fn line(&self) -> Zeroizing<String> {
        let token = self.token.digits();
        Zeroizing::new(format!("register://{}/{}?pin={}", self.place, *token, self.pin))
    }
}

/// Reads a list of servers, one a line; empty lines and those that begin with `#` do not count.
///
/// # Errors
/// [`AddressError`] if it is not an odd number of different servers, three or more.
pub fn parse_list(text: &str) -> Result<Vec<PeerAddress>, AddressError> {
    let mut found: Vec<PeerAddress> = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let address = PeerAddress::parse(line).ok_or(AddressError::Line(number))?;
        if found.iter().any(|one| one.pin == address.pin || one.place == address.place) {
            return Err(AddressError::Twice(number));
        }
        found.push(address);
    }
    match found.len() {
        few @ 0..3 => Err(AddressError::Count(few)),
        even if even % 2 == 0 => Err(AddressError::Count(even)),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(host: &str, server: u8) -> String {
        let token = Token::from_bytes([7; 32]);
        PeerAddress { place: format!("{host}:7"), token, pin: Pin([server; 32]) }.line().to_string()
    }

    #[test]
    fn a_line_says_all_and_debug_output_does_not() {
        for host in ["a.example", "127.0.0.1", "[::1]"] {
            let read = PeerAddress::parse(&line(host, 9)).unwrap();
            assert_eq!(*read.line(), line(host, 9));
            assert!(!format!("{read:?}").contains("0707"));
        }
        let good = line("a", 1);
        for at in 0..good.len() {
            assert!(PeerAddress::parse(&good[..at]).is_none(), "{at}");
        }
        for bad in ["", "register://a:7", "http://a:7/x?pin=y", &good.replace(":7", ":70000")] {
            assert!(PeerAddress::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_list_is_an_odd_number_of_different_servers() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|server| line(&format!("host{server}"), server));
        let error = |lines: &[&String]| {
            parse_list(&lines.iter().map(|l| format!("{l}\n")).collect::<String>()).err()
        };
        assert_eq!(error(&[&a, &String::new(), &"# c".into(), &b, &c]), None);
        assert_eq!(error(&[]), Some(AddressError::Count(0)));
        assert_eq!(error(&[&a]), Some(AddressError::Count(1)));
        assert_eq!(error(&[&a, &b, &c, &d]), Some(AddressError::Count(4)));
        assert_eq!(error(&[&a, &b, &line("host2", 9)]), Some(AddressError::Twice(3)));
        assert_eq!(error(&[&a, &line("other", 1), &c]), Some(AddressError::Twice(2)));
        assert_eq!(error(&[&a, &"what".into(), &c]), Some(AddressError::Line(2)));
    }
}
