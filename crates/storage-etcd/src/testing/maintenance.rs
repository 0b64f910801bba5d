//! What administrators of etcd do, through the JSON form of its API.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Cluster, PATIENCE};

/// Between attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// A change of the members that was passed on to a leader that is gone is never answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// What is said to a change of the members that an earlier attempt without an answer has made.
const DONE_ALREADY: [&str; 2] = ["member not found", "Peer URLs already exists"];

impl Cluster {
    /// Lets all members refuse writes as if their quota were used up, or takes writes again.
    pub fn set_full(&self, n: usize, is_full: bool) -> Result<(), String> {
        let action = if is_full { "ACTIVATE" } else { "DEACTIVATE" };
        let member = self.member_id(n)?;
        let body = format!("{{\"action\":\"{action}\",\"memberID\":\"{member}\",\"alarm\":\"NOSPACE\"}}");
        self.post(n, "/v3/maintenance/alarm", &body).map(drop)
    }

    /// Defragments the database of a member, which does not answer meanwhile.
    pub fn defragment(&self, n: usize) -> Result<(), String> {
        self.post(n, "/v3/maintenance/defragment", "{}").map(drop)
    }

    /// Replaces a member by a new one without data at the same address.
    pub fn replace(&mut self, n: usize) -> Result<(), String> {
        let other = (n + 1) % self.members.len();
        let id = self.member_id(n)?;
        // It goes while all members can still agree.
        let removed = self.post(other, "/v3/cluster/member/remove", &format!("{{\"ID\":\"{id}\"}}"));
        done(removed)?;
        self.kill(n);
        let peer = format!("http://127.0.0.1:{}", self.members[n].peer);
        let added = self.post(other, "/v3/cluster/member/add", &format!("{{\"peerURLs\":[\"{peer}\"]}}"));
        done(added)?;
        self.members[n].replaced += 1;
        self.revive(n);
        Ok(())
    }

    /// The identity of a member in the cluster, by its name.
    fn member_id(&self, n: usize) -> Result<String, String> {
        let other = (0..self.members.len()).find(|other| self.members[*other].process.is_some()).unwrap_or(n);
        let list = self.post(other, "/v3/cluster/member/list", "{}")?;
        let at = list.find(&format!("\"name\":\"{}\"", self.members[n].name)).ok_or("the member is not listed")?;
        let before = list[..at].rfind("\"ID\":\"").ok_or("the member has no identity")?;
        Ok(list[before + 6..at].split('"').next().unwrap_or_default().to_string())
    }

    /// Asks until the cluster is well enough to do it: a member that was killed a moment ago counts as unhealthy.
    fn post(&self, n: usize, path: &str, body: &str) -> Result<String, String> {
        let began = Instant::now();
        loop {
            match self.try_post(n, path, body) {
                Err(why) if is_done_already(&why) => return Err(why),
                Err(_) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                outcome => return outcome,
            }
        }
    }

    fn try_post(&self, n: usize, path: &str, body: &str) -> Result<String, String> {
        let ask = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.members[n].client))?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.set_write_timeout(Some(Duration::from_secs(5)))?;
            let length = body.len();
            write!(
                stream,
                "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            )?;
            stream.write_all(body.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = ask().map_err(|error| format!("{path}: {error}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.split(' ').nth(1) == Some("200") { Ok(body.to_string()) } else { Err(format!("{path}: {answer}")) }
    }
}

fn is_done_already(why: &str) -> bool {
    DONE_ALREADY.iter().any(|known| why.contains(known))
}

fn done(outcome: Result<String, String>) -> Result<(), String> {
    match outcome {
        Err(why) if !is_done_already(&why) => Err(why),
        _ => Ok(()),
    }
}
