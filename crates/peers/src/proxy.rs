//! Passes a request on to a peer that serves what it asks for.

use std::net::IpAddr;

use aggregator::proxy::{Connection, headers_for, path_of, refused, remove_cors, unreachable};
use http::{HeaderName, HeaderValue, StatusCode};
use object::{GroupVersionResource, Status};
use registry::Target;
use rest::{Body, Call, Reply, Unreachable};

use crate::Peers;

/// The header of a request that was passed on once and must be answered where it is.
pub static PEER_PROXIED: HeaderName = HeaderName::from_static("x-kubernetes-peer-proxied");

impl Peers {
    /// The peers that serve a resource which this server does not; empty if the request is to be answered here.
    pub fn serving(&self, call: &Call) -> Vec<String> {
        let info = &call.info;
        let is_proxied = call.headers.get(&PEER_PROXIED).is_some_and(|value| value == "true");
        if !info.is_resource || is_proxied {
            return Vec::new();
        }
        if self.api.catalog.load().get(&info.group, &info.version, &info.resource).is_some() {
            return Vec::new();
        }
        let resource = GroupVersionResource::new(info.group.as_str(), info.version.as_str(), info.resource.as_str());
        let served = self.served();
        let able = served.iter().filter(|(_, peer)| peer.resources.contains(&resource));
        able.map(|(server, _)| server.clone()).collect()
    }

    /// Passes an authorized request on to one of the servers. `from` is the client's address.
    pub async fn answer(&self, servers: &[String], call: &Call, body: Body, from: IpAddr, audit_id: &str) -> Reply {
        let resource = [call.info.group.as_str(), call.info.version.as_str(), call.info.resource.as_str()];
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        let mut addresses = self.addresses(&servers).await.unwrap_or_else(|why| {
            tracing::warn!(why, "the addresses of peers cannot be read");
            Vec::new()
        });
        if addresses.is_empty() {
            self.meters.proxy_failed("endpoint_resolution", resource);
            let status = Status::unavailable("Error getting ip and port info of the remote server while proxying");
            return rest::failure(&status, &self.api.accept_of_status(call));
        }
        let address = addresses.swap_remove(rand::random_range(0..addresses.len()));
        let upgrades = rest::is_upgrade(&call.headers);
        let client = self.client.clone();
        let mut headers = match headers_for(call, &address, from, audit_id, true) {
            Ok(headers) => headers,
            Err(why) => {
                self.meters.rerouted(StatusCode::SERVICE_UNAVAILABLE.as_u16(), resource);
                return unreachable(upgrades, &why.to_string());
            }
        };
        headers.insert(&PEER_PROXIED, HeaderValue::from_static("true"));
        let path = path_of(call);
        let target = Target { tls: true, host: address.host.clone(), port: address.port, path, ..Target::default() };
        let connection = Connection { client, address };
        let reply = match rest::forward(&connection, &target, call.method.clone(), &headers, body).await {
            Ok(mut reply) => {
                remove_cors(&mut reply);
                reply
            }
            Err(Unreachable::Broken(why)) if upgrades => refused(StatusCode::SERVICE_UNAVAILABLE, &why),
            Err(Unreachable::NotAllowed(why) | Unreachable::Failed(why) | Unreachable::Broken(why)) => {
                unreachable(upgrades, &why)
            }
        };
        self.meters.rerouted(reply.status.as_u16(), resource);
        reply
    }
}
