//! [`relay`]: bytes both ways, unchanged.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::input::Input;

/// Copies bytes both ways until one side closes or fails; then both connections are closed.
pub async fn relay<A, B>(a: A, b: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (a_reads, mut a_writes) = tokio::io::split(a);
    let (b_reads, mut b_writes) = tokio::io::split(b);
    let ended = tokio::select! {
        ended = copy(a_reads, &mut b_writes) => ended,
        ended = copy(b_reads, &mut a_writes) => ended,
    };
    let _ = tokio::join!(a_writes.shutdown(), b_writes.shutdown());
    ended
}

async fn copy<A: AsyncRead, B: AsyncWrite>(from: ReadHalf<A>, to: &mut WriteHalf<B>) -> io::Result<()> {
    let mut input = Input::new(from);
    while let Some(chunk) = input.chunk().await? {
        to.write_all(&chunk).await?;
        to.flush().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways_and_one_end_ends_both() {
        let (mut client, near) = duplex(1000);
        let (mut backend, far) = duplex(1000);
        let relaying = tokio::spawn(relay(near, far));
        let sent: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            backend.write_all(&sent).await.unwrap();
            let mut asked = [0; 3];
            backend.read_exact(&mut asked).await.unwrap();
            assert_eq!(&asked, b"end");
        });
        let mut got = vec![0; expected.len()];
        client.read_exact(&mut got).await.unwrap();
        assert!(got == expected);
        client.write_all(b"end").await.unwrap();
        sending.await.unwrap();
        assert_eq!(client.read(&mut got).await.unwrap(), 0);
        relaying.await.unwrap().unwrap();
    }
}
