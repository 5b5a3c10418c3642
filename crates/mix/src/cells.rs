//! Equal cells, one after the other in one buffer.

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    bytes: Vec<u8>,
    cell_bytes: usize,
}

impl Cells {
    /// None yet, of so many bytes each, at least one.
    pub fn new(cell_bytes: usize) -> Self {
        Self { bytes: Vec::new(), cell_bytes: cell_bytes.max(1) }
    }

    /// The same with room for so many.
    pub fn with_room(cell_bytes: usize, cells: usize) -> Self {
        let cell_bytes = cell_bytes.max(1);
        Self { bytes: Vec::with_capacity(cells * cell_bytes), cell_bytes }
    }

    /// So many of zeros.
    pub fn zeros(cell_bytes: usize, cells: usize) -> Self {
        let cell_bytes = cell_bytes.max(1);
        Self { bytes: vec![0; cells * cell_bytes], cell_bytes }
    }

    /// Those that lie in `bytes`; none if that is no whole number of them.
    pub fn of(bytes: Vec<u8>, cell_bytes: usize) -> Option<Self> {
        (cell_bytes > 0 && bytes.len().is_multiple_of(cell_bytes))
            .then_some(Self { bytes, cell_bytes })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.cell_bytes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of each.
    pub fn cell_bytes(&self) -> usize {
        self.cell_bytes
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, and nothing else.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The cell at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let from = index.checked_mul(self.cell_bytes)?;
        self.bytes.get(from..from.checked_add(self.cell_bytes)?)
    }

    /// The cell at `index`, to be changed.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let from = index.checked_mul(self.cell_bytes)?;
        self.bytes.get_mut(from..from.checked_add(self.cell_bytes)?)
    }

    /// Every cell in turn.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.cell_bytes)
    }

    /// Puts a copy of `cell`, which has the length of one, behind the others.
    pub fn push(&mut self, cell: &[u8]) {
        debug_assert_eq!(cell.len(), self.cell_bytes);
        self.bytes.extend_from_slice(cell);
    }

    /// Puts a cell of zeros behind the others, and gives it.
    pub fn push_zeros(&mut self) -> &mut [u8] {
        let from = self.bytes.len();
        self.bytes.resize(from + self.cell_bytes, 0);
        &mut self.bytes[from..]
    }

    /// Puts all of `others` behind these.
    pub fn append(&mut self, others: &Self) {
        debug_assert_eq!(others.cell_bytes, self.cell_bytes);
        self.bytes.extend_from_slice(&others.bytes);
    }
}
