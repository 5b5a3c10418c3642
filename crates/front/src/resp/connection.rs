//! One connection: requests in, replies out, in order.
//!
//! 1. Bytes arrive; every complete request is taken off them at once.
//! 2. A command on keys becomes a program, submitted right away, so all that a client pipelines
//!    can share an epoch. Any other is answered on the spot. Either way it takes its place in the
//!    queue of replies.
//! 3. Replies leave from the front of that queue as their epochs end, many in one write.
//! 4. What `EXEC` is to do about the connection itself (`HELLO`, `CLIENT SETNAME`) is done when the
//!    transaction is known to take place, in its place among the replies. No request behind such an
//!    `EXEC` is taken before: how it is answered depends on that.
//!
//! Invariants: replies are in the order of requests; of a transaction that does not take place
//! nothing is done, to the connection neither; reading goes on while replies wait to be
//! written (a client may send all before it reads any), up to the limits, its own and that of all
//! connections together, and always if none of its own waits; who has not given the password has
//! no reply waiting; after malformed input nothing more of this connection is executed, and no
//! other connection notices.
//!
//! Who watches the network between client and proxy sees replies leave when epochs end. That side
//! is trusted; the cloud's side sees nothing of a connection at all.

use super::client::{Client, Server};
use super::command::{Action, Command, Control, lookup, misfit};
use super::frame::{Decoder, ProtocolError, Request};
use super::own::{Own, encode_body, local};
use super::program::{Queued, Slot, Task, Work};
use super::refusal::refusal;
use super::reply::{Reply, Version};
use super::unfinished::Unfinished;
use super::untaken::{Answered, Untaken};
use super::watcher::{tell, timed};
use bytes::{Buf, BytesMut};
use fogbank_txn::{Error, Session};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;

/// Room made for input at a time.
const READ_BYTES: usize = 32 * 1024;
/// Bytes that are encoded before they are written, but for the end of the last reply. What a client
/// does not take stays as it came from its program, which costs no copy.
const AHEAD_BYTES: usize = 64 * 1024;
/// Bytes handed to the system at a time: it does not let go of the core meanwhile.
const WRITE_BYTES: usize = 64 * 1024;

/// The state of one connection.
pub struct Connection {
    client: Client,
    session: Session,
    decoder: Decoder,
    input: BytesMut,
    output: BytesMut,
    replies: VecDeque<Awaited>,
    /// What the replies hold that wait to be encoded.
    untaken: Arc<Untaken>,
    /// Bytes of the requests whose replies are awaited, and of the replies that wait behind them.
    waiting_bytes: usize,
    transaction: Option<Transaction>,
    unfinished: Unfinished,
    watched: Vec<Slot>,
    watched_keys: usize,
    /// An `EXEC` is awaited that may change how the next requests are taken and answered.
    undecided: bool,
    /// There was no room for a request that may be there already.
    held_back: bool,
    /// No more requests are taken; what was accepted is answered.
    closing: bool,
}

/// A reply's place in the queue, and the version to write it in.
struct Awaited {
    version: Version,
    bytes: usize,
    answer: Answer,
}

enum Answer {
    /// Encoded already: what it takes is known, and counted.
    Ready(BytesMut),
    /// On its way; of a transaction with what the connection is to do if it takes place.
    Running(Running, Vec<Own>),
}

type Running = Pin<Box<dyn Future<Output = Result<Answered, Error>> + Send>>;

/// What has been queued since `MULTI`.
#[derive(Default)]
struct Transaction {
    commands: Vec<(&'static Command, Request)>,
    bytes: usize,
    /// A command was refused: `EXEC` will be, too.
    broken: bool,
}

impl Connection {
    /// A connection from `address`.
    pub fn new(server: Arc<Server>, session: Session, address: String) -> Self {
        Self {
            decoder: Decoder::new(server.limits.clone()),
            untaken: Untaken::new(server.limits.output_bytes_max),
            unfinished: Unfinished::new(server.unfinished.clone()),
            client: Client::new(server, address),
            session,
            input: BytesMut::new(),
            output: BytesMut::new(),
            replies: VecDeque::new(),
            waiting_bytes: 0,
            transaction: None,
            watched: Vec::new(),
            watched_keys: 0,
            undecided: false,
            held_back: false,
            closing: false,
        }
    }

    /// Serves the stream until either side ends it. `stopping` turns true when the server stops:
    /// what was accepted is then answered first.
    pub async fn run<S>(
        mut self,
        mut stream: S,
        mut stopping: watch::Receiver<bool>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stop = Box::pin(async move {
            // A sender that is gone stops us as well.
            let _stopped = stopping.wait_for(|stopping| *stopping).await;
        });
        let mut stopped = false;
        loop {
            self.take_requests();
            self.count_unfinished();
            let done = poll_fn(|context| {
                if !stopped && stop.as_mut().poll(context).is_ready() {
                    stopped = true;
                    self.closing = true;
                }
                self.poll(&mut stream, context)
            })
            .await?;
            if done {
                return Ok(());
            }
        }
    }

    /// Moves bytes and replies; ready when there is something to parse, or (`true`) at the end.
    fn poll<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<io::Result<bool>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let written = loop {
            let all_encoded = self.poll_replies(context);
            let written = self.poll_write(stream, context)?;
            if all_encoded || !written {
                break written;
            }
        };
        if self.closing {
            let all_answered = self.replies.is_empty() && written;
            return if all_answered { Poll::Ready(Ok(true)) } else { Poll::Pending };
        }
        if self.takes_none() {
            return Poll::Pending; // the replies awaited wake this task
        }
        if self.held_back {
            return Poll::Ready(Ok(false)); // before the end of the input is noticed
        }
        match self.poll_read(stream, context)? {
            Poll::Ready(0) => {
                self.closing = true;
                Poll::Ready(Ok(false))
            }
            Poll::Ready(_) => Poll::Ready(Ok(false)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether requests stay where they are for now.
    fn takes_none(&self) -> bool {
        let limits = &self.client.server.limits;
        let all = self.client.server.waiting_bytes.load(Ordering::Relaxed);
        self.undecided
            || (!self.client.authenticated && !self.replies.is_empty())
            || self.replies.len() >= limits.pipeline_max
            || self.waiting_bytes >= limits.queued_bytes_max
            || (self.waiting_bytes > 0 && all >= limits.waiting_bytes_max)
    }

    /// Bytes of a command begin to wait.
    fn wait_for(&mut self, bytes: usize) {
        self.waiting_bytes += bytes;
        self.client.server.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of a command wait no more.
    fn release(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
        self.client.server.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn poll_read<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> io::Result<Poll<usize>>
    where
        S: AsyncRead + Unpin,
    {
        if self.input.capacity() - self.input.len() < READ_BYTES / 4 {
            self.input.reserve(READ_BYTES);
        }
        match pin!(stream.read_buf(&mut self.input)).poll(context) {
            Poll::Ready(read) => Ok(Poll::Ready(read?)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Writes what is there; whether all of it has left.
    fn poll_write<S>(&mut self, stream: &mut S, context: &mut Context<'_>) -> io::Result<bool>
    where
        S: AsyncWrite + Unpin,
    {
        while !self.output.is_empty() {
            let next = &self.output[..self.output.len().min(WRITE_BYTES)];
            match Pin::new(&mut *stream).poll_write(context, next) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.output.advance(written?),
            }
        }
        match Pin::new(stream).poll_flush(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(flushed) => flushed.map(|()| true),
        }
    }

    /// Encodes the replies that are there, in order, up to the first that is not; `false` if enough
    /// waits to be written before that.
    fn poll_replies(&mut self, context: &mut Context<'_>) -> bool {
        while self.output.len() < AHEAD_BYTES {
            let Some(awaited) = self.replies.front_mut() else { return true };
            match &mut awaited.answer {
                Answer::Ready(reply) => self.output.extend_from_slice(reply),
                Answer::Running(running, own) => {
                    let Poll::Ready(outcome) = running.as_mut().poll(context) else { return true };
                    match outcome.as_ref().map(Answered::reply) {
                        // It takes place: `EXEC` answers an array then, and never otherwise.
                        Ok(Reply::Array(replies)) if !own.is_empty() => {
                            encode_body(&mut self.client, replies, own, &mut self.output);
                        }
                        Ok(reply) => reply.encode(awaited.version, &mut self.output),
                        Err(error) => {
                            let advisor = self.client.server.bounds.advisor();
                            refusal(error, advisor).encode(awaited.version, &mut self.output);
                        }
                    }
                    self.undecided &= own.is_empty();
                }
            }
            let bytes = awaited.bytes;
            self.replies.pop_front();
            self.release(bytes);
        }
        false
    }

    /// Takes every complete request off the input.
    fn take_requests(&mut self) {
        self.held_back = false;
        while !self.closing {
            if self.takes_none() {
                self.held_back = true;
                return;
            }
            match self.decoder.next(&mut self.input, self.client.authenticated) {
                Ok(Some(request)) => self.accept(request),
                Ok(None) => return,
                Err(error) => return self.end_malformed(&error),
            }
        }
    }

    fn end_malformed(&mut self, error: &ProtocolError) {
        self.answer(Reply::error(error.to_string()));
        self.closing = true;
    }

    /// What is left of the input waits for its end, or for room.
    fn count_unfinished(&mut self) {
        let limit = self.client.server.limits.unfinished_bytes_max;
        let queued = self.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
        if self.unfinished.keeps(self.input.len() + queued, limit) || self.closing {
            return;
        }
        self.discard();
        self.input = BytesMut::new();
        self.unfinished.keeps(0, limit);
        self.answer(Reply::error(format!(
            "requests of all clients that are not complete, and those queued since MULTI, take \
             {limit} bytes at most: send shorter ones, or try again later"
        )));
        self.closing = true;
    }

    /// Gives a reply its place.
    fn answer(&mut self, reply: Reply) {
        let version = self.client.listed.version;
        if self.replies.is_empty() && self.output.len() < AHEAD_BYTES {
            return reply.encode(version, &mut self.output);
        }
        let mut encoded = BytesMut::new();
        reply.encode(version, &mut encoded);
        let bytes = encoded.len();
        self.wait_for(bytes);
        self.replies.push_back(Awaited { version, bytes, answer: Answer::Ready(encoded) });
    }

    fn submit(&mut self, task: Task, bytes: usize, own: Vec<Own>) {
        let version = self.client.listed.version;
        let work = Work::new(task, self.client.server.bounds.clone(), self.untaken.clone());
        let answer = self.session.submit(work);
        let server = &self.client.server;
        let running = match &server.watcher {
            Some(watcher) => timed(watcher.clone(), server.clock.clone(), answer),
            None => Box::pin(answer),
        };
        self.wait_for(bytes);
        self.undecided |= !own.is_empty();
        self.replies.push_back(Awaited { version, bytes, answer: Answer::Running(running, own) });
    }

    /// Takes one request: refuses, queues or carries it out.
    fn accept(&mut self, request: Request) {
        if request.is(0, "host:") || request.is(0, "post") {
            self.closing = true; // a browser that was talked into speaking to us
            return;
        }
        let Some(command) = lookup(request.get(0)) else {
            return self.refuse(unknown_command(&request));
        };
        let is_exec = matches!(command.action, Action::Control(Control::Exec));
        if let Some(text) = misfit(command, &request) {
            if is_exec {
                self.discard();
                let text = [b"Transaction discarded because of: ", &text[..]].concat();
                return self.answer(Reply::error_with_code("EXECABORT", text));
            }
            return self.refuse(Reply::error(text));
        }
        if self.client.authenticated {
            self.session.attend();
        }
        if !self.client.authenticated && !command.is('n') {
            return self.refuse(Reply::error_with_code("NOAUTH", "Authentication required."));
        }
        match command.action {
            Action::Control(control) if self.acts_now(control) => self.control(control, request),
            _ if self.transaction.is_some() => self.queue(command, request),
            Action::Data(code) => {
                self.tell(command, &request);
                let bytes = request.bytes();
                self.submit(Task::Single { code, request }, bytes, Vec::new());
            }
            Action::Local(code) => {
                let reply = local(&mut self.client, code, &request);
                self.answer(reply);
            }
            Action::Control(_) => {}
        }
    }

    fn tell(&self, command: &Command, request: &Request) {
        if let Some(watcher) = &self.client.server.watcher {
            tell(&**watcher, command, request);
        }
    }

    /// `UNWATCH` is queued like any other command; the rest of its kind is not.
    fn acts_now(&self, control: Control) -> bool {
        control != Control::Unwatch || self.transaction.is_none()
    }

    /// Answers an error that, within a transaction, breaks it.
    fn refuse(&mut self, error: Reply) {
        if let Some(transaction) = &mut self.transaction {
            transaction.broken = true;
        }
        self.answer(error);
    }

    fn queue(&mut self, command: &'static Command, request: Request) {
        let limits = &self.client.server.limits;
        let Some(transaction) = &mut self.transaction else { return };
        let full = transaction.commands.len() >= limits.queued_max
            || transaction.bytes + request.bytes() > limits.queued_bytes_max;
        if full {
            let told = format!(
                "the transaction is too large: it takes {} commands of {} bytes at most",
                limits.queued_max, limits.queued_bytes_max
            );
            return self.refuse(Reply::error(told));
        }
        if !transaction.broken {
            transaction.bytes += request.bytes();
            transaction.commands.push((command, request));
        }
        self.answer(Reply::Simple("QUEUED"));
    }

    fn control(&mut self, control: Control, request: Request) {
        match (control, &self.transaction) {
            (Control::Multi, Some(_)) => {
                self.answer(Reply::error("MULTI calls can not be nested"));
            }
            (Control::Multi, None) => {
                self.transaction = Some(Transaction::default());
                self.answer(Reply::OK);
            }
            (Control::Discard, None) => self.answer(Reply::error("DISCARD without MULTI")),
            (Control::Discard, Some(_)) => {
                self.discard();
                self.answer(Reply::OK);
            }
            (Control::Exec, _) => self.exec(),
            (Control::Watch, Some(_)) => {
                self.answer(Reply::error("WATCH inside MULTI is not allowed"));
            }
            (Control::Watch, None) => self.watch(request),
            (Control::Unwatch, _) => {
                self.unwatch();
                self.answer(Reply::OK);
            }
            (Control::Quit, _) => {
                self.answer(Reply::OK);
                self.closing = true;
            }
            (Control::Reset, _) => self.reset(),
        }
    }

    fn watch(&mut self, request: Request) {
        self.watched_keys += request.len() - 1;
        if self.watched_keys > self.client.server.limits.queued_max {
            return self.answer(Reply::error("too many keys are watched"));
        }
        let slot = Slot::default();
        self.watched.push(slot.clone());
        let bytes = request.bytes();
        self.submit(Task::Watch { names: request, slot }, bytes, Vec::new());
    }

    fn unwatch(&mut self) {
        self.watched.clear();
        self.watched_keys = 0;
    }

    fn discard(&mut self) {
        self.transaction = None;
        self.unwatch();
    }

    fn exec(&mut self) {
        let Some(transaction) = self.transaction.take() else {
            return self.answer(Reply::error("EXEC without MULTI"));
        };
        let watched = std::mem::take(&mut self.watched);
        self.unwatch();
        if transaction.broken {
            let text = "Transaction discarded because of previous errors.";
            return self.answer(Reply::error_with_code("EXECABORT", text));
        }
        let (mut body, mut own) = (Vec::with_capacity(transaction.commands.len()), Vec::new());
        for (place, (command, request)) in transaction.commands.into_iter().enumerate() {
            body.push(match command.action {
                Action::Data(code) => {
                    self.tell(command, &request);
                    Queued::Data(code, request)
                }
                Action::Local(code) => {
                    own.push(Own { place, code, request });
                    Queued::Elsewhere
                }
                Action::Control(_) => Queued::Unwatch, // EXEC does that anyway
            });
        }
        self.submit(Task::Exec { watched, body }, transaction.bytes, own);
    }

    fn reset(&mut self) {
        self.discard();
        let client = &mut self.client;
        client.listed.version = Version::default();
        client.listed.name.clear();
        client.authenticated = !client.server.has_password();
        client.relist();
        self.answer(Reply::Simple("RESET"));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.release(self.waiting_bytes);
    }
}

/// The error for a name that is no command, with the beginning of its arguments, as Redis words
/// it.
fn unknown_command(request: &Request) -> Reply {
    const SHOWN_BYTES_MAX: usize = 128;
    let name = request.shown(0, SHOWN_BYTES_MAX);
    let mut text = [b"unknown command '", name, b"', with args beginning with: "].concat();
    let mut room = SHOWN_BYTES_MAX;
    for index in 1..request.len() {
        if room == 0 {
            break;
        }
        let argument = [b"'", request.shown(index, room), b"' "].concat();
        text.extend_from_slice(&argument);
        room = room.saturating_sub(argument.len());
    }
    Reply::error(text)
}
