//! Available buckets in the directory.
//!
//! An available bucket exists as soon as it is named, so that a write never waits for a majority of
//! the directory. It has a row only if its properties differ from its type's.

use super::buckets::{check_supported, check_values_unaffected};
use super::rows::{assert, custom_key, properties_of, set, write_properties};
use super::{CallPlan, Directory};
use base::bucket::BucketName;
use base::properties::Changes;
use base::request::OnMissing;
use base::{
    Body, BucketDescription, BucketId, Consistency, DirectoryCall, Error, GroupId, Properties,
    Reason, Result, Update, Value,
};

impl Directory {
    /// Plans a call on an available bucket. `None`: the call is not about one.
    pub(super) fn plan_available(
        &self,
        name: &BucketName,
        call: &DirectoryCall,
    ) -> Result<Option<CallPlan>> {
        let is_bucket_call = matches!(
            call,
            DirectoryCall::CreateBucket(_)
                | DirectoryCall::AlterBucket(_)
                | DirectoryCall::DropBucket
                | DirectoryCall::ClearBucket
                | DirectoryCall::ResetBucket
                | DirectoryCall::DescribeBucket
                | DirectoryCall::PlaceBucket { .. }
                | DirectoryCall::MoveBucket { .. }
        );
        let template = if is_bucket_call { self.template(name.kind()).ok() } else { None };
        let Some((_, template)) =
            template.filter(|(_, properties)| properties.consistency == Consistency::Available)
        else {
            return Ok(None);
        };
        let refuse = |text: &str| Err(Error::new(Reason::NotSupported, text));
        match call {
            DirectoryCall::DescribeBucket => {
                let (_, properties) = self.custom_properties(name, template)?;
                let (name, id, group) = (name.clone(), BucketId(0), GroupId(0));
                let bucket = BucketDescription { name, id, group, properties, moving: None };
                Ok(Some(CallPlan::Answer(Body::Buckets(vec![bucket]))))
            }
            DirectoryCall::CreateBucket(changes) | DirectoryCall::AlterBucket(changes) => {
                self.customize(name, template, changes).map(Some)
            }
            DirectoryCall::ResetBucket => {
                let found = self.custom_properties(name, template.clone())?;
                let (Some(value), before) = found else {
                    return Ok(Some(CallPlan::Answer(Body::Done)));
                };
                let key = custom_key(name);
                // It stays: to change it needs `secure`, and must be recorded as that.
                let after = Properties { audit: before.audit, ..template.clone() };
                let reset = match after == template {
                    true => Update::Delete { key: key.clone(), missing: OnMissing::Fail },
                    false => set(key.clone(), write_properties(&after)),
                };
                Ok(Some(CallPlan::Change(vec![assert(&key, Some(value)), reset])))
            }
            DirectoryCall::DropBucket | DirectoryCall::ClearBucket => refuse(
                "an available bucket can't be created, dropped or cleared: it exists implicitly; \
                 delete its keys instead",
            ),
            _ => refuse("this is an available bucket: it belongs to the ring, not to a group"),
        }
    }

    /// Returns a bucket's properties, and the row that holds them. `None`: they are its type's.
    pub(super) fn custom_properties(
        &self,
        name: &BucketName,
        template: Properties,
    ) -> Result<(Option<Value>, Properties)> {
        match self.get(&custom_key(name))? {
            Some(value) => {
                let properties = properties_of(&value)?;
                Ok((Some(value), properties))
            }
            None => Ok((None, template)),
        }
    }

    fn customize(
        &self,
        name: &BucketName,
        template: Properties,
        changes: &Changes,
    ) -> Result<CallPlan> {
        if changes.is_empty() {
            return Ok(CallPlan::Answer(Body::Done));
        }
        let (value, before) = self.custom_properties(name, template)?;
        let after = check_supported(before.with(changes)?)?;
        check_values_unaffected(&before, &after)?;
        let key = custom_key(name);
        let row = set(key.clone(), write_properties(&after));
        Ok(CallPlan::Change(vec![assert(&key, value), row]))
    }
}
