//! A classifier that is trained to tell two histories apart, judged on runs it never saw.
