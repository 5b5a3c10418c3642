//! Two ordered sequences of keys gone through as one.

use std::cmp::Ordering;
use std::iter::Peekable;

use crate::key::Key;

/// Keys with what they stand for, in key order or against it.
pub(crate) type Ordered<'a, T> = Box<dyn Iterator<Item = (&'a Key, T)> + 'a>;

/// Each key of either sequence once, with what the first and the second have of it.
pub(crate) struct Merge<'a, A, B> {
    first: Peekable<Ordered<'a, A>>,
    second: Peekable<Ordered<'a, B>>,
    reverse: bool,
}

impl<'a, A, B> Merge<'a, A, B> {
    /// Both are in key order or, if it is `reverse`, against it.
    pub(crate) fn new(first: Ordered<'a, A>, second: Ordered<'a, B>, reverse: bool) -> Self {
        Self { first: first.peekable(), second: second.peekable(), reverse }
    }
}

impl<'a, A, B> Iterator for Merge<'a, A, B> {
    type Item = (&'a Key, Option<A>, Option<B>);

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.first.peek(), self.second.peek()) {
            (Some((a, _)), Some((b, _))) if self.reverse => b.cmp(a),
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let first = if order == Ordering::Greater { None } else { self.first.next() };
        let second = if order == Ordering::Less { None } else { self.second.next() };
        let key = first.as_ref().map(|(key, _)| *key).or(second.as_ref().map(|(key, _)| *key))?;
        Some((key, first.map(|(_, of)| of), second.map(|(_, of)| of)))
    }
}
