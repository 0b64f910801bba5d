//! What the administrator of a test server can ask of it over the network: `POST /test-server/reset` and
//! `POST /test-server/users`. No other server has these paths.

use std::time::Instant;

use authz::Permitted;
use bytes::Bytes;
use http::{Method, StatusCode};
use object::{GroupResource, Status, value};
use request::User;
use rest::{Accept, Body, Call, Reply, ReplyBody, failure};
use server::Paths;

use super::{TestDefinitions, TestServer, TestUser};

const RESET: &str = "/test-server/reset";
const USERS: &str = "/test-server/users";

#[async_trait::async_trait]
impl Paths for TestServer {
    async fn answer(&self, call: &Permitted<Call>, _: &mut Body) -> Option<Reply> {
        let answered = match call.info.path.as_str() {
            RESET => self.answer_reset(call).await,
            USERS => self.answer_user(call).await,
            _ => return None,
        };
        Some(answered.unwrap_or_else(|status| failure(&status, &Accept::of_status(&call.headers, &call.query))))
    }

    fn listed(&self) -> Vec<String> {
        vec![RESET.into(), USERS.into()]
    }
}

impl TestServer {
    async fn answer_reset(&self, call: &Call) -> Result<Reply, Status> {
        check(call)?;
        let definitions = match call.query("definitions") {
            None | Some("remove") => TestDefinitions::Remove,
            Some("keep") => TestDefinitions::Keep,
            Some(other) => {
                return Err(Status::bad_request(format!(
                    "definitions is {}, not keep or remove",
                    object::quote(other)
                )));
            }
        };
        let began = Instant::now();
        let reverted = self.reset(definitions).await.map_err(Status::internal)?;
        let micros = i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX);
        let answer = value!({
            "microseconds": micros,
            "removed": (reverted.removed as i64),
            "resourceVersion": (reverted.revision.to_string()),
            "restored": (reverted.restored as i64),
        });
        let mut body = Vec::new();
        codec::json::encode(&answer, None, &mut body);
        Ok(Reply::new(StatusCode::OK, "application/json", ReplyBody::Ready(Bytes::from(body))))
    }

    async fn answer_user(&self, call: &Call) -> Result<Reply, Status> {
        check(call)?;
        let user = TestUser {
            name: call.query("name").unwrap_or_default(),
            groups: call.query_all("group").collect(),
            cluster_role: call.query("clusterRole"),
            namespace: call.query("namespace"),
        };
        self.store.note_bootstrap();
        let kubeconfig = self.user(&user).await.map_err(Status::bad_request)?;
        Ok(Reply::new(StatusCode::OK, "application/yaml", ReplyBody::Ready(Bytes::from(kubeconfig))))
    }
}

/// Whoever may send a request to these paths is known by RBAC; that they are the administrator is asked for as well, because
/// certificates for every group are given out here.
fn check(call: &Call) -> Result<(), Status> {
    if !call.user.groups.iter().any(|group| group == User::MASTERS) {
        let why = format!("this is for members of {}", User::MASTERS);
        return Err(Status::forbidden(&GroupResource::default(), "", why));
    }
    if call.method != Method::POST {
        return Err(Status::generic(405, call.info.verb.as_str(), &GroupResource::default(), "", ""));
    }
    Ok(())
}
