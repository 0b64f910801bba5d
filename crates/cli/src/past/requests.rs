//! Requests of the commands: with the administrator's certificate, or through kubectl.

use std::io::Write;
use std::process::{Command, Stdio};

use clap::ArgMatches;
use object::Value;

use apiserver::{Pki, kubeconfig};

use crate::{client, data_dir_of};

/// How requests are sent.
pub enum Api {
    Own { pki: Pki, server: String },
    Kubectl,
}

impl Api {
    pub fn of(matches: &ArgMatches) -> Result<Api, String> {
        if matches.get_flag("kubectl") {
            return Ok(Api::Kubectl);
        }
        let data_dir = data_dir_of(matches);
        let server = match matches.get_one::<String>("server") {
            Some(url) => url.clone(),
            None => kubeconfig::server_of(&data_dir.join("kubeconfig")).map_err(|error| {
                format!("where the server is cannot be read from {}: {error}; give --server", data_dir.display())
            })?,
        };
        Ok(Api::Own { pki: Pki::at(&data_dir.join("pki")), server })
    }

    /// GET; an error is what the server says.
    pub fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let answer = self.request("GET", path, query, None)?;
        match answer.str_at(&["kind"]) {
            "Status" => Err(answer.str_at(&["message"]).to_string()),
            _ => Ok(answer),
        }
    }

    /// GET of what may not be there.
    pub fn find(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Value>, String> {
        let answer = self.request("GET", path, query, None);
        let is_missing = |text: &str| text.contains("(NotFound)");
        match answer {
            Err(why) if matches!(self, Api::Kubectl) && is_missing(&why) => Ok(None),
            Err(why) => Err(why),
            Ok(answer) if answer.str_at(&["reason"]) == "NotFound" => Ok(None),
            Ok(answer) if answer.str_at(&["kind"]) == "Status" => Err(answer.str_at(&["message"]).to_string()),
            Ok(answer) => Ok(Some(answer)),
        }
    }

    /// POST or PUT.
    pub fn send(&self, method: &str, path: &str, query: &[(&str, &str)], body: &Value) -> Result<Value, String> {
        let mut json = Vec::new();
        codec::json::encode(body, None, &mut json);
        let answer = self.request(method, path, query, Some(json))?;
        match answer.str_at(&["kind"]) {
            "Status" => Err(answer.str_at(&["message"]).to_string()),
            _ => Ok(answer),
        }
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Value, String> {
        let mut url = path.to_string();
        let given = query.iter().filter(|(_, value)| !value.is_empty());
        for (at, (name, value)) in given.enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            object::percent_encode(value, object::is_unreserved, &mut url);
        }
        let bytes = match self {
            Api::Kubectl => through_kubectl(method, &url, body)?,
            Api::Own { pki, server } => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| error.to_string())?;
                runtime.block_on(client::request(pki, server, method, &url, body))?
            }
        };
        codec::json::decode(&bytes, None, &mut codec::Notes::ignore()).map_err(|error| error.to_string())
    }
}

fn through_kubectl(method: &str, url: &str, body: Option<Vec<u8>>) -> Result<Vec<u8>, String> {
    let verb = match method {
        "GET" => "get",
        "POST" => "create",
        _ => "replace",
    };
    let mut command = Command::new("kubectl");
    command.args([verb, "--raw", url]).stdout(Stdio::piped()).stderr(Stdio::piped());
    if body.is_some() {
        command.args(["-f", "-"]).stdin(Stdio::piped());
    }
    let failed = |error: std::io::Error| format!("cannot run kubectl: {error}");
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(body), Some(mut input)) = (body, child.stdin.take()) {
        input.write_all(&body).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    }
}
