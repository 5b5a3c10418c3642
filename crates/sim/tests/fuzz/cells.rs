//! Sealed cells: one that was changed, moved or made up never opens, and never panics.

use bolero::{TypeGenerator, check};
use fogbank_seal::{CellKey, Forged, IncarnationKeys, MasterKey, Place, Salt, StoreId, TAG_BYTES};

use crate::duration;
use crate::mutate::{Edit, damage};

const PLACE: Place = Place { array: 1, chunk: 7, cell: 3, tick: 42 };

/// A cell, where it is claimed to lie, and how it is damaged on the way.
#[derive(Debug, Clone, TypeGenerator)]
struct Forgery {
    plaintext: Vec<u8>,
    edits: Vec<Edit>,
    /// Of the place: which parts to change, and by how much.
    moved: [u8; 4],
    other_key: bool,
    /// What the reader expects the length to be, relative to what it is.
    longer: i8,
}

impl Forgery {
    fn place(&self) -> Place {
        let [array, chunk, cell, tick] = self.moved;
        Place {
            array: PLACE.array ^ array,
            chunk: PLACE.chunk ^ u32::from(chunk),
            cell: PLACE.cell ^ u16::from(cell),
            tick: PLACE.tick ^ u64::from(tick),
        }
    }
}

fn keys(salt: u8) -> IncarnationKeys {
    let master = MasterKey::from_bytes(&mut [9; 32]);
    IncarnationKeys::derive(&master, StoreId([1; 16]), Salt([salt; 16]))
}

/// Opens as an engine does: into a buffer of the length that the cell should have.
fn open(key: &CellKey, place: Place, cell: &[u8], length: usize) -> Result<Vec<u8>, Forged> {
    let mut plaintext = vec![0; length];
    key.open(place, cell, &mut plaintext).map(|()| plaintext)
}

#[test]
fn forged_cells() {
    let (ours, theirs) = (keys(1), keys(2));
    check!().with_type::<Forgery>().with_test_time(duration()).for_each(|forgery| {
        let mut sealed = forgery.plaintext.clone();
        sealed.extend([0; TAG_BYTES]);
        ours.cells().seal(PLACE, &mut sealed);
        let mut cell = sealed.clone();
        damage(&mut cell, &forgery.edits, &[b"\0", &sealed[..1]], &[&sealed]);

        let key = if forgery.other_key { theirs.cells() } else { ours.cells() };
        let length = forgery.plaintext.len().saturating_add_signed(forgery.longer.into());
        let opened = open(key, forgery.place(), &cell, length);
        let honest = !forgery.other_key
            && cell == sealed
            && forgery.place() == PLACE
            && length == forgery.plaintext.len();
        match opened {
            Ok(plaintext) => assert!(honest && plaintext == forgery.plaintext, "a forgery opened"),
            Err(Forged) => assert!(!honest, "an honest cell did not open"),
        }
    });
}

#[test]
fn made_up_cells() {
    let keys = keys(1);
    check!().with_type::<(Vec<u8>, u8)>().with_test_time(duration() / 4).for_each(
        |(cell, length)| {
            let fitting = cell.len().saturating_sub(TAG_BYTES);
            assert_eq!(open(keys.cells(), PLACE, cell, fitting), Err(Forged));
            assert_eq!(open(keys.cells(), PLACE, cell, usize::from(*length)), Err(Forged));
        },
    );
}
