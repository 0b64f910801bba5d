//! [`Chain`]: the plugins in their order.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Meta, Status, Value};

use crate::{Attributes, Operation};

/// One admission plugin. Every hook lets the request through unless the plugin says otherwise.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// The name in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    fn handles(&self, operation: Operation) -> bool;

    /// Changes the object, or refuses the request. `old` is None for a creation.
    async fn mutate(&self, _: &Attributes<'_>, _object: &mut Value, _old: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    /// Is told of a deletion before anything validates it; there is nothing to change.
    async fn mutate_deletion(&self, _: &Attributes<'_>, _old: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses the request. `object` is None for a deletion, `old` for a creation.
    async fn validate(&self, _: &Attributes<'_>, _object: Option<&Value>, _old: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }
}

/// Plugins in the order they run.
#[derive(Clone, Default)]
pub struct Chain {
    plugins: Vec<Arc<dyn Plugin>>,
}

impl Chain {
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Chain {
        Chain { plugins }
    }

    /// Adds a plugin that runs after all others.
    pub fn push(&mut self, plugin: Arc<dyn Plugin>) {
        self.plugins.push(plugin);
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }

    /// Lets every plugin change the object, and once more if a webhook or policy changed it.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        attributes.reinvocation.begin();
        self.mutate_once(attributes, object, old).await?;
        if attributes.reinvocation.begin_again() {
            self.mutate_once(attributes, object, old).await?;
        }
        Ok(())
    }

    async fn mutate_once(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for plugin in self.handling(attributes.operation) {
            plugin.mutate(attributes, object, old).await?;
        }
        Ok(())
    }

    fn handling(&self, operation: Operation) -> impl Iterator<Item = &Arc<dyn Plugin>> {
        self.plugins.iter().filter(move |plugin| plugin.handles(operation))
    }

    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        attributes.named(object.map_or("", |object| object.name()));
        if let (None, Some(old)) = (object, old) {
            for plugin in self.handling(attributes.operation) {
                plugin.mutate_deletion(attributes, old).await?;
            }
        }
        for plugin in self.handling(attributes.operation) {
            plugin.validate(attributes, object, old).await?;
        }
        Ok(())
    }
}
