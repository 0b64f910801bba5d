//! [`Tunnel`]: connections through konnectivity's proxy server, each over one gRPC stream on a socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::meters::{EgressMeters, Kind, Stage};
use crate::{Address, Dial, Error, Stream};

const KIND: Kind = ["grpc", "uds"];
const PROXY: &str = "/ProxyService/Proxy";
/// How long the proxy may take to be reached, and to connect.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that wait for the other side in each direction.
const BUFFER_BYTES: usize = 64 * 1024;
/// Packets that wait to be sent.
const PACKETS: usize = 4;

pub struct Tunnel {
    pub socket: PathBuf,
    pub meters: Arc<EgressMeters>,
}

/// A message of the proxy's protocol, in both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Packet {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub payload: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Payload {
    #[prost(message, tag = "2")]
    DialRequest(DialRequest),
    #[prost(message, tag = "3")]
    DialResponse(DialResponse),
    #[prost(message, tag = "4")]
    Data(Data),
    #[prost(message, tag = "5")]
    CloseRequest(CloseRequest),
    #[prost(message, tag = "6")]
    CloseResponse(CloseResponse),
    #[prost(message, tag = "7")]
    CloseDial(CloseDial),
    #[prost(message, tag = "8")]
    Drain(Drain),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DialRequest {
    #[prost(string, tag = "1")]
    pub protocol: String,
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(int64, tag = "3")]
    pub random: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DialResponse {
    #[prost(string, tag = "1")]
    pub error: String,
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
    #[prost(int64, tag = "3")]
    pub random: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Data {
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
    #[prost(string, tag = "2")]
    pub error: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CloseRequest {
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CloseResponse {
    #[prost(string, tag = "1")]
    pub error: String,
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CloseDial {
    #[prost(int64, tag = "1")]
    pub random: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Drain {}

impl Payload {
    fn packet(self) -> Packet {
        let kind = match self {
            Payload::DialRequest(_) => 0,
            Payload::DialResponse(_) => 1,
            Payload::CloseRequest(_) => 2,
            Payload::CloseResponse(_) => 3,
            Payload::Data(_) => 4,
            Payload::CloseDial(_) => 5,
            Payload::Drain(_) => 6,
        };
        Packet { kind, payload: Some(self) }
    }
}

#[async_trait]
impl Dial for Tunnel {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        let began = Instant::now();
        self.meters.started(KIND);
        let connected = tokio::time::timeout(TIMEOUT, self.connect()).await;
        let connected = connected.map_err(|_| "context deadline exceeded".to_string()).and_then(|channel| channel);
        let channel = connected.inspect_err(|_| self.meters.failed(KIND, Stage::Connect))?;
        let opened = tokio::time::timeout(TIMEOUT, open(channel, address)).await;
        let opened = opened.map_err(|_| "dial timeout, backstop".to_string()).and_then(|stream| stream);
        let stream = opened.inspect_err(|_| self.meters.failed(KIND, Stage::Proxy))?;
        self.meters.connected(KIND, began.elapsed());
        Ok(stream)
    }
}

impl Tunnel {
    async fn connect(&self) -> Result<Channel, String> {
        // The address only names the server in headers; every connection goes to the socket.
        let endpoint = Endpoint::from_static("http://localhost");
        let path = self.socket.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // tonic hides the cause, so it is looked for first.
        UnixStream::connect(&self.socket).await.map_err(|error| {
            let (path, why) = (self.socket.display(), crate::in_gos_words(&error));
            format!("connection error: desc = \"transport: error while dialing: dial unix {path}: connect: {why}\"")
        })?;
        endpoint.connect_with_connector(connector).await.map_err(|error| error.to_string())
    }
}

/// Asks the proxy for a connection and carries its bytes in packets.
async fn open(channel: Channel, address: &Address) -> Result<Box<dyn Stream>, String> {
    let random = rand::random::<i64>();
    let (sender, receiver) = mpsc::channel::<Packet>(PACKETS);
    let request = DialRequest { protocol: "tcp".into(), address: address.to_string(), random };
    let closed = |_| "the proxy has closed the tunnel".to_string();
    sender.send(Payload::DialRequest(request).packet()).await.map_err(closed)?;
    let outgoing = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| error.to_string())?;
    let codec: ProstCodec<Packet, Packet> = ProstCodec::default();
    let path = http::uri::PathAndQuery::from_static(PROXY);
    let response = grpc.streaming(Request::new(outgoing), path, codec).await;
    let mut incoming = response.map_err(|status| status.message().to_string())?.into_inner();
    let connect_id = loop {
        let packet = incoming.message().await.map_err(|status| status.message().to_string())?;
        match packet.and_then(|packet| packet.payload) {
            Some(Payload::DialResponse(response)) if response.random == random => match response.error.as_str() {
                "" => break response.connect_id,
                error => return Err(error.to_string()),
            },
            Some(Payload::CloseDial(_)) => return Err("dial closed".into()),
            Some(_) => {}
            None => return Err("the proxy has closed the tunnel".into()),
        }
    };
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let (reader, writer) = tokio::io::split(theirs);
    tokio::spawn(send(reader, sender, connect_id));
    tokio::spawn(receive(writer, incoming, connect_id));
    Ok(Box::new(ours))
}

/// Until the connection is closed on our side.
async fn send(mut reader: ReadHalf<DuplexStream>, packets: mpsc::Sender<Packet>, connect_id: i64) {
    loop {
        let mut data = BytesMut::with_capacity(BUFFER_BYTES);
        let payload = match reader.read_buf(&mut data).await {
            Ok(read) if read > 0 => Payload::Data(Data { connect_id, error: String::new(), data: data.freeze() }),
            _ => Payload::CloseRequest(CloseRequest { connect_id }),
        };
        let is_last = matches!(payload, Payload::CloseRequest(_));
        if packets.send(payload.packet()).await.is_err() || is_last {
            return;
        }
    }
}

/// Until the proxy closes the connection or the tunnel.
async fn receive(mut writer: WriteHalf<DuplexStream>, mut incoming: Streaming<Packet>, connect_id: i64) {
    while let Ok(Some(packet)) = incoming.message().await {
        let ends = match packet.payload {
            Some(Payload::Data(data)) if data.connect_id == connect_id => writer.write_all(&data.data).await.is_err(),
            Some(Payload::CloseResponse(response)) => response.connect_id == connect_id,
            _ => false,
        };
        if ends {
            break;
        }
    }
    // The reader on our side sees the end; an error here means that it is gone already.
    let _ = writer.shutdown().await;
}

#[cfg(test)]
mod tests;
