//! SHA-256, for chaining records.

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// The digest of `parts` one after the other. The caller makes the parts self-delimiting.
pub fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}
