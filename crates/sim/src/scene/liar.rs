//! A store that lies, and a trace that says when.
//!
//! A forged cell shows in the trace by its fingerprint, the XOR of cells does not: so the moment is
//! marked, before the end of the request whose reply was forged.

use fogbank_store::trace::TraceWriter;
use fogbank_store::{Call, LieRule, Reply, Result, Store, Tampering, store_by_calls};

/// The label of the mark.
pub const LIE: &str = "lie";

/// Lies by rule and marks it.
pub(super) struct Liar<S> {
    inner: Tampering<S>,
    trace: TraceWriter,
}

impl<S: Store> Liar<S> {
    pub fn new(inner: S, trace: TraceWriter, rule: Option<LieRule>) -> Self {
        let inner = Tampering::new(inner);
        if let Some(rule) = rule {
            inner.add(rule);
        }
        Self { inner, trace }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let before = self.inner.lies_told();
        let reply = call.perform(&self.inner).await;
        let told = self.inner.lies_told();
        if told > before {
            self.trace.mark(LIE, told)?;
        }
        reply
    }
}

store_by_calls!(Liar);
