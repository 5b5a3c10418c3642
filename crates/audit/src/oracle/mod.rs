//! The public state machine of an engine, written apart from it on purpose.
