//! The tunnel against a server that speaks konnectivity's protocol.

use std::convert::Infallible;
use std::path::Path;

use bytes::{Buf, BufMut};
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use prost::Message;
use tokio::net::{TcpListener, TcpStream, UnixListener};

use super::*;

/// A proxy that connects to what it is asked for; to nothing at port 1.
fn start(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(answer);
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
        }
    });
}

type Frames = stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>;

async fn answer(request: http::Request<Incoming>) -> Result<Response<StreamBody<Frames>>, Infallible> {
    assert_eq!(request.uri().path(), PROXY);
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(serve(request.into_body(), sender));
    let frames = stream::unfold(receiver, |mut receiver| async {
        let packet: Packet = receiver.recv().await?;
        let mut data = BytesMut::new();
        data.put_u8(0);
        data.put_u32(packet.encoded_len() as u32);
        data.put_slice(&packet.encode_to_vec());
        Some((Ok(Frame::data(data.freeze())), receiver))
    });
    let body: Frames = Box::pin(frames);
    let response = Response::builder().header(header::CONTENT_TYPE, "application/grpc");
    Ok(response.body(StreamBody::new(body)).unwrap())
}

async fn serve(mut body: Incoming, packets: mpsc::Sender<Packet>) {
    let (mut buffer, mut backend) = (BytesMut::new(), None);
    while let Some(payload) = next(&mut body, &mut buffer).await {
        match payload {
            Payload::DialRequest(DialRequest { protocol, address, random }) => {
                assert_eq!(protocol, "tcp");
                let error = if address.ends_with(":1") { "dial tcp: no route".to_string() } else { String::new() };
                let connect_id = 7;
                if error.is_empty() {
                    let (mut reader, writer) = TcpStream::connect(&address).await.unwrap().into_split();
                    backend = Some(writer);
                    let packets = packets.clone();
                    tokio::spawn(async move {
                        let mut data = BytesMut::new();
                        while reader.read_buf(&mut data).await.unwrap_or(0) > 0 {
                            let data = Data { connect_id, error: String::new(), data: data.split().freeze() };
                            let _ = packets.send(Payload::Data(data).packet()).await;
                        }
                        let closed = CloseResponse { connect_id, error: String::new() };
                        let _ = packets.send(Payload::CloseResponse(closed).packet()).await;
                    });
                }
                let response = DialResponse { error, connect_id, random };
                packets.send(Payload::DialResponse(response).packet()).await.unwrap();
            }
            Payload::Data(data) => backend.as_mut().unwrap().write_all(&data.data).await.unwrap(),
            _ => return,
        }
    }
}

/// The next message of a gRPC stream.
async fn next(body: &mut Incoming, buffer: &mut BytesMut) -> Option<Payload> {
    loop {
        if let Some(mut head) = buffer.get(1..5) {
            let length = head.get_u32() as usize;
            if buffer.len() >= 5 + length {
                buffer.advance(5);
                return Packet::decode(buffer.split_to(length)).unwrap().payload;
            }
        }
        let frame = body.frame().await?.ok()?;
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
}

#[tokio::test]
async fn bytes_go_through_the_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("konnectivity.sock");
    start(&socket);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        }
    });
    let tunnel = Tunnel { socket, meters: Arc::default() };
    let mut stream = tunnel.dial(&Address { host: "127.0.0.1".into(), port }).await.unwrap();
    // More than the buffers hold, so that both directions must flow at once.
    let sent: Vec<u8> = (0..400_000u32).map(|at| (at % 251) as u8).collect();
    let mut echoed = vec![0; sent.len()];
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let (written, read) = tokio::join!(writer.write_all(&sent), reader.read_exact(&mut echoed));
    written.unwrap();
    read.unwrap();
    assert!(echoed == sent);
    let refused = tunnel.dial(&Address { host: "127.0.0.1".into(), port: 1 }).await.err().unwrap();
    assert_eq!(refused.to_string(), "dial tcp: no route");
}
