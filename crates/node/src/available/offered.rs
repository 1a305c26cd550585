//! Which buckets are available, with which properties, and the ring they live on: this node's copy
//! of the directory's rows. Finding them asks nobody.

use crate::directory::read_ring;
use crate::directory::rows::{self, CUSTOM, RING, TYPES};
use base::{BucketName, Promise, Properties, Result, Value};
use logic::ring::Ring;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

/// See the head of this file.
pub(crate) struct Offered {
    told: RwLock<Told>,
}

struct Told {
    types: BTreeMap<String, Arc<Properties>>,
    /// Buckets whose properties are not their type's.
    custom: BTreeMap<BucketName, Arc<Properties>>,
    ring: Option<Arc<Ring>>,
    /// What the type `available` is where no row says otherwise.
    built_in: Arc<Properties>,
}

impl Default for Offered {
    fn default() -> Offered {
        let (types, custom, ring) = (BTreeMap::new(), BTreeMap::new(), None);
        let built_in = Arc::new(Properties::available());
        Offered { told: RwLock::new(Told { types, custom, ring, built_in }) }
    }
}

impl Offered {
    /// The properties of a bucket, if it is an available one.
    pub(crate) fn find(&self, name: &BucketName) -> Option<Arc<Properties>> {
        let told = self.told.read().expect("no one panics while holding it");
        let kind = match told.types.get(name.kind()) {
            Some(kind) => kind,
            None if name.kind() == BucketName::AVAILABLE => &told.built_in,
            None => return None,
        };
        let available = kind.promise == Promise::Available;
        available.then(|| told.custom.get(name).unwrap_or(kind).clone())
    }

    /// How many copies the keys of each type's and each single bucket have, in one order: what the
    /// hash trees are made for.
    pub(crate) fn copies(&self) -> Vec<(String, u8)> {
        let told = self.told.read().expect("no one panics while holding it");
        let built_in = [(BucketName::AVAILABLE.to_string(), &told.built_in)];
        let types = told.types.iter().map(|(kind, properties)| (kind.clone(), properties));
        let custom = told.custom.iter().map(|(name, it)| (name.full().to_string(), it));
        let all = built_in.into_iter().chain(types).chain(custom);
        let available = all.filter(|(_, properties)| properties.promise == Promise::Available);
        available.map(|(name, properties)| (name, properties.replication.n_val)).collect()
    }

    /// The ring, once there is one.
    pub(crate) fn ring(&self) -> Option<Arc<Ring>> {
        self.told.read().expect("no one panics while holding it").ring.clone()
    }

    /// Exactly this is in force.
    pub(crate) fn fill(
        &self,
        types: BTreeMap<String, Arc<Properties>>,
        custom: BTreeMap<BucketName, Arc<Properties>>,
        ring: Option<Ring>,
    ) {
        let mut told = self.told.write().expect("no one panics while holding it");
        told.types = types;
        told.custom = custom;
        told.ring = ring.map(Arc::new);
    }

    /// A row of the directory was written (or removed: no value). Whether it spoke of this.
    pub(crate) fn apply(&self, key: &[u8], value: Option<&Value>) -> Result<bool> {
        if key == RING {
            let ring = value.map(|value| read_ring(value)).transpose()?.map(Arc::new);
            self.told.write().expect("no one panics while holding it").ring = ring;
        } else if let Some(kind) = rows::type_of(key).filter(|_| key.starts_with(TYPES)) {
            let properties = properties(value)?;
            let mut told = self.told.write().expect("no one panics while holding it");
            match properties {
                Some(properties) => told.types.insert(kind.into(), properties),
                None => told.types.remove(kind),
            };
        } else if key.starts_with(CUSTOM) {
            let Some(name) = rows::custom_of(key) else { return Ok(true) };
            let properties = properties(value)?;
            let mut told = self.told.write().expect("no one panics while holding it");
            match properties {
                Some(properties) => told.custom.insert(name, properties),
                None => told.custom.remove(&name),
            };
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

fn properties(value: Option<&Value>) -> Result<Option<Arc<Properties>>> {
    Ok(value.map(|value| rows::properties_of(value)).transpose()?.map(Arc::new))
}
