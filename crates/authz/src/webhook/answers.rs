//! [`Answers`]: what a webhook said about the same questions a little while ago.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use tokio::time::Instant;

use super::Answer;

/// As many answers as upstream remembers, and how many bytes they may take with their questions.
const ANSWERS_MAX: usize = 8192;
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Answers by question. When there are too many the oldest leave.
#[derive(Default)]
pub struct Answers {
    known: HashMap<Bytes, (Answer, Instant)>,
    /// Questions in the order they were answered, each once.
    order: VecDeque<Bytes>,
    bytes: usize,
}

impl Answers {
    pub fn get(&mut self, question: &Bytes, now: Instant) -> Option<Answer> {
        let (answer, until) = self.known.get(question)?;
        (now < *until).then(|| answer.clone())
    }

    pub fn put(&mut self, question: Bytes, answer: Answer, now: Instant, ttl: Duration) {
        self.bytes += size(&question, &answer);
        if let Some((old, _)) = self.known.insert(question.clone(), (answer, now + ttl)) {
            self.bytes -= size(&question, &old);
        } else {
            self.order.push_back(question);
        }
        while self.known.len() > ANSWERS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some((answer, _)) = self.known.remove(&oldest) {
                self.bytes -= size(&oldest, &answer);
            }
        }
    }
}

fn size(question: &Bytes, answer: &Answer) -> usize {
    question.len() + answer.reason.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_and_are_bounded() {
        let mut answers = Answers::default();
        let now = Instant::now();
        let question = |at: usize| Bytes::from(format!("q{at}"));
        let ttl = Duration::from_secs(1);
        for at in 0..=ANSWERS_MAX {
            answers.put(question(at), Answer { allowed: true, ..Answer::default() }, now, ttl);
        }
        assert_eq!(answers.get(&question(0), now), None);
        assert!(answers.get(&question(1), now).is_some());
        assert_eq!(answers.get(&question(1), now + ttl), None);
        let long = Answer { reason: "x".repeat(BYTES_MAX / 2), ..Answer::default() };
        for at in 0..3 {
            answers.put(question(at), long.clone(), now, ttl);
        }
        assert!(answers.bytes <= BYTES_MAX);
        assert_eq!(answers.known.len(), answers.order.len());
        assert!(answers.get(&question(2), now).is_some());
    }
}
