//! One call of a log, received whole, and its answer.

use bytes::{BufMut, Bytes, BytesMut};
use fogbank_store::{LOG_BYTES_MAX, LogListener};
use tonic::Status;

use super::said::{LISTENING, Request, put_event};
use crate::frames::pieces;
use crate::reply::{NONE, SOME};
use crate::service::{Desk, Out, status};
use crate::wire::MESSAGE_BYTES_MAX;

/// Answers a call of the tenant's log.
///
/// # Errors
/// What goes back to the client, if it is still there.
pub async fn answer(desk: &Desk, request: Request, out: &mut Out) -> Result<(), Status> {
    let log = desk.tenant.log(&desk.clock).await.map_err(status)?;
    match request {
        Request::Append(entry) => {
            let place = log.append(entry).await.map_err(status)?;
            desk.figures.log_appends.add(1);
            let mut said = BytesMut::with_capacity(9);
            match place {
                None => said.put_u8(NONE),
                Some(place) => {
                    said.put_u8(SOME);
                    said.put_u64_le(place);
                }
            }
            out.send(Ok(vec![said.freeze()])).await
        }
        Request::Publish(place, result) => {
            log.publish(place, result).await.map_err(status)?;
            out.done().await
        }
        Request::Forget(before) => {
            log.forget(before).await.map_err(status)?;
            out.done().await
        }
        Request::Follow(from) => {
            out.follows(desk.room(FOLLOW_BYTES).await?);
            let listener = log.listen(from).map_err(status)?;
            desk.figures.log_follows.add(1);
            follow(desk, listener, out).await
        }
    }
}

/// Tells what comes until nobody takes it, or the server stops.
async fn follow(desk: &Desk, mut listener: LogListener, out: &Out) -> Result<(), Status> {
    out.send(Ok(vec![Bytes::from_static(LISTENING)])).await?;
    let mut stopping = desk.stopping.clone();
    loop {
        let event = tokio::select! {
            event = listener.next() => event.map_err(status)?,
            () = out.gone() => return Ok(()),
            _ = stopping.wait_for(|stop| *stop) => {
                return Err(Status::unavailable("the server is stopping"));
            }
        };
        let mut frames = Vec::new();
        put_event(&mut frames, &event);
        // Small ones together.
        while frames.len() < MESSAGE_BYTES_MAX / 2
            && let Some(event) = listener.ready().map_err(status)?
        {
            put_event(&mut frames, &event);
        }
        for piece in pieces(frames) {
            out.send(Ok(vec![piece])).await?;
        }
    }
}

/// What one who listens takes: events that are being told, as they are and as frames, and messages
/// that are ready.
const FOLLOW_BYTES: u64 = (2 * LOG_BYTES_MAX + 6 * MESSAGE_BYTES_MAX) as u64;
