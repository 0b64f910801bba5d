//! CONNECT: exec, attach, portforward, log and proxy. Where a connection goes is said by the catalog's
//! [`Connect`](registry::Connect); here it is authorized, admitted and made.

mod command;
mod html;
mod links;
mod log;
mod meters;
mod options;
mod port_forward;
mod proxy;

use admission::Operation;
use http::StatusCode;
use object::{Status, Value};
use registry::{Connect, ConnectCall, Exchange, Target};

use crate::forward::{ForwardClient, Unreachable, forward};
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;

pub use meters::StreamMeters;

pub async fn connect(scope: &Scope, connect: &dyn Connect) -> Result<Reply, Status> {
    let info = &scope.call.info;
    let exchange = connect.exchange();
    if exchange != Exchange::Log && scope.call.query("dryRun").is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    let kind = connect.options();
    let schema = schema::builtin().schema(&kind).ok_or_else(|| Status::internal(format!("no schema for {kind}")))?;
    let mut options = options::read(&scope.call, schema)?;
    if exchange == Exchange::Log {
        scope.api.streams.log_asked(options.field("insecureSkipTLSVerifyBackend").as_bool() == Some(true));
        if scope.api.features.enabled("PodLogsQuerySplitStreams") {
            options.set_default(&["stream"], "All");
        }
    } else {
        admit(scope, &mut options).await?;
    }
    if let Some(verb) = connect.required_verb(&scope.api.features).filter(|verb| *verb != info.verb.as_str()) {
        let decision = scope.api.authorizer.decide(&scope.access(verb)).await;
        decision.allowed().map_err(|reason| Status::forbidden(&scope.group_resource(), &info.name, reason))?;
    }
    let storage = scope.storage()?;
    storage.cache.fresh().await.map_err(|error| Status::internal(error.to_string()))?;
    let call = ConnectCall { cx: scope.context(false), storage, name: &info.name, options: &options };
    let Some(target) = connect.target(&call).await? else {
        let mut reply = Reply::new(StatusCode::NO_CONTENT, "", ReplyBody::Ready(Default::default()));
        reply.headers.clear();
        return Ok(reply);
    };
    match exchange {
        Exchange::Log => log::log(scope, &target).await,
        Exchange::Proxy => proxy::proxy(scope, target).await,
        Exchange::RemoteCommand => command::command(scope, target, &options).await,
        Exchange::PortForward => port_forward::port_forward(scope, &target).await,
    }
}

/// Both halves of admission see the options as the object of a CONNECT.
async fn admit(scope: &Scope, options: &mut Value) -> Result<(), Status> {
    let no_options = Value::Null;
    let name = scope.call.info.name.as_str();
    let attributes = scope.admission(Operation::Connect, name, scope.context(false), &no_options);
    scope.api.admission.mutate(&attributes, options, None).await?;
    scope.api.admission.validate(&attributes, Some(options), None).await
}

fn dial(scope: &Scope) -> Result<&dyn ForwardClient, Status> {
    let none = || Status::unavailable("error trying to reach service: this server makes no connections");
    scope.api.dial.as_deref().ok_or_else(none)
}

/// Passes a request that upgrades on to a kubelet and copies bytes both ways: SPDY, and WebSocket where it is not translated.
async fn pass_through(scope: &Scope, target: &Target) -> Result<Reply, Status> {
    let call = &scope.call;
    if !streams::websocket::is_upgrade(&call.headers) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let headers = proxy::with_forwarded_for(call);
    let sent = forward(dial(scope)?, target, call.method.clone(), &headers, scope.take_body()).await;
    sent.map_err(not_upgraded)
}

/// What clients are told when a request that upgrades was not answered.
fn not_upgraded(error: Unreachable) -> Status {
    match error {
        Unreachable::NotAllowed(why) => Status::bad_request(why),
        Unreachable::Failed(why) => Status::unknown(500, format!("error dialing backend: {why}")),
        Unreachable::Broken(why) => Status::unknown(500, why),
    }
}

/// A failed WebSocket handshake.
fn refused(refused: &streams::websocket::Refused) -> Reply {
    Reply::text(refused.code, refused.text)
}
