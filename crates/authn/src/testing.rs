//! What the unit tests share: HTTPS servers that answer as a test tells them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls_pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What a server sends; None closes the connection, and a status of 100 makes it wait for ever.
pub type Answer = Option<(u16, Vec<(&'static str, String)>, Vec<u8>)>;
type Answers = dyn Fn(&str, &[u8]) -> Answer + Send + Sync;

/// An HTTPS server on this machine.
pub struct HttpsServer {
    pub address: SocketAddr,
    /// The certificate that vouches for it, in PEM.
    pub authority: String,
    /// The paths that were asked for, in order.
    pub asked: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<Arc<Answers>>>,
    task: tokio::task::JoinHandle<()>,
}

impl HttpsServer {
    pub async fn start(answers: impl Fn(&str, &[u8]) -> Answer + Send + Sync + 'static) -> HttpsServer {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Mutex<Arc<Answers>>> = Arc::new(Mutex::new(Arc::new(answers)));
        let (seen, current) = (asked.clone(), answers.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen, current) = (acceptor.clone(), seen.clone(), current.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let (seen, current) = (seen.clone(), current.clone());
                        async move {
                            let path = request.uri().path().to_string();
                            let body = request.into_body().collect().await.map(|body| body.to_bytes());
                            seen.lock().unwrap().push(path.clone());
                            let answers = current.lock().unwrap().clone();
                            answer(answers(&path, &body.unwrap_or_default())).await
                        }
                    });
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        HttpsServer { address, authority: made.cert.pem(), asked, answers, task }
    }

    /// Answers differently from now on.
    pub fn answer(&self, answers: impl Fn(&str, &[u8]) -> Answer + Send + Sync + 'static) {
        *self.answers.lock().unwrap() = Arc::new(answers);
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn count(&self, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(answer: Answer) -> Result<Response<Full<Bytes>>, std::io::Error> {
    match answer {
        None => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
        Some((100, _, _)) => std::future::pending().await,
        Some((status, headers, body)) => {
            let mut response = Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            Ok(response)
        }
    }
}
