//! [`Answers`]: how many bytes of answers are in memory because their clients have not read them yet, by user.
//!
//! Each user has a share, so that a client that does not read takes nothing from others. A user that has used it up gets no new
//! answers (429), and those that are being sent go on when some of the user's others have been read. Where all users together
//! have too much, each may still have one piece at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// So much of one user's answers may be unread.
const USER_BYTES_MAX: usize = 128 * 1024 * 1024;
/// So much of all users' answers may be unread.
const BYTES_MAX: usize = 512 * 1024 * 1024;
/// Smaller answers are not counted: there are no more of them than connections have streams.
pub const COUNTED_BYTES: usize = 8 * 1024;

/// The answers that are being sent.
pub struct Answers {
    user_bytes_max: usize,
    bytes_max: usize,
    state: Mutex<AnswersState>,
}

#[derive(Default)]
struct AnswersState {
    bytes: usize,
    waiting: usize,
    users: HashMap<Arc<str>, Account>,
}

/// One user's answers.
#[derive(Default)]
struct Account {
    bytes: usize,
    waiting: VecDeque<WaitingAnswer>,
}

struct WaitingAnswer {
    bytes: usize,
    granted: oneshot::Sender<Room>,
}

/// Room for a piece of an answer, given back when this is dropped.
pub struct Room {
    answers: Arc<Answers>,
    user: Arc<str>,
    bytes: usize,
}

/// The answer to asking for room.
pub enum Asked {
    Here(Room),
    /// It comes when other answers of the user have been read.
    Later(oneshot::Receiver<Room>),
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { user_bytes_max: USER_BYTES_MAX, bytes_max: BYTES_MAX, state: Mutex::default() }
    }
}

impl Answers {
    /// How many bytes have not been read yet.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Whether a user may have another answer.
    pub fn admit(&self, user: &str) -> bool {
        let state = self.state.lock();
        state.users.get(user).is_none_or(|account| self.fits(state.bytes, account.bytes, 1))
    }

    fn fits(&self, all: usize, of_user: usize, bytes: usize) -> bool {
        of_user == 0 || of_user + bytes <= self.user_bytes_max && all + bytes <= self.bytes_max
    }

    /// Counts a piece that is in memory already.
    pub fn take(self: &Arc<Self>, user: &Arc<str>, bytes: usize) -> Room {
        self.state.lock().add(user, bytes);
        Room { answers: self.clone(), user: user.clone(), bytes }
    }

    /// Asks for room for a piece that is about to be made.
    pub fn ask(self: &Arc<Self>, user: &Arc<str>, bytes: usize) -> Asked {
        let mut state = self.state.lock();
        let all = state.bytes;
        let account = state.users.entry(user.clone()).or_default();
        if account.waiting.is_empty() && self.fits(all, account.bytes, bytes) {
            state.add(user, bytes);
            return Asked::Here(Room { answers: self.clone(), user: user.clone(), bytes });
        }
        let (granted, later) = oneshot::channel();
        account.waiting.push_back(WaitingAnswer { bytes, granted });
        state.waiting += 1;
        Asked::Later(later)
    }

    /// Waits for room for a piece that is about to be made.
    pub async fn room(self: &Arc<Self>, user: &Arc<str>, bytes: usize) -> Room {
        match self.ask(user, bytes) {
            Asked::Here(room) => room,
            // The other end is only dropped with the answers themselves.
            Asked::Later(later) => later.await.unwrap_or_else(|_| self.take(user, bytes)),
        }
    }

    fn give_back(self: &Arc<Self>, user: &Arc<str>, bytes: usize) {
        let granted = {
            let mut state = self.state.lock();
            state.remove(user, bytes);
            if state.waiting == 0 { Vec::new() } else { self.grant(&mut state) }
        };
        // Not with the lock: whoever does not wait any more gives the room back at once.
        for (waiting, room) in granted {
            drop(waiting.send(room));
        }
    }

    /// Gives room to those who wait for it, while there is some.
    fn grant(self: &Arc<Self>, state: &mut AnswersState) -> Vec<(oneshot::Sender<Room>, Room)> {
        let mut granted = Vec::new();
        let AnswersState { bytes: all, waiting, users } = state;
        for (user, account) in users.iter_mut() {
            while let Some(first) = account.waiting.pop_front() {
                let is_gone = first.granted.is_closed();
                if !is_gone && !self.fits(*all, account.bytes, first.bytes) {
                    account.waiting.push_front(first);
                    break;
                }
                *waiting -= 1;
                if !is_gone {
                    *all += first.bytes;
                    account.bytes += first.bytes;
                    let room = Room { answers: self.clone(), user: user.clone(), bytes: first.bytes };
                    granted.push((first.granted, room));
                }
            }
        }
        users.retain(|_, account| account.bytes > 0 || !account.waiting.is_empty());
        granted
    }
}

impl AnswersState {
    fn add(&mut self, user: &Arc<str>, bytes: usize) {
        self.bytes += bytes;
        self.users.entry(user.clone()).or_default().bytes += bytes;
    }

    fn remove(&mut self, user: &Arc<str>, bytes: usize) {
        self.bytes -= bytes;
        if let Some(account) = self.users.get_mut(user) {
            account.bytes -= bytes;
            if account.bytes == 0 && account.waiting.is_empty() {
                self.users.remove(user);
            }
        }
    }
}

impl Room {
    /// The piece, which gives the room back when it has been sent.
    pub fn hold(mut self, piece: Bytes) -> Bytes {
        if piece.len() < COUNTED_BYTES {
            return piece;
        }
        self.resize(piece.len());
        Bytes::from_owner(HeldPiece { piece, _room: self })
    }

    /// The piece turned out larger or smaller.
    pub fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.answers.state.lock().add(&self.user, more),
            None => self.answers.give_back(&self.user, self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.answers.give_back(&self.user, self.bytes);
    }
}

struct HeldPiece {
    piece: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for HeldPiece {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn small() -> Arc<Answers> {
        Arc::new(Answers { user_bytes_max: 10, bytes_max: 25, state: Mutex::default() })
    }

    fn users<const N: usize>() -> [Arc<str>; N] {
        std::array::from_fn(|at| format!("user {at}").into())
    }

    #[test]
    fn a_user_waits_for_its_own_answers_only() {
        let answers = small();
        let [hog, polite] = users();
        let first = answers.take(&hog, 8);
        let mut waits = Box::pin(answers.room(&hog, 3));
        assert!(waits.as_mut().now_or_never().is_none());
        let mut behind = Box::pin(answers.room(&hog, 1));
        assert!(behind.as_mut().now_or_never().is_none(), "those who came first are first");
        assert!(answers.admit(&polite) && answers.room(&polite, 9).now_or_never().is_some());
        drop(first);
        assert!(waits.as_mut().now_or_never().is_some() && behind.as_mut().now_or_never().is_some());
        assert_eq!((answers.bytes(), answers.state.lock().users.len()), (0, 0));
    }

    #[test]
    fn everybody_gets_one_piece() {
        let answers = small();
        let [one, two, three, four] = users();
        let held = [&one, &two, &three].map(|user| answers.take(user, 9));
        assert!(!answers.admit(&one) && answers.admit(&four));
        let piece = answers.room(&four, 9).now_or_never().unwrap();
        let mut more = Box::pin(answers.room(&four, 1));
        assert!(more.as_mut().now_or_never().is_none());
        drop(held);
        assert!(more.as_mut().now_or_never().is_some());
        drop(piece);
        assert_eq!(answers.bytes(), 0);
    }

    #[test]
    fn room_that_nobody_waits_for_any_more_is_given_back() {
        let answers = small();
        let [user] = users();
        let held = answers.take(&user, 10);
        let mut gone = Box::pin(answers.room(&user, 5));
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        drop(held);
        assert_eq!((answers.bytes(), answers.state.lock().waiting), (0, 0));
    }

    #[test]
    fn pieces_are_counted_until_they_were_sent() {
        let answers = Arc::new(Answers::default());
        let [user] = users();
        let piece = answers.take(&user, 1).hold(Bytes::from(vec![0; COUNTED_BYTES]));
        let sent = piece.slice(1..);
        drop(piece);
        assert_eq!((sent.len(), answers.bytes()), (COUNTED_BYTES - 1, COUNTED_BYTES));
        drop(sent);
        assert_eq!(answers.bytes(), 0);
    }
}
