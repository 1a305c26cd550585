//! The tree: sums of digests, over leaves that rows fall into by the hash of their key.

/// How many leaves a tree has.
pub const LEAVES: u32 = 65_536;
/// How many children a node has.
pub(super) const FAN_OUT: u32 = 16;
/// The level of the leaves; the root is level 0.
pub(super) const DEPTH: u8 = 4;
/// Leaves are kept in chunks, of which only those with a row have memory.
const CHUNK: usize = 256;

/// One of the [`LEAVES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf(pub u16);

/// What the tree knows of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHash {
    /// Where it falls.
    pub leaf: Leaf,
    /// The digest of its key and of what lies under it.
    pub digest: u128,
}

/// The leaf into which a row with this key falls.
pub fn leaf_of(key: &[u8]) -> Leaf {
    let hash = blake3::hash(key);
    let [high, low, ..] = *hash.as_bytes();
    Leaf(u16::from_be_bytes([high, low]))
}

/// What the tree is to know of a row: equal rows have equal bytes under equal keys.
pub fn row_hash(key: &[u8], bytes: &[u8]) -> RowHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key.len() as u64).to_be_bytes());
    hasher.update(key);
    hasher.update(bytes);
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    RowHash { leaf: leaf_of(key), digest: u128::from_be_bytes(digest) }
}

/// The hash tree of one copy of a partition. Empty it takes 6 KiB, with rows in every leaf 1 MiB.
#[derive(Clone, Debug)]
pub struct HashTree {
    chunks: Vec<Option<Box<[u128; CHUNK]>>>,
    /// The sum of each chunk: the nodes of level 2.
    sums: Vec<u128>,
    rows: u64,
}

impl Default for HashTree {
    fn default() -> HashTree {
        HashTree::new()
    }
}

impl PartialEq for HashTree {
    /// A leaf without memory is a leaf without rows.
    fn eq(&self, other: &HashTree) -> bool {
        let leaves =
            |tree: &HashTree| (0..LEAVES).map(|at| tree.sum(DEPTH, at)).collect::<Vec<_>>();
        self.rows == other.rows && self.sums == other.sums && leaves(self) == leaves(other)
    }
}

impl HashTree {
    /// Of no rows.
    pub fn new() -> HashTree {
        let chunks = LEAVES as usize / CHUNK;
        HashTree { chunks: vec![None; chunks], sums: vec![0; chunks], rows: 0 }
    }

    /// How many rows it knows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes up what happened to another tree: what was done while the rows were being read, on top
    /// of what was read. Numbers wrap, so a tree may have seen more rows go than come.
    pub fn add_all(&mut self, other: &HashTree) {
        self.rows = self.rows.wrapping_add(other.rows);
        for (chunk, leaves) in other.chunks.iter().enumerate() {
            let Some(leaves) = leaves else { continue };
            for (at, digest) in leaves.iter().enumerate().filter(|(_, digest)| **digest != 0) {
                self.add(Leaf((chunk * CHUNK + at) as u16), *digest);
            }
        }
    }

    /// A row has come.
    pub fn insert(&mut self, row: RowHash) {
        self.rows = self.rows.wrapping_add(1);
        self.add(row.leaf, row.digest);
    }

    /// A row has gone; it is given as it was.
    pub fn remove(&mut self, row: RowHash) {
        self.rows = self.rows.wrapping_sub(1);
        self.add(row.leaf, row.digest.wrapping_neg());
    }

    /// A row was changed; one that was not there before comes, one that is not there after goes.
    pub fn change(&mut self, before: Option<RowHash>, after: Option<RowHash>) {
        if let Some(before) = before {
            self.remove(before);
        }
        if let Some(after) = after {
            self.insert(after);
        }
    }

    /// The sum of all digests.
    pub fn root(&self) -> u128 {
        self.sum(0, 0)
    }

    fn add(&mut self, leaf: Leaf, digest: u128) {
        let (chunk, at) = (usize::from(leaf.0) / CHUNK, usize::from(leaf.0) % CHUNK);
        let leaves = self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK]));
        leaves[at] = leaves[at].wrapping_add(digest);
        self.sums[chunk] = self.sums[chunk].wrapping_add(digest);
    }

    /// The sum of a node: of `16^level` nodes on a level, the one at this place.
    pub(super) fn sum(&self, level: u8, place: u32) -> u128 {
        let place = place as usize;
        let total = |sums: &[u128]| sums.iter().fold(0_u128, |sum, one| sum.wrapping_add(*one));
        let leaves = |from: usize, count: usize| match &self.chunks[from / CHUNK] {
            Some(chunk) => total(&chunk[from % CHUNK..from % CHUNK + count]),
            None => 0,
        };
        match level {
            0 => total(&self.sums),
            1 => total(&self.sums[place * 16..place * 16 + 16]),
            2 => self.sums[place],
            3 => leaves(place * 16, 16),
            _ => leaves(place, 1),
        }
    }

    /// The sums of a node's children, each cut to 8 bytes: what is compared, and sent.
    pub(super) fn children(&self, level: u8, place: u32) -> impl Iterator<Item = u64> {
        let children = place * FAN_OUT..(place + 1) * FAN_OUT;
        children.map(move |child| self.sum(level + 1, child) as u64)
    }
}
