//! A picture as an image: one pixel wide a column.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use fogbank_picture::{Band, Colour, Picture, SHADES, Side};

/// An image, and where its bands are.
#[derive(Debug, Clone)]
pub struct Painted {
    /// The PNG as a `data:` address.
    pub address: String,
    /// The middle of each band, as a share of the height, with its title.
    pub bands: Vec<(f64, String)>,
}

/// Paints `picture`, whose bands must be aligned.
pub fn paint(picture: &Picture, side: Side) -> Painted {
    let columns = picture.columns().max(1);
    let (mut pixels, mut middles) = (Vec::new(), Vec::new());
    for band in &picture.bands {
        if !pixels.is_empty() {
            pixels.extend(std::iter::repeat_n(GAP, GAP_ROWS * columns));
        }
        let first = pixels.len() / columns;
        paint_band(band, columns, &mut pixels);
        let middle = (first + pixels.len() / columns) as f64 / 2.0;
        middles.push((middle, band.title.clone()));
    }
    let rows = (pixels.len() / columns).max(1);
    pixels.resize(rows * columns, GAP);
    let image = encode(columns as u32, rows as u32, &pixels, &side.palette());
    let address = format!("data:image/png;base64,{}", STANDARD.encode(image));
    let bands = middles.into_iter().map(|(middle, title)| (middle / rows as f64, title)).collect();
    Painted { address, bands }
}

/// Rows of few places are painted taller, so that the top of a tree can be seen.
fn paint_band(band: &Band, columns: usize, pixels: &mut Vec<u8>) {
    let tall = BAND_ROWS_MIN.div_ceil(band.map.rows());
    for row in 0..band.map.rows() {
        let shades = band.shades(row, columns);
        (0..tall).for_each(|_| pixels.extend_from_slice(&shades));
    }
}

fn encode(width: u32, height: u32, pixels: &[u8], palette: &[Colour]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette.iter().chain([&[0; 3]]).flatten().copied().collect::<Vec<u8>>());
    let opaque = std::iter::repeat_n(255, palette.len());
    encoder.set_trns(opaque.chain([0]).collect::<Vec<u8>>());
    encoder.set_compression(png::Compression::High);
    // Writing to memory fails only for images that are not as announced.
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    debug_assert!(written.is_ok());
    bytes
}

/// The index of the transparent colour between bands.
const GAP: u8 = SHADES as u8;
const GAP_ROWS: usize = 2;
const BAND_ROWS_MIN: usize = 6;

#[cfg(test)]
mod tests {
    use fogbank_picture::HeatMap;

    use super::*;

    #[test]
    fn the_image_has_the_shades_of_the_picture() {
        let mut map = HeatMap::new(2, 0, 1);
        (0..10).for_each(|at| map.touch(at, 0, 1));
        map.touch(9, 1, 1);
        let picture = Picture { bands: vec![Band { title: "x".into(), map }] };
        let painted = paint(&picture, Side::Cloud);
        let image = STANDARD.decode(painted.address.rsplit(',').next().unwrap()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(image)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), (10, 6));
        assert!(pixels[..30].iter().all(|shade| *shade > 0));
        assert_eq!(pixels[30..39], [0; 9]);
        assert_eq!(painted.bands, [(0.5, "x".to_string())]);
    }
}
