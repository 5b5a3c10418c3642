//! The system's source of randomness, asked once at start.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

use crate::Forged;

/// 32 bytes from the system's source, to seed `fogbank_env::Randomness` of a real run.
///
/// # Errors
/// Fails if the system has no randomness to give.
pub fn system_seed() -> Result<[u8; 32], Forged> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| Forged)?;
    Ok(seed)
}
