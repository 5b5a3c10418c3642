//! The rules of the protocol, seen from the cloud (T1 to T7 of the notes on tree engines).
