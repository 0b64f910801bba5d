//! The backend of a program that embeds the server: events are handed to a part of it.

use std::sync::Arc;

use async_trait::async_trait;

use super::calls::Deliver;
use crate::event::Event;
use crate::numbers::Numbers;

/// A part of the program that takes audit events.
#[async_trait]
pub trait EventSink: Send + Sync + 'static {
    /// Stores events; an error says why they are lost, which is logged and counted.
    async fn store(&self, events: &[Arc<Event>]) -> Result<(), String>;
}

impl Deliver for Arc<dyn EventSink> {
    const NAME: &'static str = "sink";
    const CALLS_MAX: u32 = 4;

    async fn deliver(&self, events: &[Arc<Event>], numbers: &Numbers) -> bool {
        match self.store(events).await {
            Ok(()) => true,
            Err(why) => {
                numbers.error(Self::NAME, events.len(), &why);
                false
            }
        }
    }
}
