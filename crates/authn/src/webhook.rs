//! `--authentication-token-webhook-*`: a server that answers TokenReviews.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use codec::Notes;
use futures::future::{BoxFuture, FutureExt, Shared};
use object::{Value, quote, value};
use outbound::{Client, Egress, Kubeconfig, Pauses, Request};
use request::User;
use tokio::time::Instant;

use crate::cache::{Hash, TokenCache};
use crate::{Identity, Refused, Token, TokenMethod, intersection};

/// How long the answer to a token is waited for in all, however often the webhook is called.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Asks a webhook whose tokens are.
pub struct TokenWebhook {
    reviewer: Arc<Reviewer>,
    /// What it said about a token a moment ago; None for tokens that it does not know.
    cache: TokenCache<Option<Identity>>,
    /// Tokens that it is being asked about, each once.
    under_way: Mutex<HashMap<Hash, Shared<BoxFuture<'static, Answer>>>>,
}

type Answer = Result<Option<Identity>, Refused>;

struct Reviewer {
    client: Client,
    url: String,
    version: String,
    /// Whom tokens are meant for where the webhook does not say.
    audiences: Vec<String>,
}

impl TokenWebhook {
    /// Reads the webhook's kubeconfig file. Answers are kept for `ttl`; errors are not.
    pub fn open(
        kubeconfig: &Path,
        version: &str,
        audiences: Vec<String>,
        ttl: Duration,
        egress: &Egress,
    ) -> Result<TokenWebhook, String> {
        if !VERSIONS.contains(&version) {
            let [v1, v1beta1] = VERSIONS.map(quote);
            let version = quote(version);
            return Err(format!(
                "unsupported authentication webhook version {version}, supported versions are {v1}, {v1beta1}"
            ));
        }
        let (server, options) = Kubeconfig::read(kubeconfig)?.current()?;
        let client = Client::new(&egress.of_control_plane(options)).map_err(|error| error.to_string())?;
        let has_path = server.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        let url = format!("{server}{}?timeout=30s", if has_path { "" } else { "/" });
        let reviewer = Arc::new(Reviewer { client, url, version: version.to_string(), audiences });
        Ok(TokenWebhook { reviewer, cache: TokenCache::new(ttl), under_way: Mutex::default() })
    }

    /// Joins the call about the same token, or begins one.
    fn asked(&self, token: &Token<'_>) -> Shared<BoxFuture<'static, Answer>> {
        let hash = self.cache.hash(token);
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = under_way.get(&hash).filter(|call| call.peek().is_none()) {
            return call.clone();
        }
        under_way.retain(|_, call| call.peek().is_none());
        let (reviewer, text, wanted) = (self.reviewer.clone(), token.text.to_string(), token.audiences.to_vec());
        // The call goes on when the request that began it is given up: others may wait for it too.
        let task = tokio::spawn(async move { reviewer.review(&text, &wanted).await });
        let crashed = |_| Err(Refused::because("authentication failed unexpectedly"));
        let call = task.map(move |joined| joined.unwrap_or_else(crashed)).boxed().shared();
        under_way.insert(hash, call.clone());
        call
    }
}

#[async_trait]
impl TokenMethod for TokenWebhook {
    async fn identify(&self, token: &Token<'_>) -> Answer {
        if let Some(known) = self.cache.get(token) {
            return Ok(known);
        }
        let answer = self.asked(token).await?;
        self.cache.put(token, &answer);
        Ok(answer)
    }
}

impl Reviewer {
    async fn review(&self, token: &str, wanted: &[String]) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        let mut review = value!({
            "kind": "TokenReview",
            "apiVersion": (format!("authentication.k8s.io/{}", self.version)),
            "metadata": {},
            "spec": {"token": token},
            "status": {"user": {}}
        });
        if !wanted.is_empty() {
            review.set(&["spec", "audiences"], wanted.to_vec());
        }
        let mut body = Vec::new();
        codec::json::encode(&review, None, &mut body);
        let body = Bytes::from(body);
        let answer = self.call(body, deadline).await.map_err(|error| {
            tracing::error!(error, "Failed to make webhook authenticator request");
            Refused::because(error)
        })?;
        self.identity(&answer, wanted)
    }

    /// Calls the webhook, again after errors that may pass.
    async fn call(&self, body: Bytes, deadline: Instant) -> Result<Value, String> {
        let mut pauses = Pauses::default();
        loop {
            let (url, body) = (self.url.as_str(), body.clone());
            let request = Request { url, address: None, body, deadline, response_bytes_max: RESPONSE_BYTES_MAX };
            let error = match self.client.post(&request).await {
                Ok(bytes) => return self.read(&bytes),
                Err(error) => error,
            };
            match pauses.next().filter(|pause| error.may_pass() && Instant::now() + *pause < deadline) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error.to_string()),
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Value, String> {
        let answer = codec::json::decode(bytes, None, &mut Notes::ignore());
        let answer = answer.map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let (kind, version) = (answer.str_at(&["kind"]), answer.str_at(&["apiVersion"]));
        match version.strip_prefix("authentication.k8s.io/") {
            Some(version) if kind == "TokenReview" && version == self.version => Ok(answer),
            _ => Err(format!("no kind {} is registered for version {}", quote(kind), quote(version))),
        }
    }

    /// Whom the answer is about; None if the webhook does not know the token, or it is meant for others.
    fn identity(&self, answer: &Value, wanted: &[String]) -> Answer {
        let status = answer.field("status");
        let said = texts(status.field("audiences"));
        let meant = if said.is_empty() { &self.audiences } else { &said };
        let audiences = intersection(wanted, meant);
        if !wanted.is_empty() && audiences.is_empty() {
            return Ok(None);
        }
        if status.field("authenticated").as_bool() != Some(true) {
            return match status.str_at(&["error"]) {
                "" => Ok(None),
                error => Err(Refused::because(error)),
            };
        }
        let user = status.field("user");
        let extra = user.field("extra").as_map().into_iter().flat_map(|extra| extra.iter());
        let mut extra: Vec<_> = extra.map(|(key, values)| (key.to_string(), texts(values))).collect();
        extra.sort();
        let user = User {
            name: user.str_at(&["username"]).to_string(),
            uid: user.str_at(&["uid"]).to_string(),
            groups: texts(user.field("groups")),
            extra,
        };
        Ok(Some(Identity { user, audiences, ..Identity::default() }))
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str).map(str::to_string).collect()
}
