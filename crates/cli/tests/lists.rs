//! A whole server with the parameters of lists: the commands that ask for them, and what discovery says.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::process::Command;

use object::{Value, value};
use support::{Client, Node};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(client: &mut Client, path: &str, object: Value) {
    let (code, answer) = client.ask("POST", path, &object).await;
    assert!(code < 300, "{path}: {answer:?}");
}

/// Runs a command; what it printed, or why it failed.
async fn run(node: &Node, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokube"));
    command.args(arguments).arg("--data-dir").arg(node.directory()).arg(["--server=", &node.url()].concat());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_show_tables() {
    let node = Node::start(&[], "10.7.0.0/24").await;
    let mut client = node.client().await;
    create(&mut client, "/api/v1/namespaces", value!({"metadata": {"name": "other"}})).await;
    for (namespace, name, n) in [("default", "one", "3"), ("default", "two", "1"), ("other", "three", "2")] {
        let object =
            value!({"metadata": {"name": name, "labels": {"app": "lists"}}, "data": {"n": n, "text": "two words"}});
        create(&mut client, &["/api/v1/namespaces", namespace, "configmaps"].join("/"), object).await;
    }
    for (arguments, wanted) in [
        (&["count", "cm", "-l", "app=lists"][..], &["COUNT   BYTES", "2 "][..]),
        (
            &["count", "configmaps", "-A", "--filter", "has(object.data.n)", "--by", "data.n"],
            &["data.n", "1        1", "3        1"],
        ),
        (
            &["top-n", "cm", "-A", "-l", "app=lists", "--by=-data.n", "--limit=2"],
            &["NAMESPACE   NAME    data.n   AGE", "default     one     3", "other       three   2"],
        ),
        (
            &["get", "cm", "--filter", "object.data.n == '1'", "--fields", "data.n,data.text"],
            &["NAME   data.n   data.text   AGE", "two    1        two words"],
        ),
        (&["get", "cm", "--filter", "object.metadata.name == 'none'"], &["nothing found"]),
        (
            &["find", "label:app=lists", "t"],
            &["KIND        NAMESPACE   NAME", "ConfigMap   default     two", "ConfigMap   other       three"],
        ),
        (&["find", "text:two words", "resource:cm", "namespace:other"], &["three"]),
    ] {
        let said = run(&node, arguments).await.unwrap();
        // The padding of columns depends on the widest cell.
        assert!(wanted.iter().all(|text| said.contains(text)), "{arguments:?}: {said}");
    }
    for (arguments, why) in [
        (&["count", "nonsense"][..], "no resource nonsense"),
        (&["get", "cm", "--filter", "object."], "invalid filter"),
        (&["find", "lable:x"], "begins with none of name"),
        (&["top-n", "cm"], "--by"),
    ] {
        let said = run(&node, arguments).await.unwrap_err();
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    assert_eq!(client.ask("GET", &[MAPS, "?count=true"].concat(), &Value::Null).await.0, 200);
    // Discovery is upstream's unless a client asks.
    for (path, is_named) in [("/apis", false), ("/apis?extensions=true", true), ("/openapi/v3?extensions=true", true)] {
        assert_eq!(client.text(path).await.contains("lists.ferrokube.io"), is_named, "{path}");
    }
    node.stop().await;
}
