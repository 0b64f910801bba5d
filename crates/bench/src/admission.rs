//! Creations under admission policies and webhooks. The webhooks answer from this process, so that their own work is not
//! counted.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::client::Client;
use crate::load::{self, Extent};
use crate::objects::config_map;
use crate::report::{Figure, Line};
use crate::scenarios::{AT_ONCE, JSON, collection, request, write};
use crate::target::Target;
use crate::tls;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: [u64; 3] = [0, 1, 10];
const WEBHOOKS: [u64; 2] = [1, 3];
/// The name that every policy and webhook refuses, by which a server shows that they are in force.
const REFUSED: &str = "refused";
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(target: &Target, seconds: u64) -> Result<Vec<Line>, String> {
    let client = Client::connect(target.port).await?;
    let mut lines = Vec::new();
    for count in POLICIES {
        for number in 0..count {
            create(&client, "validatingadmissionpolicies", &policy(number)).await?;
            create(&client, "validatingadmissionpolicybindings", &binding(number)).await?;
        }
        wait_until(&client, count > 0).await?;
        lines.extend(load(target, &format!("create, {count} policies"), seconds).await?);
        for number in 0..count {
            delete(&client, &format!("validatingadmissionpolicybindings/b{number}")).await?;
            delete(&client, &format!("validatingadmissionpolicies/p{number}")).await?;
        }
        wait_until(&client, false).await?;
    }
    let (port, bundle) = serve().await?;
    for count in WEBHOOKS {
        create(&client, "validatingwebhookconfigurations", &webhooks(count, port, &bundle)).await?;
        wait_until(&client, true).await?;
        lines.extend(load(target, &format!("create, {count} webhooks"), seconds).await?);
        delete(&client, "validatingwebhookconfigurations/bench").await?;
        wait_until(&client, false).await?;
    }
    Ok(lines)
}

async fn load(target: &Target, name: &str, seconds: u64) -> Result<Vec<Line>, String> {
    let (maps, prefix) = (collection("configmaps"), name.replace([',', ' '], "-"));
    let create = request(move |client, n| {
        write(client, Method::POST, maps.clone(), JSON, config_map(&format!("{prefix}-{n}"), n)).boxed()
    });
    let extent = Extent { at_once: AT_ONCE, seconds, at_most: u64::MAX };
    let cost = load::run(target, name, extent, create).await?;
    Ok(vec![Line::new(format!("{name}: CPU"), Figure::Cpu(cost.cpu))])
}

fn rules() -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}])
}

/// Five expressions, as policies have them.
fn policy(number: u64) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": format!("p{number}")},
        "spec": {
            "matchConstraints": {"resourceRules": rules()},
            "variables": [{"name": "labels", "expression": "has(object.metadata.labels) ? object.metadata.labels : {}"}],
            "validations": [
                {"expression": format!("object.metadata.name != '{REFUSED}'")},
                {"expression": "variables.labels.all(key, size(key) < 64 && key.matches('^[a-z0-9./-]+$'))"},
                {"expression": "!has(object.data) || object.data.all(key, size(object.data[key]) < 100000)"},
                {"expression": format!("object.metadata.namespace != 'forbidden-{number}'")},
                {"expression": "request.userInfo.username != 'nobody' && request.operation == 'CREATE'"},
            ],
        },
    })
}

fn binding(number: u64) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": format!("b{number}")},
        "spec": {"policyName": format!("p{number}"), "validationActions": ["Deny"]},
    })
}

fn webhooks(count: u64, port: u16, bundle: &str) -> Value {
    let hook = |number: u64| {
        json!({
            "name": format!("w{number}.bench.example"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://localhost:{port}/{number}"), "caBundle": bundle},
            "rules": rules(),
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "bench"}, "webhooks": (0..count).map(hook).collect::<Vec<_>>(),
    })
}

async fn create(client: &Client, resource: &str, object: &Value) -> Result<(), String> {
    write(client.clone(), Method::POST, format!("{GROUP}/{resource}"), JSON, object.to_string().into()).await.map(drop)
}

async fn delete(client: &Client, path: &str) -> Result<(), String> {
    write(client.clone(), Method::DELETE, format!("{GROUP}/{path}"), JSON, Bytes::new()).await.map(drop)
}

/// Waits until the name that admission refuses is refused, or no longer.
async fn wait_until(client: &Client, refused: bool) -> Result<(), String> {
    let path = format!("{}?dryRun=All", collection("configmaps"));
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let reply = client.send(Method::POST, &path, JSON, JSON, config_map(REFUSED, 0)).await?;
        if refused != (reply.status == StatusCode::CREATED) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("admission does not {} `{REFUSED}`", if refused { "refuse" } else { "allow" }))
}

/// A webhook server that allows everything but one name. Its port, and its certificate for `caBundle`.
async fn serve() -> Result<(u16, String), String> {
    let (port, certificate) = tls::listen(&[b"h2", b"http/1.1"], |stream| async move {
        let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        // A connection that breaks is the API server's to notice.
        let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
    })
    .await?;
    Ok((port, STANDARD.encode(certificate)))
}

async fn answer(request: http::Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = &review["request"];
    let allowed = request["object"]["metadata"]["name"] != REFUSED;
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": allowed},
    });
    Ok(Response::new(Full::new(Bytes::from(answer.to_string()))))
}
