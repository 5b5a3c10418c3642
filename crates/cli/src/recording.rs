//! The trace recorder of a run.
