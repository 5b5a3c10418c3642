//! Tests of what the oracle leaves free.
