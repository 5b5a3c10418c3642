//! What is answered without the store: about the connection, or the server.
//!
//! By itself such a command acts when it is taken. Within a transaction it acts when that is known
//! to take place, in its place in the body; otherwise it has never been.

use super::client::Client;
use super::command::{Local, reply_of};
use super::frame::Request;
use super::reply::{Reply, encode_array_header};
use bytes::BytesMut;

/// A command of this kind in the body of a transaction.
pub struct Own {
    /// Its place in the body.
    pub place: usize,
    /// What carries it out.
    pub code: Local,
    /// Its arguments.
    pub request: Request,
}

/// Carries a command out.
pub fn local(client: &mut Client, code: Local, request: &Request) -> Reply {
    // Commands of this kind never pause.
    reply_of(code(client, request)).unwrap_or(Reply::Null)
}

/// Encodes what a transaction that takes place answers, and does what it has for the connection:
/// each reply in the version that is spoken by then. In `replies` something stands in for those
/// that `own` gives, which is in order of place. Of those, what would make all together longer than
/// a reply may be is an error.
pub fn encode_body(client: &mut Client, replies: &[Reply], own: &[Own], out: &mut BytesMut) {
    let most = out.len() + client.server.limits.output_bytes_max;
    encode_array_header(replies.len(), out);
    let mut own = own.iter().peekable();
    for (place, reply) in replies.iter().enumerate() {
        match own.next_if(|own| own.place == place) {
            None => reply.encode(client.listed.version, out),
            Some(own) => {
                let mut reply = local(client, own.code, &own.request);
                if out.len() + reply.bytes() > most {
                    reply = Reply::error("with this the reply of EXEC is too long");
                }
                reply.encode(client.listed.version, out);
            }
        }
    }
}
