use std::future::poll_fn;
use std::task::Waker;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// What has arrived and can be read now.
fn arrived(far: &mut DuplexStream) -> String {
    let mut bytes = vec![0; 1 << 16];
    let mut buffer = ReadBuf::new(&mut bytes);
    let _ = Pin::new(far).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
    String::from_utf8(buffer.filled().to_vec()).unwrap()
}

/// Writes words as h2 does, with a flush after each, and never ends.
async fn write(mut cork: Cork<DuplexStream>, words: Vec<&'static str>) {
    for word in words {
        cork.write_all(word.as_bytes()).await.unwrap();
        cork.flush().await.unwrap();
    }
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn what_one_poll_writes_leaves_together() {
    let (near, mut far) = duplex(1 << 20);
    let (cork, woken) = (Cork::new(near), WokenTasks::default());
    let mut connection = Box::pin(write(cork.clone(), vec!["one ", "two ", "three"]));
    assert_eq!(arrived(&mut far), "");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(cork.poll_connection(&woken, connection.as_mut(), &mut cx).is_pending());
    assert_eq!(arrived(&mut far), "one two three");
    assert!(!cork.is_holding());
}

#[tokio::test]
async fn tasks_that_are_about_to_write_are_waited_for_but_not_for_ever() {
    let (near, mut far) = duplex(1 << 20);
    let (cork, woken) = (Cork::new(near), Arc::new(WokenTasks::default()));
    let mut first = Box::pin(write(cork.clone(), vec!["first"]));
    let mut cx = Context::from_waker(Waker::noop());
    // The poll itself spawns a task, as h2 does when it reads a request.
    let mut reading = Box::pin(async {
        let task = woken.task(std::future::pending::<()>());
        first.as_mut().await;
        drop(task);
    });
    assert!(cork.poll_connection(&woken, reading.as_mut(), &mut cx).is_pending());
    assert_eq!(arrived(&mut far), "", "the task has not run");
    for _ in 0..POSTPONED_MAX {
        assert!(cork.poll_connection(&woken, reading.as_mut(), &mut cx).is_pending());
        assert_eq!(arrived(&mut far), "");
    }
    assert!(cork.poll_connection(&woken, reading.as_mut(), &mut cx).is_pending());
    assert_eq!(arrived(&mut far), "first");
}

#[tokio::test]
async fn order_is_kept_whatever_the_sizes() {
    let (near, mut far) = duplex(100);
    let expected: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let sent = expected.clone();
    tokio::spawn(async move {
        let (mut cork, woken) = (Cork::new(near), WokenTasks::default());
        let own = cork.clone();
        let writing = async move {
            let mut rest = &sent[..];
            for size in [1, 100, HELD_MAX, 7, HELD_MAX + 1, 3 * HELD_MAX].into_iter().cycle() {
                let (part, after) = rest.split_at(size.min(rest.len()));
                cork.write_all(part).await.unwrap();
                cork.flush().await.unwrap();
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            cork.shutdown().await.unwrap();
        };
        let mut writing = Box::pin(writing);
        poll_fn(|cx| own.poll_connection(&woken, writing.as_mut(), cx)).await.unwrap();
    });
    let mut got = Vec::new();
    far.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, expected);
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_waited_for_without_spinning() {
    let (near, mut far) = duplex(10);
    let (cork, woken) = (Cork::new(near), WokenTasks::default());
    let words = vec!["0123456789"; 10];
    let (mut connection, mut polls) = (Box::pin(write(cork.clone(), words)), 0);
    let sending = poll_fn(|cx| {
        polls += 1;
        let polled = cork.poll_connection(&woken, connection.as_mut(), cx);
        assert!(polled.is_pending());
        if cork.is_holding() { Poll::Pending } else { Poll::Ready(()) }
    });
    let reader = async {
        tokio::task::yield_now().await;
        let mut all = [0; 100];
        far.read_exact(&mut all).await.unwrap();
    };
    tokio::join!(sending, reader);
    assert!(polls < 30, "{polls} polls");
}
