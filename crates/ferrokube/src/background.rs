//! Loops of the program beside requests.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use request::User;

use crate::Server;
use crate::client::{InProcess, Local};

/// How long a loop that has ended waits before it begins again.
const PAUSE: Duration = Duration::from_secs(1);

/// What a loop works with.
#[derive(Clone)]
pub struct Background {
    name: Arc<str>,
    service: InProcess,
}

impl Background {
    pub(crate) fn new(server: &Server, name: &str) -> Background {
        let groups = vec![User::MASTERS.to_string(), User::AUTHENTICATED.to_string()];
        let user = User { name: format!("system:{name}"), groups, ..User::default() };
        Background { name: name.into(), service: server.in_process(user) }
    }

    /// The name of the loop.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client that may do everything; the audit log names it `system:` and the name of the loop.
    #[cfg(feature = "client")]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service.clone(), "default")
    }

    /// A plain client of the same user.
    pub fn local(&self) -> Local {
        Local::new(self.service.clone())
    }
}

type Run = Arc<dyn Fn(Background) -> BoxFuture<'static, ()> + Send + Sync>;

/// A loop that is to run.
pub(crate) struct Loop {
    name: Arc<str>,
    /// Whether only one of several servers runs it.
    is_elected: bool,
    run: Run,
}

impl Loop {
    pub fn new<F, L>(name: &str, is_elected: bool, run: F) -> Loop
    where
        F: Fn(Background) -> L + Send + Sync + 'static,
        L: Future<Output = ()> + Send + 'static,
    {
        Loop { name: name.into(), is_elected, run: Arc::new(move |background| run(background).boxed()) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it again and again.
    pub fn run(self, background: Background) -> BoxFuture<'static, ()> {
        async move {
            loop {
                let once = (self.run)(background.clone());
                let ended = std::panic::AssertUnwindSafe(self.elected(once, &background)).catch_unwind().await;
                if ended.is_err() {
                    tracing::error!(name = %self.name, "a background loop panicked; it begins again");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        .boxed()
    }

    #[cfg(feature = "client")]
    async fn elected(&self, once: BoxFuture<'static, ()>, background: &Background) {
        match self.is_elected {
            true => crate::leader::lead(&background.client(), &self.name, once).await,
            false => once.await,
        }
    }

    #[cfg(not(feature = "client"))]
    async fn elected(&self, once: BoxFuture<'static, ()>, _: &Background) {
        debug_assert!(!self.is_elected);
        once.await
    }
}
