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
