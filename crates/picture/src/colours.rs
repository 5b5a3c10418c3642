//! The colours of a picture: they grow lighter with heat.
//!
//! Lightness alone carries the meaning, so it survives any colour vision and a grey printer. What
//! was asked is amber, what the cloud saw is blue.

use crate::bands::SHADES;

/// Which side of the trust boundary a picture is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What was asked, which only the trusted side knows.
    Trusted,
    /// What the cloud saw.
    Cloud,
}

/// Red, green and blue.
pub type Colour = [u8; 3];

impl Side {
    const fn ramp(self) -> [Colour; 5] {
        match self {
            Side::Trusted => {
                [[36, 22, 10], [122, 60, 14], [205, 120, 28], [247, 198, 104], [255, 250, 238]]
            }
            Side::Cloud => {
                [[10, 26, 42], [20, 72, 110], [42, 138, 182], [140, 208, 232], [244, 253, 255]]
            }
        }
    }

    /// The colours of all shades, the coldest first.
    pub fn palette(self) -> Vec<Colour> {
        let ramp = self.ramp();
        let between = |from: u8, to: u8, part: f64| {
            (f64::from(from) + part * (f64::from(to) - f64::from(from))).round() as u8
        };
        let colour = |shade: usize| {
            let place = shade as f64 / (SHADES - 1) as f64 * (ramp.len() - 1) as f64;
            let stop = (place as usize).min(ramp.len() - 2);
            let (from, to) = (ramp[stop], ramp[stop + 1]);
            std::array::from_fn(|i| between(from[i], to[i], place - stop as f64))
        };
        (0..SHADES).map(colour).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmer_is_lighter() {
        for side in [Side::Trusted, Side::Cloud] {
            let light = |c: &Colour| 2 * u32::from(c[0]) + 7 * u32::from(c[1]) + u32::from(c[2]);
            let palette = side.palette();
            assert!(palette.windows(2).all(|pair| light(&pair[0]) < light(&pair[1])));
        }
    }
}
