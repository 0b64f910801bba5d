//! A signer that really runs on a socket, with messages of its own: it checks the protocol too.

use std::path::Path;
use std::sync::Mutex;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;

use super::*;
use crate::keys::SigningKey;
use crate::service_account::{Issuer, Signer};

/// What the signer has and how it misbehaves.
struct State {
    key: SigningKey,
    /// The DER of the public key, and its name.
    der: Vec<u8>,
    key_id: String,
    header: String,
    excluded: bool,
    refresh: i64,
    life: i64,
    fetches: usize,
}

fn start(socket: &Path) -> Arc<Mutex<State>> {
    let key = SigningKey::parse(SigningKey::generate().unwrap().as_bytes()).unwrap();
    let state = Arc::new(Mutex::new(State {
        der: key.public().der().to_vec(),
        key,
        key_id: "k1".into(),
        header: r#"{"alg":"RS256","kid":"k1","typ":"JWT"}"#.into(),
        excluded: false,
        refresh: 3600,
        life: 7200,
        fetches: 0,
    }));
    let listener = UnixListener::bind(socket).unwrap();
    let shared = state.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let state = shared.clone();
            let service = service_fn(move |request| answer(state.clone(), request));
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
        }
    });
    state
}

type Frames = futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::convert::Infallible>>>;

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<StreamBody<Frames>>, std::convert::Infallible> {
    let path = request.uri().path().to_string();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message = state.lock().unwrap().handle(&path, &body[5..]);
    let mut data = BytesMut::new();
    data.put_u8(0);
    data.put_u32(message.len() as u32);
    data.put_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = vec![Ok(Frame::data(data.freeze())), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(StreamBody::new(futures::stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

impl State {
    fn handle(&mut self, path: &str, body: &[u8]) -> Vec<u8> {
        match path {
            SIGN => {
                let SignRequest { claims } = SignRequest::decode(body).unwrap();
                let header = URL_SAFE_NO_PAD.encode(&self.header);
                let signature = self.key.sign(format!("{header}.{claims}").as_bytes()).unwrap();
                SignResponse { header, signature: URL_SAFE_NO_PAD.encode(signature) }.encode_to_vec()
            }
            FETCH_KEYS => {
                self.fetches += 1;
                let key = Key {
                    key_id: self.key_id.clone(),
                    key: self.der.clone(),
                    exclude_from_oidc_discovery: self.excluded,
                };
                FetchKeysResponse {
                    keys: vec![key],
                    data_timestamp: Some(DataTimestamp { seconds: 1_700_000_000, nanos: 0 }),
                    refresh_hint_seconds: self.refresh,
                }
                .encode_to_vec()
            }
            METADATA => MetadataResponse { max_token_expiration_seconds: self.life }.encode_to_vec(),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn another_process_signs() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("signer.sock");
    let state = start(&socket);
    let signer = ExternalSigner::connect(socket.to_str().unwrap()).await.unwrap();
    assert_eq!((signer.max_seconds, signer.discoverable().len()), (7200, 1));
    let issuer = Issuer::new("https://issuer", Signer::External(signer.clone()));
    let token = issuer.issue(crate::service_account::Claims::default()).await.unwrap();
    let parsed = crate::jws::Jws::parse(&token).unwrap();
    assert!(signer.find("k1").await[0].signed(&parsed));
    assert_eq!(parsed.claims().unwrap().str_at(&["iss"]), "https://issuer");
    for (header, want) in [
        (r#"{"alg":"RS256","kid":"k1"}"#, "bad type"),
        (r#"{"alg":"RS256","typ":"JWT"}"#, "key id missing"),
        (r#"{"alg":"none","kid":"k1","typ":"JWT"}"#, "bad signing algorithm \"none\""),
        (r#"{"alg":"RS256","kid":"k1","typ":"JWT","x":1}"#, "while parsing header JSON: json: unknown field \"x\""),
    ] {
        state.lock().unwrap().header = header.into();
        assert_eq!(signer.sign(b"{}").await, Err(format!("while validating header: {want}")));
    }
    // A key that is not known is looked for, once.
    let before = state.lock().unwrap().fetches;
    state.lock().unwrap().key_id = "k2".into();
    assert_eq!(signer.find("k2").await.len(), 1);
    assert!(signer.find("k1").await.is_empty());
    assert_eq!(state.lock().unwrap().fetches, before + 2);
    // Keys that others may not know must not sign.
    {
        let mut state = state.lock().unwrap();
        (state.excluded, state.key_id, state.header) =
            (true, "k3".into(), r#"{"alg":"RS256","kid":"k3","typ":"JWT"}"#.into());
    }
    let refused = signer.sign(b"{}").await.unwrap_err();
    assert!(refused.ends_with("(kid: k3) is excluded from OIDC discovery docs"), "{refused}");
    assert!(signer.discoverable().is_empty());
    let mut metrics = String::new();
    signer.write_metrics(&mut metrics).unwrap();
    assert!(metrics.contains("apiserver_externaljwt_sign_request_total{code=\"OK\"} 1"), "{metrics}");
    assert!(metrics.contains("apiserver_externaljwt_fetch_keys_data_timestamp 1.7e+09"), "{metrics}");
}

#[tokio::test]
async fn signers_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("signer.sock");
    let state = start(&socket);
    let connect = || ExternalSigner::connect(socket.to_str().unwrap());
    state.lock().unwrap().life = 60;
    let want = "max token life supported by external-jwt-signer (60s) is less than acceptable (min 600s)";
    assert_eq!(connect().await.err().unwrap(), want);
    state.lock().unwrap().refresh = 0;
    let refused = connect().await.err().unwrap();
    assert!(
        refused.starts_with("while setting up external-jwt-signer: ")
            && refused.ends_with("found invalid refresh hint (0s)"),
        "{refused}"
    );
    state.lock().unwrap().refresh = 1;
    state.lock().unwrap().der = vec![1, 2, 3];
    assert!(connect().await.err().unwrap().contains("while parsing external public keys"));
}
