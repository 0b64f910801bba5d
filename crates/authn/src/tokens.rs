//! `--token-auth-file`: tokens in a CSV file, `token,user,uid[,"group1,group2"]`.

use std::collections::HashMap;
use std::path::Path;

use request::User;

use crate::{Identity, Refused, Token, TokenMethod};

pub struct TokenFile {
    users: HashMap<String, User>,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("cannot read the token file: {0}")]
    Read(#[from] std::io::Error),
    #[error("line {0} of the token file must have at least 3 columns (token, user name, user uid)")]
    Columns(usize),
    #[error("line {0} of the token file has an unfinished quote")]
    Quote(usize),
}

impl TokenFile {
    pub fn read(path: &Path) -> Result<TokenFile, TokenFileError> {
        TokenFile::parse(&std::fs::read_to_string(path)?)
    }

    pub fn parse(text: &str) -> Result<TokenFile, TokenFileError> {
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let columns = columns(line).ok_or(TokenFileError::Quote(number + 1))?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(TokenFileError::Columns(number + 1));
            };
            if token.is_empty() {
                tracing::warn!(line = number + 1, "empty token has been found in the token file");
                continue;
            }
            let groups =
                rest.first().map(|groups| groups.split(',').filter(|g| !g.is_empty()).map(Into::into).collect());
            let user =
                User { name: name.clone(), uid: uid.clone(), groups: groups.unwrap_or_default(), ..User::default() };
            users.insert(token.clone(), user);
        }
        Ok(TokenFile { users })
    }
}

/// The columns of a CSV line; None if a quote does not end.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let column = columns.last_mut()?;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c if !quoted && c.is_whitespace() && column.is_empty() => {}
            c => column.push(c),
        }
    }
    (!quoted).then_some(columns)
}

#[async_trait::async_trait]
impl TokenMethod for TokenFile {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused> {
        let user = self.users.get(token.text).cloned();
        Ok(user.map(|user| Identity { user, ..Identity::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_one_quoted_column() {
        let file = TokenFile::parse("t1,admin,u1,\"system:masters,devs\"\n\nt2, bob ,u2\n").unwrap();
        assert_eq!(file.users["t1"].groups, ["system:masters", "devs"]);
        assert_eq!(file.users["t2"].uid, "u2");
        assert!(matches!(TokenFile::parse("a,b"), Err(TokenFileError::Columns(1))));
        assert!(matches!(TokenFile::parse("a,b,c,\"d"), Err(TokenFileError::Quote(1))));
    }
}
