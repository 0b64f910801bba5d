//! [`RequestParts`]: carries out the requests that a restore is made of, through the stages that are about one request: audit,
//! authorization, and the barrier for writes. They run on the seat of the restore.

use std::sync::Arc;

use ::audit::{Auditor, Record};
use authz::Authorizer;
use futures::future::BoxFuture;
use object::Status;
use request::{RequestInfo, User, Verb};
use rest::{Api, Body, Call, CarryOut, Reply, failure};

use crate::chain::{DECISION, REASON, Server};
use crate::peer::Peer;
use crate::refused::not_allowed;
use crate::{WriteBarrier, audit, origin};

/// The audit annotation of a request that is a part of another one: the audit ID of that.
const PART_OF: &str = "history.ferrokube.io/part-of";

/// The facts that the requests share.
#[derive(Clone)]
pub struct RequestParts {
    api: Arc<Api>,
    authorizer: Arc<dyn Authorizer>,
    auditor: Option<Arc<Auditor>>,
    barrier: Option<WriteBarrier>,
    peer: Arc<Peer>,
    /// Who sent the restore, and as whom with which constraint of impersonation it acts.
    sender: User,
    constraint: String,
    audit_id: String,
}

impl RequestParts {
    /// Whether a request is made of others.
    pub fn is_wanted(info: &RequestInfo) -> bool {
        info.is_resource && info.verb == Verb::Create && info.subresource == "history"
    }

    pub fn of(server: &Server, peer: &Arc<Peer>, sender: User, constraint: &str, audit_id: &str) -> Arc<RequestParts> {
        Arc::new(RequestParts {
            api: server.api.clone(),
            authorizer: server.authorizer.clone(),
            auditor: server.auditor.clone(),
            barrier: server.write_barrier.clone(),
            peer: peer.clone(),
            sender,
            constraint: constraint.to_string(),
            audit_id: audit_id.to_string(),
        })
    }

    /// Begins the record of a request, as the stages do: of who sent it, then of whom it acts as.
    fn begin_record(&self, call: &mut Call, audit_id: &str) -> Option<Arc<Record>> {
        let user = std::mem::replace(&mut call.user, self.sender.clone());
        let begun = self.auditor.as_ref().and_then(|auditor| audit::begin(auditor, call, audit_id, &self.peer));
        call.user = user;
        if let Some(record) = &begun {
            record.annotate(PART_OF, self.audit_id.as_str());
            if call.user.name != self.sender.name {
                record.impersonated(&call.user, &self.constraint);
            }
        }
        begun
    }

    async fn pass(self, mut call: Box<Call>, body: Body) -> Reply {
        let audit_id = audit::id(&http::HeaderMap::new(), &*self.api.randomness);
        let record = self.begin_record(&mut call, &audit_id);
        if let Some(record) = &record
            && !record.received().await
        {
            return failure(&Status::internal("failed to store audit event"), &self.api.accept_of_status(&call));
        }
        let origin = origin::of(&self.api, &call, &self.sender, &audit_id);
        call.origin = origin.map(|origin| Arc::new(origin.acting_as(&call.user.name)));
        call.record = record.clone();
        let mut reply = match authz::authorize(&*self.authorizer, call).await {
            Err(refused) => *not_allowed(&self.api, *refused, record.as_deref(), &[]),
            Ok(call) => {
                if let Some(record) = &record {
                    record.annotate(DECISION, "allow");
                    record.annotate(REASON, call.reason());
                }
                match self.barrier.as_ref().and_then(|barrier| barrier(&call.info, &call.user)) {
                    Some(status) => failure(&status, &self.api.accept_of_status(&call)),
                    None => rest::serve(&self.api, call, body).await,
                }
            }
        };
        if let Some(record) = &record {
            audit::note_reply(record, &mut reply, false).await;
            record.response_stored(reply.status.as_u16()).await;
        }
        reply
    }
}

impl CarryOut for RequestParts {
    fn carry_out(&self, call: Box<Call>, body: Body) -> BoxFuture<'static, Reply> {
        Box::pin(self.clone().pass(call, body))
    }
}
