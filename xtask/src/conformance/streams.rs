//! kubectl's exec, attach, cp, port-forward, logs, proxy and debug through the server to the streaming code of real kubelets,
//! once for each protocol that kubectl and kubelets may speak.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::lab::{Kubectl, Lab, Server, TOKEN, free_port, wait_for};
use crate::components;

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: NODE}
spec:
  nodeName: NODE
  containers:
  - {name: c, image: none, stdin: true, command: [sh, -c, 'echo started; while read line; do echo "got $line"; done']}
"#;

/// What is run in a shell: input, output and exit code. There `k` is kubectl, `p` a pod, `s` the server's address, `page` speaks
/// WebSocket as a browser does, and `w` is `page` with a token.
struct Case {
    script: &'static str,
    input: &'static str,
    output: &'static str,
    code: i32,
}

const fn case(script: &'static str, input: &'static str, output: &'static str, code: i32) -> Case {
    Case { script, input, output, code }
}

const CASES: &[Case] = &[
    case("$k exec $p -- echo hi", "", "hi\n", 0),
    case("$k exec $p -- sh -c 'echo out; echo err >&2; exit 3' 2>/dev/null", "", "out\n", 3),
    case("$k exec $p -- sh -c 'echo err >&2' 2>&1 >/dev/null", "", "err\n", 0),
    case("$k exec -i $p -- cat", "to the end", "to the end", 0),
    case("$k exec -i $p -- wc -c", "12345", "5\n", 0),
    case("$k exec $p -- nothing-there 2>&1 | grep -c 'executable file not found'", "", "1\n", 0),
    case("head -c 5000000 /dev/zero | $k exec -i $p -- cat | wc -c", "", "5000000\n", 0),
    case("script -qec \"$k exec -it $p -- sh -c 'test -t 0 && test -t 1 && exit 7'\" /dev/null >/dev/null", "", "", 7),
    case("(echo one; sleep 1) | $k attach -q -i $p", "", "got one\n", 0),
    case("$k logs $p --tail=1", "", "got one\n", 0),
    case("$k logs $p --limit-bytes=4", "", "star", 0),
    case("$k logs $p --timestamps | grep -c '^20.*Z started$'", "", "1\n", 0),
    case("timeout 5 $k logs -f $p | head -n 2", "", "started\ngot one\n", 0),
    case("$k logs $p --since-time=not-a-time 2>&1 | grep -c 'cannot parse'", "", "1\n", 0),
    case(
        "$k get --raw \"/api/v1/namespaces/default/pods/$p/log?tailLines=-1\" 2>&1 | grep -c 'greater than or equal to 0'",
        "",
        "1\n",
        0,
    ),
    case(
        "head -c 300000 /dev/urandom > file && $k cp file $p:$PWD/copy && cmp file copy && echo same",
        "",
        "same\n",
        0,
    ),
    case("$k cp $p:$PWD/copy back >/dev/null 2>&1 && cmp file back && echo same", "", "same\n", 0),
    case(
        "timeout 9 $k debug $p --image=none -q -i --attach -- sh -c 'read a; echo debugged $a' 2>/dev/null",
        "x\n",
        "debugged x\n",
        0,
    ),
    case("$k get --raw /api/v1/nodes/$p/proxy/echo/a 2>&1 | grep -c 'address not allowed'", "", "1\n", 0),
    // A page in a browser, whose token is one of the protocols.
    case(
        "$w \"https://$s/api/v1/namespaces/default/pods/$p/exec?command=echo&command=hi&stdout=true\" v5.channel.k8s.io",
        "",
        "protocol v5.channel.k8s.io\n1 hi\n3 Success\nclosed 1000\n",
        0,
    ),
    case(
        "$w \"https://$s/api/v1/namespaces/default/pods/$p/exec?command=false&stdout=true\" v4.channel.k8s.io | grep -v closed",
        "",
        "protocol v4.channel.k8s.io\n3 Failure NonZeroExitCode\n",
        0,
    ),
    case(
        "$w \"https://$s/api/v1/namespaces/default/pods/absent/exec?command=false\" v5.channel.k8s.io",
        "",
        "404\n",
        1,
    ),
    case(
        "$w \"https://$s/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=1&fieldSelector=metadata.name=$p\" a.example \
         | grep -v closed | sed s/$p/POD/",
        "",
        "protocol a.example\nADDED POD\n",
        0,
    ),
    // The same through a proxy that speaks HTTP/1.1.
    case(
        "rm -f proxy.out; $k proxy --port=0 --reject-paths=^/none > proxy.out & proxy=$!; until grep -qs Starting proxy.out; do sleep 0.1; done; \
         at=http://127.0.0.1:$(sed 's/.*://' proxy.out); \
         curl -sS $at/api/v1/namespaces/default/pods/$p/log?limitBytes=8; \
         python3 ${page} $at/api/v1/namespaces/default/pods/$p/exec?command=echo\\&command=hi\\&stdout=true v5.channel.k8s.io; \
         kill $proxy",
        "",
        "started\nprotocol v5.channel.k8s.io\n1 hi\n3 Success\nclosed 1000\n",
        0,
    ),
];

/// Nothing creates service accounts on kube-apiserver alone.
const FLAGS: [&str; 1] = ["--disable-admission-plugins=ServiceAccount"];

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["stream-node", "kubectl", "kube-apiserver", "etcd"])?;
    let mut ran = 0;
    for reference in [false, true] {
        let mut lab = Lab::new(if reference { "streams-reference" } else { "streams" })?;
        let server = if reference {
            let store = lab.etcd(&tools["etcd"])?;
            lab.kube_apiserver(&tools["kube-apiserver"], &store, &FLAGS)?
        } else {
            let tokens = format!("--token-auth-file={}", lab.tokens()?.display());
            lab.ferrokube(&[FLAGS[0], &tokens])?
        };
        let name = if reference { "kube-apiserver" } else { "ferrokube" };
        ran = play(&mut lab, &server, &tools).map_err(|why| format!("{name}: {why}"))?;
        lab.all_alive()?;
    }
    Ok(format!("{ran} commands over WebSocket and SPDY, and ports forwarded, by ferrokube and kube-apiserver alike"))
}

fn play(lab: &mut Lab, server: &Server, tools: &BTreeMap<String, PathBuf>) -> Result<usize, String> {
    let kubectl = Kubectl::of(server)?;
    for (node, flags) in [("translated", &[][..]), ("declared", &["-websockets"])] {
        let mut command = Command::new(&tools["stream-node"]);
        command.env("KUBECONFIG", &server.kubeconfig).args(["-name", node]).args(flags);
        lab.spawn(node, &mut command)?;
        kubectl.wait("get nodes -o name", |nodes| nodes.contains(node))?;
        start_pod(&kubectl, node)?;
    }
    let mut ran = 0;
    for (pod, websockets) in [("translated", "true"), ("declared", "true"), ("translated", "false")] {
        let shell = Shell { kubectl: &tools["kubectl"], server, folder: &lab.folder, pod, websockets };
        for case in CASES {
            shell.check(case).map_err(|why| format!("{pod}, WebSocket {websockets}: {why}"))?;
            ran += 1;
        }
        shell.forward_port()?;
        // Every run begins with the same log.
        kubectl.run(&format!("delete pod {pod} --force --grace-period=0 --wait=false"))?;
        kubectl.wait("get pods -o name", |pods| !pods.contains(pod))?;
        start_pod(&kubectl, pod)?;
    }
    Ok(ran)
}

pub fn start_pod(kubectl: &Kubectl, node: &str) -> Result<(), String> {
    kubectl.apply(&POD.replace("NODE", node))?;
    kubectl.wait(&format!("get pod {node} -o jsonpath={{.status.phase}}"), |phase| phase == "Running")
}

struct Shell<'a> {
    kubectl: &'a Path,
    server: &'a Server,
    folder: &'a Path,
    pod: &'a str,
    /// Whether kubectl offers WebSocket.
    websockets: &'a str,
}

impl Shell<'_> {
    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(self.folder);
        command.env("k", self.kubectl).env("p", self.pod).env("KUBECONFIG", &self.server.kubeconfig);
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/python/websocket.py");
        command
            .env("s", self.server.address())
            .env("page", &page)
            .env("w", format!("python3 {} --token {TOKEN}", page.display()));
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", self.websockets);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", self.websockets);
        command
    }

    fn check(&self, case: &Case) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", case.script);
        let mut command = self.command(case.script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(case.input.as_bytes());
        }
        let got = child.wait_with_output().map_err(failed)?;
        let output = String::from_utf8_lossy(&got.stdout);
        if (output.as_ref(), got.status.code()) == (case.output, Some(case.code)) {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&got.stderr);
        Err(format!("{}\nprinted {output:?} and ended with {}; {errors}", case.script, got.status))
    }

    /// Fetches a file through a forwarded port, several times at once.
    fn forward_port(&self) -> Result<(), String> {
        let (remote, local) = (free_port()?, free_port()?);
        let mut serving = self.command(&format!("exec python3 -m http.server {remote} --bind 127.0.0.1"));
        let mut serving =
            serving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        // kubectl ends when the pod refuses a connection.
        let listens = wait_for("a server of files", || Ok(TcpStream::connect(("127.0.0.1", remote)).is_ok()));
        let mut forwarding = self.command(&format!("exec $k port-forward $p {local}:{remote}"));
        let mut forwarding =
            forwarding.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let script = format!(
            "for i in 1 2 3; do curl -fsS http://127.0.0.1:{local}/file -o forwarded$i & done; wait; \
             for i in 1 2 3; do cmp file forwarded$i && rm forwarded$i || exit 1; done"
        );
        let fetched = listens.and_then(|()| {
            wait_for("a forwarded port", || {
                let fetched = self.command(&script).stdout(Stdio::null()).stderr(Stdio::null()).status();
                Ok(fetched.map_err(|error| error.to_string())?.success())
            })
        });
        for child in [&mut forwarding, &mut serving] {
            let _ = child.kill();
            let _ = child.wait();
        }
        fetched
    }
}
