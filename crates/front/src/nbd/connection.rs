//! One connection, once it has taken the disk: requests in, replies out, each when it is ready.
//!
//! 1. A request is taken when there is room for it: for one request more, and for the bytes it
//!    holds until its reply has left. A write is taken with all its bytes.
//! 2. It is carried out in a task of its own, so that no request waits for the one before.
//! 3. Its reply joins the queue of those that leave.
//!
//! The end. A client that says so, or a server that stops, has what was taken answered before the
//! connection closes; while that lasts, requests that come after the server's stop are refused as
//! the protocol says. A client that is lost has nothing more submitted for it; the connection
//! counts until what was submitted has been answered, so no client can have more under way by
//! coming again.

use super::disk::{Disk, Lane};
use super::handshake::Taken;
use super::input::Input;
use super::limits::Limits;
use super::order::Order;
use super::output::{Output, Reply};
use super::reply::{Form, Outcome, Refusal};
use super::request::{Command, Request, Rules};
use fogbank_env::Clock;
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// What requests are taken at, whatever they hold: small ones cost something, too.
const HELD_BYTES_MIN: u64 = 64;

/// The state of one connection.
pub struct Connection {
    disk: Arc<Disk>,
    lane: Lane,
    rules: Rules,
    input: Input,
    replies: UnboundedSender<Reply>,
    order: Order,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    bytes_max: u32,
    tasks: JoinSet<()>,
    /// Writes replies until there can be no more.
    writer: JoinSet<io::Result<()>>,
    stopping: watch::Receiver<bool>,
    stopped: bool,
}

/// Why no more requests are taken.
enum End {
    /// What was taken is answered first.
    Orderly,
    /// The client is gone.
    Lost,
}

impl Connection {
    /// A connection of a client that has taken the disk.
    pub fn new(
        taken: Taken,
        disk: Arc<Disk>,
        rules: Rules,
        limits: &Limits,
        clock: Arc<dyn Clock>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let (read, write) = tokio::io::split(taken.stream);
        let (replies, queue) = unbounded_channel();
        let mut writer = JoinSet::new();
        writer.spawn(Output::new(write, clock.clone(), limits).run(queue));
        let bytes_max = limits.waiting_bytes_max.max(HELD_BYTES_MIN as u32);
        Self {
            lane: disk.lane(),
            disk,
            rules,
            input: Input::new(read, clock, limits),
            replies,
            order: Order::new(),
            requests: Arc::new(Semaphore::new(limits.requests_max.max(1) as usize)),
            bytes: Arc::new(Semaphore::new(bytes_max as usize)),
            bytes_max,
            tasks: JoinSet::new(),
            writer,
            stopping,
            stopped: false,
        }
    }

    /// Serves it to its end.
    pub async fn run(mut self) -> io::Result<()> {
        let end = self.take_requests().await;
        if !matches!(end, Ok(End::Orderly)) {
            self.lane.close();
            self.writer.abort_all();
        }
        drop(self.replies);
        while self.tasks.join_next().await.is_some() {}
        let written = self.writer.join_next().await;
        end?;
        // Without a task there was nothing to fail.
        written.unwrap_or(Ok(Ok(()))).unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }

    async fn take_requests(&mut self) -> io::Result<End> {
        loop {
            if self.stopped && self.tasks.is_empty() {
                return Ok(End::Orderly);
            }
            let request = tokio::select! {
                biased;
                () = self.replies.closed() => return Ok(End::Lost),
                // It changes once, to true; a sender that is gone stops us as well.
                _ = self.stopping.changed(), if !self.stopped => {
                    self.stopped = true;
                    continue;
                }
                Some(_) = self.tasks.join_next() => continue,
                request = self.input.request() => request?,
            };
            let Some(request) = request else { return Ok(End::Lost) };
            if !self.accept(request).await? {
                return Ok(End::Orderly);
            }
        }
    }

    /// Takes one request; `false` if it is the last.
    async fn accept(&mut self, request: Request) -> io::Result<bool> {
        let mut command = request.command(&self.rules);
        if matches!(command, Command::Disconnect) {
            return Ok(false);
        }
        if self.stopped {
            command = Command::Refuse(Refusal::ShuttingDown);
        }
        let due = self.due(&request, &command).await?;
        let payload = match request.payload() {
            Some(span) => self.input.payload(self.disk.pieces(span)).await?,
            None => Vec::new(),
        };
        let lane = self.lane.clone();
        match command {
            Command::Read(span) => self.start(due, async move { lane.read(span).await }),
            Command::Write(span) => {
                self.start(due, async move { lane.write(span, payload).await });
            }
            Command::Zero(span) => self.start(due, async move { lane.zero(span).await }),
            Command::Flush => {
                let mut before = self.order.flush();
                self.tasks.spawn(async move {
                    before.passed().await;
                    due.answer(Ok(Vec::new()));
                    drop(before);
                });
            }
            Command::Refuse(refusal) => due.answer(Err(refusal)),
            Command::Disconnect => {}
        }
        Ok(true)
    }

    /// Carries out a request, whichever it is: what follows from its end is the same for all.
    fn start(&mut self, due: Due, work: impl Future<Output = Outcome> + Send + 'static) {
        let mark = self.order.request();
        self.tasks.spawn(async move {
            due.answer(work.await);
            drop(mark);
        });
    }

    /// Waits for room for `request`, and says how it is to be answered.
    async fn due(&mut self, request: &Request, command: &Command) -> io::Result<Due> {
        let held = match (command, request.payload()) {
            // As much in every direction: or how many requests find room would tell which they
            // are. What is longer than any read or write can only be zeros, and holds nothing.
            (Command::Read(span) | Command::Write(span) | Command::Zero(span), _)
                if span.length <= self.rules.payload_bytes_max =>
            {
                self.disk.held_bytes(*span)
            }
            (_, Some(span)) if span.length > self.rules.payload_bytes_max => {
                let why = "a write is longer than the client was told";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            (_, Some(span)) => u64::from(span.length),
            _ => 0,
        };
        let held = held.clamp(HELD_BYTES_MIN, u64::from(self.bytes_max)) as u32;
        let (requests, bytes) = (self.requests.clone(), self.bytes.clone());
        let room = async move {
            Ok([requests.acquire_owned().await?, bytes.acquire_many_owned(held).await?])
        };
        let room: Result<_, AcquireError> = tokio::select! {
            room = room => room,
            () = self.replies.closed() => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let room = room.map_err(io::Error::other)?; // nobody closes these
        let form = request.form(&self.rules);
        Ok(Due { form, cookie: request.cookie, room, replies: self.replies.clone() })
    }
}

/// A reply that is owed.
struct Due {
    form: Form,
    cookie: u64,
    room: [OwnedSemaphorePermit; 2],
    replies: UnboundedSender<Reply>,
}

impl Due {
    fn answer(self, outcome: Outcome) {
        let Self { form, cookie, room, replies } = self;
        // A client that is gone hears nothing.
        let _gone = replies.send(Reply { form, cookie, outcome, room });
    }
}
