//! Port-forward: SPDY inside WebSocket messages is taken out for the kubelet, everything else is passed through.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object::Status;
use registry::Target;
use streams::websocket::{Handshake, Refused, is_websocket, offered};

use super::{dial, not_upgraded, pass_through, proxy, refused};
use crate::forward::{both, forward_upgrade};
use crate::reply::{Body, Reply};
use crate::scope::Scope;

/// Before the name of a SPDY protocol, makes that of the WebSocket protocol which carries it.
const TUNNEL: &str = "SPDY/3.1+";
const PROTOCOL_VERSION: &str = "x-stream-protocol-version";
/// About the WebSocket, which the kubelet does not get to see.
const WEBSOCKET_HEADERS: [&str; 3] = ["sec-websocket-protocol", "sec-websocket-key", "sec-websocket-version"];

pub async fn port_forward(scope: &Scope, target: &Target) -> Result<Reply, Status> {
    let features = &scope.api.features;
    let call = &scope.call;
    if !features.enabled("PortForwardWebsockets") {
        return pass_through(scope, target).await;
    }
    let to_kubelet = features.enabled("ExtendWebSocketsToKubelet") && target.websockets;
    scope.api.streams.routed(&call.info.subresource, to_kubelet);
    let offered = offered(&call.headers);
    let protocols: Vec<&str> = offered.iter().filter_map(|protocol| tunneled(protocol)).collect();
    if to_kubelet || !is_websocket(&call.headers) || protocols.is_empty() {
        return pass_through(scope, target).await;
    }
    let meters = &scope.api.streams;
    let Some(client) = scope.take_body().take_upgrade() else {
        return Err(Status::bad_request("Upgrade request required"));
    };
    let headers = spdy_headers(proxy::with_forwarded_for(call), &protocols);
    let (response, backend) = match forward_upgrade(dial(scope)?, target, Method::POST, headers, Body::Empty).await {
        Ok(Ok(upgraded)) => upgraded,
        Ok(Err(reply)) => {
            meters.tunneled(reply.status.as_u16());
            return Ok(*reply);
        }
        Err(error) => return Err(not_upgraded(error)),
    };
    let text = |name: &str| response.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").trim();
    let says = |name: &str, wanted: &str| text(name).to_ascii_lowercase().contains(wanted);
    if !says("connection", "upgrade") || !says("upgrade", "spdy/3.1") {
        meters.tunneled(500);
        let text = "unable to upgrade: missing upgrade headers in response\n";
        return Ok(refused(&Refused { code: StatusCode::INTERNAL_SERVER_ERROR, text }));
    }
    let handshake = match Handshake::read(&call.method, &call.headers) {
        Ok(handshake) => handshake,
        Err(why) => {
            meters.tunneled(500);
            return Ok(refused(&why));
        }
    };
    let selected =
        Some(format!("{TUNNEL}{}", text(PROTOCOL_VERSION))).filter(|name| handshake.protocols.contains(name));
    meters.tunneled(101);
    Ok(Reply::switch(handshake.accept(selected.as_deref()), async move {
        let Some((client, backend)) = both(client, backend).await else { return };
        if let Err(error) = streams::tunnel(client, backend).await {
            tracing::debug!(%error, "a tunnelled port-forward ended early");
        }
    }))
}

/// The SPDY protocol that a WebSocket protocol carries.
fn tunneled(protocol: &str) -> Option<&str> {
    protocol.strip_prefix(TUNNEL).filter(|protocol| protocol.ends_with(".k8s.io"))
}

/// The headers of a request for SPDY, made of those of a request for WebSocket.
fn spdy_headers(mut headers: HeaderMap, protocols: &[&str]) -> HeaderMap {
    WEBSOCKET_HEADERS.iter().for_each(|name| drop(headers.remove(*name)));
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.remove(PROTOCOL_VERSION);
    for protocol in protocols {
        if let Ok(value) = HeaderValue::from_str(protocol) {
            headers.append(PROTOCOL_VERSION, value);
        }
    }
    headers
}
