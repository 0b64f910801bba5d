//! In the place of `plugins` in programs without the feature `kms`: a configuration that names a plugin is refused, so that nothing else here
//! is ever called.

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::{NoPlugin as KmsPlugin, NoPlugin as LearnedKey, NoPlugin as NeededKey};
use super::config::Kms;
use super::meters::KeyMeters;
use super::provider::{Failure, Opened};

/// A plugin, or a key of one; there is none.
#[derive(Clone)]
pub(crate) enum NoPlugin {}

impl NoPlugin {
    pub async fn start(_: &Kms, _: Duration, _: Arc<KeyMeters>) -> Result<NoPlugin, String> {
        Err("the feature kms was left out of this program".into())
    }

    pub fn is_v1(&self) -> bool {
        match *self {}
    }

    pub async fn seal(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        match *self {}
    }

    pub async fn check(&self) -> Result<(), String> {
        match *self {}
    }

    pub fn prefix(&self) -> &[u8] {
        match *self {}
    }

    pub fn open(&self, _: &[u8], _: &[u8], _: Option<&LearnedKey>) -> Result<Opened, Failure> {
        match *self {}
    }

    pub async fn learn(&self) -> Result<Option<LearnedKey>, String> {
        match *self {}
    }

    pub async fn ask(&self) -> Result<(), String> {
        match *self {}
    }

    pub fn digest(&self) -> [u8; 32] {
        match *self {}
    }
}
