//! AlwaysAdmit and AlwaysDeny: everything, or nothing at all. For tests of clusters.

use async_trait::async_trait;
use object::{Status, Value};

use super::forbidden;
use crate::{Attributes, Plugin};

pub struct AlwaysAdmit;

pub struct AlwaysDeny;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }
}

#[async_trait]
impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        Err(forbidden(attributes, "admission control is denying all modifications"))
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        Err(forbidden(attributes, "admission control is denying all modifications"))
    }
}
