//! CONNECT: exec, attach, portforward, log and proxy. Where a connection goes is said by the catalog's
//! [`Connect`](registry::Connect); here it is authorized, admitted and made.

use admission::Operation;
use http::StatusCode;
use object::{Status, Value};
use registry::{Connect, ConnectCall};
use schema::{Schema, Shape};

use crate::forward::{Unreachable, forward};
use crate::options::{flag, integer};
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;
use crate::{Call, create::Admission};

pub async fn connect(scope: &Scope, connect: &dyn Connect) -> Result<Reply, Status> {
    let info = &scope.call.info;
    if connect.is_admitted() && scope.call.query("dryRun").is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    let kind = connect.options();
    let schema = schema::builtin().schema(&kind).ok_or_else(|| Status::internal(format!("no schema for {kind}")))?;
    let mut options = options_object(&scope.call, schema)?;
    let cx = scope.context(false);
    if info.subresource == "log" && scope.api.features.enabled("PodLogsQuerySplitStreams") {
        options.set_default(&["stream"], "All");
    }
    if connect.is_admitted() {
        admit(scope, &mut options).await?;
    }
    if let Some(verb) = connect.required_verb(&scope.api.features).filter(|verb| *verb != info.verb.as_str()) {
        let decision = scope.api.authorizer.decide(&scope.access(verb)).await;
        decision.allowed().map_err(|reason| Status::forbidden(&scope.group_resource(), &info.name, reason))?;
    }
    let storage = scope.storage()?;
    storage.cache.fresh().await.map_err(|error| Status::internal(error.to_string()))?;
    let (path, query) = (info.path_below_subresource(), query_string(&scope.call));
    let call = ConnectCall { cx, storage, name: &info.name, options: &options, path, query: &query };
    let Some(target) = connect.target(&call).await? else {
        let mut reply = Reply::new(StatusCode::NO_CONTENT, "", ReplyBody::Ready(Default::default()));
        reply.headers.clear();
        return Ok(reply);
    };
    let Some(dial) = &scope.api.dial else {
        return Err(Status::unavailable("error trying to reach service: this server makes no connections"));
    };
    let sent = forward(&**dial, &target, scope.call.method.clone(), &scope.call.headers, scope.take_body()).await;
    sent.map_err(|error| match error {
        Unreachable::NotAllowed => Status::bad_request("address not allowed"),
        Unreachable::Failed(why) => connect.unreachable(&target, &why),
    })
}

/// Both halves of admission see the options as the object of a CONNECT.
async fn admit(scope: &Scope, options: &mut Value) -> Result<(), Status> {
    let no_options = Value::Null;
    let name = scope.call.info.name.as_str();
    let attributes = scope.admission(Operation::Connect, name, scope.context(false), &no_options);
    let mut result = scope.api.admission.mutate(&attributes, options, None).await;
    if result.is_ok() {
        let admit = Admission { scope, attributes: &attributes };
        result = registry::Admit::validate(&admit, Some(options), None).await;
    }
    scope.note(&attributes);
    result
}

/// The query as an object: every parameter that is a field of the kind.
fn options_object(call: &Call, schema: Schema<'_>) -> Result<Value, Status> {
    let mut options = Value::map();
    let Shape::Struct(id) = schema.node.shape else { return Ok(options) };
    for field in &schema.types.get(id).fields {
        let name = field.name.as_str();
        let value = match &field.node.shape {
            Shape::Bool => flag(call, name).map(Value::from),
            Shape::Int32 | Shape::Int64 => integer(call, name)?.map(Value::from),
            Shape::List(_) => {
                let all: Vec<&str> = call.query_all(name).collect();
                Some(Value::from(all)).filter(|all| !all.is_empty())
            }
            _ if name == "path" && call.info.parts.len() > 3 => Some(Value::from(call.info.parts[3..].join("/"))),
            _ => call.query(name).map(Value::from),
        };
        if let Some(value) = value.filter(|_| !matches!(name, "apiVersion" | "kind")) {
            options.set(&[name], value);
        }
    }
    Ok(options)
}

/// The query with its question mark, "" if there is none.
fn query_string(call: &Call) -> String {
    let escape = |text: &str, out: &mut String| {
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
                byte => out.push_str(&format!("%{byte:02X}")),
            }
        }
    };
    let mut out = String::new();
    for (key, value) in &call.query {
        out.push(if out.is_empty() { '?' } else { '&' });
        escape(key, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}
