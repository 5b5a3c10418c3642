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

/// A digest of what comes bit by bit.
pub struct Digesting(aws_lc_rs::digest::Context);

impl Default for Digesting {
    fn default() -> Self {
        Self(aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256))
    }
}

impl Digesting {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// That of all bytes so far.
    pub fn finish(self) -> Digest {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }
}
