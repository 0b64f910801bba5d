//! ComponentStatuses: probes the scheduler and the controller manager on this machine, and etcd.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use kinds::core::ComponentStatus;
use object::{Value, quote, value};
use registry::{Report, Strategy, Target};
use request::User;
use rest::{ForwardClient, Unreachable};
use storage::{Health, Status, Store};

/// How long an answer may take, and how much of it is shown.
const TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 10 * 1024;

/// Asks the components at their usual ports of this machine, and the store.
pub struct Components {
    pub store: Arc<dyn Store>,
    pub dial: Arc<dyn ForwardClient>,
}

#[derive(Clone, Copy)]
enum Component {
    Server(u16),
    Store,
}

/// By name. There is one store, whatever it is made of; scripts know it by the name of the first etcd.
const COMPONENTS: [(&str, Component); 3] = [
    ("controller-manager", Component::Server(10257)),
    ("etcd-0", Component::Store),
    ("scheduler", Component::Server(10259)),
];

impl Components {
    async fn status(&self, name: &str, component: Component) -> Value {
        let (is_healthy, message, error) = match component {
            Component::Server(port) => match probe(&*self.dial, port).await {
                Ok(answer) => (true, answer, String::new()),
                Err(why) => (false, why, String::new()),
            },
            Component::Store => match tokio::time::timeout(TIMEOUT, self.store.status()).await {
                Ok(Ok(Status { health: Health::Healthy, .. })) => (true, "ok".to_string(), String::new()),
                Ok(Ok(Status { health: Health::Degraded(why) | Health::Full(why), .. })) => (false, String::new(), why),
                Ok(Err(error)) => (false, String::new(), error.to_string()),
                Err(_) => (false, String::new(), "context deadline exceeded".to_string()),
            },
        };
        let mut condition = value!({"type": "Healthy", "status": (if is_healthy { "True" } else { "False" })});
        for (field, text) in [("message", message), ("error", error)] {
            if !text.is_empty() {
                condition.set(&[field], text);
            }
        }
        value!({"metadata": {"name": name}, "conditions": [(condition)]})
    }
}

/// The health of a component as it tells it, or why it tells nothing.
async fn probe(dial: &dyn ForwardClient, port: u16) -> Result<String, String> {
    let (host, path) = ("127.0.0.1".to_string(), "/healthz".to_string());
    let url = quote(&format!("https://{host}:{port}{path}"));
    let failed = |why: String| format!("Get {url}: {why}");
    let request = Request::get(&path).header("host", format!("{host}:{port}")).header("user-agent", "kube-probe/1.37");
    let empty = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = request.body(empty).map_err(|error| failed(error.to_string()))?;
    let target = Target { tls: true, host, port, path, ..Target::default() };
    let answer = async {
        let response = dial.send(&target, request).await.map_err(|error| match error {
            Unreachable::NotAllowed(why) | Unreachable::Failed(why) | Unreachable::Broken(why) => why,
        })?;
        let code = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
        Ok((code, text))
    };
    let (code, text) = match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(answered) => answered.map_err(failed)?,
        Err(_) => {
            let late = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)";
            return Err(failed(late.to_string()));
        }
    };
    if (200..400).contains(&code.as_u16()) {
        return Ok(text);
    }
    Err(format!("HTTP probe failed with statuscode: {}", code.as_u16()))
}

#[async_trait]
impl Report for Components {
    async fn objects(&self, _: &User, _: &str) -> Vec<Value> {
        futures::future::join_all(COMPONENTS.map(|(name, component)| self.status(name, component))).await
    }

    async fn object(&self, _: &User, _: &str, name: &str) -> Option<Value> {
        let (name, component) = COMPONENTS.into_iter().find(|(known, _)| *known == name)?;
        Some(self.status(name, component).await)
    }

    fn strategy(&self) -> &dyn Strategy {
        &ComponentStatus
    }
}
