//! Hash tree: sums of digests over leaves, to which rows belong by the hash of their key.

/// Number of leaves of a tree.
pub const LEAVES: u32 = 65_536;
/// Number of children of a node.
pub(super) const FAN_OUT: u32 = 16;
/// Level of the leaves; the root is level 0.
pub(super) const DEPTH: u8 = 4;
/// Number of leaves in a chunk.
const CHUNK_LEAVES: usize = 256;
/// Number of used leaves above which a chunk stores all its leaves, in order.
const SPARSE_LEAVES_MAX: usize = 120;

/// Number of a leaf, below [`LEAVES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf(pub u16);

/// Digest of a row, and its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHash {
    /// Leaf of the row.
    pub leaf: Leaf,
    /// Digest of its key and of the bytes under it.
    pub digest: u128,
}

/// Returns the leaf of a row with this key.
pub fn leaf_of(key: &[u8]) -> Leaf {
    let hash = blake3::hash(key);
    let [high, low, ..] = *hash.as_bytes();
    Leaf(u16::from_be_bytes([high, low]))
}

/// Returns the digest of a row: equal keys with equal bytes have equal digests.
pub fn row_hash(key: &[u8], bytes: &[u8]) -> RowHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key.len() as u64).to_be_bytes());
    hasher.update(key);
    hasher.update(bytes);
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    RowHash { leaf: leaf_of(key), digest: u128::from_be_bytes(digest) }
}

/// Leaves of a chunk: those in use, in order, or all.
#[derive(Clone, Debug)]
enum Leaves {
    Sparse(Vec<(u8, [u8; 16])>),
    Dense(Box<[u128; CHUNK_LEAVES]>),
}

impl Leaves {
    fn get(&self, at: usize) -> u128 {
        match self {
            Leaves::Dense(dense) => dense[at],
            Leaves::Sparse(sparse) => {
                match sparse.binary_search_by_key(&(at as u8), |(leaf, _)| *leaf) {
                    Ok(place) => u128::from_ne_bytes(sparse[place].1),
                    Err(_) => 0,
                }
            }
        }
    }

    fn add(&mut self, at: usize, digest: u128) {
        let sparse = match self {
            Leaves::Dense(dense) => {
                dense[at] = dense[at].wrapping_add(digest);
                return;
            }
            Leaves::Sparse(sparse) => sparse,
        };
        match sparse.binary_search_by_key(&(at as u8), |(leaf, _)| *leaf) {
            Ok(place) => {
                let sum = u128::from_ne_bytes(sparse[place].1).wrapping_add(digest);
                sparse[place].1 = sum.to_ne_bytes();
                if sum == 0 {
                    sparse.remove(place);
                }
            }
            Err(place) => sparse.insert(place, (at as u8, digest.to_ne_bytes())),
        }
        if sparse.len() > SPARSE_LEAVES_MAX {
            let mut dense = Box::new([0; CHUNK_LEAVES]);
            sparse
                .iter()
                .for_each(|(leaf, sum)| dense[usize::from(*leaf)] = u128::from_ne_bytes(*sum));
            *self = Leaves::Dense(dense);
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Leaves::Sparse(sparse) => sparse.capacity() * size_of::<(u8, [u8; 16])>(),
            Leaves::Dense(_) => size_of::<[u128; CHUNK_LEAVES]>(),
        }
    }
}

/// Hash tree of one copy of a partition. It takes 12 KiB when empty, some 17 to 34 bytes for each
/// of few rows, and 1 MiB at most.
#[derive(Clone, Debug)]
pub struct HashTree {
    chunks: Vec<Leaves>,
    /// Sum of each chunk: the nodes of level 2.
    sums: Vec<u128>,
    rows: u64,
}

impl Default for HashTree {
    fn default() -> HashTree {
        HashTree::new()
    }
}

impl PartialEq for HashTree {
    /// Compares leaf by leaf: an unused leaf equals a leaf without rows.
    fn eq(&self, other: &HashTree) -> bool {
        let leaves =
            |tree: &HashTree| (0..LEAVES).map(|at| tree.sum(DEPTH, at)).collect::<Vec<_>>();
        self.rows == other.rows && self.sums == other.sums && leaves(self) == leaves(other)
    }
}

impl HashTree {
    /// Builds the tree of no rows.
    pub fn new() -> HashTree {
        let chunks = LEAVES as usize / CHUNK_LEAVES;
        let none = Leaves::Sparse(Vec::new());
        HashTree { chunks: vec![none; chunks], sums: vec![0; chunks], rows: 0 }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds another tree, which recorded the changes made while the rows were being read. Counts
    /// wrap, so that a tree may have recorded more removals than insertions.
    pub fn add_all(&mut self, other: &HashTree) {
        self.rows = self.rows.wrapping_add(other.rows);
        for (chunk, leaves) in other.chunks.iter().enumerate().filter(|(_, it)| it.bytes() > 0) {
            let digests = (0..CHUNK_LEAVES).map(|at| (at, leaves.get(at)));
            for (at, digest) in digests.filter(|(_, digest)| *digest != 0) {
                self.add(Leaf((chunk * CHUNK_LEAVES + at) as u16), digest);
            }
        }
    }

    /// Returns the approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        let fixed = self.chunks.len() * (size_of::<Leaves>() + size_of::<u128>());
        fixed + self.chunks.iter().map(Leaves::bytes).sum::<usize>()
    }

    /// Adds a row.
    pub fn insert(&mut self, row: RowHash) {
        self.rows = self.rows.wrapping_add(1);
        self.add(row.leaf, row.digest);
    }

    /// Removes a row, given as it was.
    pub fn remove(&mut self, row: RowHash) {
        self.rows = self.rows.wrapping_sub(1);
        self.add(row.leaf, row.digest.wrapping_neg());
    }

    /// Replaces a row. `before` is `None` for a new row, `after` for a removed one.
    pub fn replace(&mut self, before: Option<RowHash>, after: Option<RowHash>) {
        if let Some(before) = before {
            self.remove(before);
        }
        if let Some(after) = after {
            self.insert(after);
        }
    }

    /// Returns the sum of all digests.
    pub fn root(&self) -> u128 {
        self.sum(0, 0)
    }

    fn add(&mut self, leaf: Leaf, digest: u128) {
        let (chunk, at) = (usize::from(leaf.0) / CHUNK_LEAVES, usize::from(leaf.0) % CHUNK_LEAVES);
        self.chunks[chunk].add(at, digest);
        self.sums[chunk] = self.sums[chunk].wrapping_add(digest);
    }

    /// Returns the sum of one node: the one at this place among the `16^level` nodes of its level.
    pub(super) fn sum(&self, level: u8, place: u32) -> u128 {
        let place = place as usize;
        let total = |sums: &[u128]| sums.iter().fold(0_u128, |sum, one| sum.wrapping_add(*one));
        let leaves = |from: usize, count: usize| {
            let chunk = &self.chunks[from / CHUNK_LEAVES];
            let places = from % CHUNK_LEAVES..from % CHUNK_LEAVES + count;
            places.fold(0_u128, |sum, at| sum.wrapping_add(chunk.get(at)))
        };
        match level {
            0 => total(&self.sums),
            1 => total(&self.sums[place * 16..place * 16 + 16]),
            2 => self.sums[place],
            3 => leaves(place * 16, 16),
            _ => leaves(place, 1),
        }
    }

    /// Returns the sums of a node's children, each truncated to 8 bytes, as they are compared and
    /// sent.
    pub(super) fn children(&self, level: u8, place: u32) -> impl Iterator<Item = u64> {
        let children = place * FAN_OUT..(place + 1) * FAN_OUT;
        children.map(move |child| self.sum(level + 1, child) as u64)
    }
}
