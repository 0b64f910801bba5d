//! A real etcd and just enough of its protocol to compare with: one transaction that writes a key at a known revision,
//! as an API server sends it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use storage::{Key, Revision};
use tonic::transport::{Channel, Endpoint};

use crate::writes::Target;

pub struct Server {
    process: Child,
    url: String,
}

impl Server {
    pub async fn start(binary: &Path, dir: &Path) -> Self {
        let (client, peer) = (free_port(), free_port());
        let url = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let process = Command::new(binary)
            .args(["--name", "bench", "--data-dir"])
            .arg(dir.join("data"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("bench={peer}")])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Server { process, url };
        for _ in 0..100 {
            if let Ok(channel) = server.endpoint().connect().await
                && swap(channel, "/ready".into(), 0, Bytes::new()).await.is_ok()
            {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("etcd does not answer, see {}", dir.join("log").display());
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(self.url.clone()).unwrap()
    }

    pub async fn client(self) -> Client {
        let channel = self.endpoint().connect().await.unwrap();
        Client { channel, _server: self }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

pub struct Client {
    channel: Channel,
    _server: Server,
}

#[async_trait::async_trait]
impl Target for Client {
    async fn swap(&self, key: Key, expected: Revision, value: Bytes) -> Revision {
        swap(self.channel.clone(), key, expected, value).await.unwrap()
    }
}

async fn swap(channel: Channel, key: Key, expected: Revision, value: Bytes) -> Result<Revision, tonic::Status> {
    let compare = Compare { result: 0, target: 2, key: key.to_bytes(), mod_revision: Some(expected) };
    let put = RequestOp { put: Some(Put { key: key.to_bytes(), value }) };
    let request = Txn { compare: vec![compare], success: vec![put] };
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static("/etcdserverpb.KV/Txn");
    let codec = tonic_prost::ProstCodec::<Txn, TxnAnswer>::default();
    let answer = client.unary(tonic::Request::new(request), path, codec).await?.into_inner();
    assert!(answer.succeeded);
    Ok(answer.header.map_or(0, |header| header.revision))
}

#[derive(Clone, PartialEq, prost::Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    key: Bytes,
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
