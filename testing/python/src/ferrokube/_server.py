"""The program as a process, and what can be asked of it."""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sysconfig
import tempfile
import urllib.parse
from pathlib import Path

STOP_TIMEOUT_SECONDS = 5


class ServerError(Exception):
    """The server did not start, or refused what was asked."""


def program() -> str:
    """The path of the program: what FERROKUBE_BINARY names, the one that was installed with this package, or one on PATH."""
    named = os.environ.get("FERROKUBE_BINARY")
    if named:
        return named
    for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")):
        installed = Path(sysconfig.get_path("scripts", scheme), "ferrokube")
        if installed.is_file():
            return str(installed)
    found = shutil.which("ferrokube")
    if found is None:
        raise ServerError("there is no program ferrokube; FERROKUBE_BINARY can name it")
    return found


class TestServer:
    """A server that serves until stop() is called or this process ends.

    crds: files with CustomResourceDefinitions and folders of such files. flags: flags of kube-apiserver. bare: leave deleted
    namespaces, owned objects and service accounts alone. logs: a folder for server.log and audit.log; a temporary one without.
    """

    __test__ = False  # For pytest, which collects classes by name.

    def __init__(self, crds=(), flags=(), bare=False, logs=None, binary=None):
        self._own_logs = logs is None
        self.logs = Path(logs or tempfile.mkdtemp(prefix="ferrokube-logs-"))
        command = [binary or program(), "test-server", "--print-json", "--logs", str(self.logs)]
        for path in crds:
            command += ["--crds", str(path)]
        if bare:
            command.append("--bare")
        if flags:
            command += ["--", *flags]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            self._forget_logs()
            raise ServerError(f"{command[0]}: {error}") from error
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise ServerError(f"{command[0]} test-server ended before it was ready; standard error says why")
        self.ready = json.loads(line)
        self._context = ssl.create_default_context(cadata=self.ready["ca"])

    @property
    def url(self) -> str:
        """https://127.0.0.1:…"""
        return self.ready["url"]

    @property
    def ca(self) -> str:
        """The authority of the server's certificate, in PEM."""
        return self.ready["ca"]

    @property
    def token(self) -> str:
        """The administrator's."""
        return self.ready["token"]

    @property
    def kubeconfig(self) -> str:
        """The path of a file that speaks for the administrator."""
        return self.ready["kubeconfig"]

    def reset(self, keep_definitions=False) -> dict:
        """Removes what was written since the start and brings back what the server had made for itself."""
        definitions = "keep" if keep_definitions else "remove"
        return json.loads(self._post(f"/test-server/reset?definitions={definitions}"))

    def user(self, name, groups=(), cluster_role=None, namespace=None) -> str:
        """A kubeconfig, as text, for a user in groups, with the rights of a ClusterRole if one is named."""
        query = [("name", name), *(("group", group) for group in groups)]
        query += [(key, value) for key, value in (("clusterRole", cluster_role), ("namespace", namespace)) if value]
        return self._post("/test-server/users?" + urllib.parse.urlencode(query)).decode()

    def request(self, method, path, body=None):
        """A request of the administrator: the status code and the decoded JSON of the answer, None if it is no JSON."""
        status, answer = self._send(method, path, None if body is None else json.dumps(body))
        try:
            return status, json.loads(answer)
        except ValueError:
            return status, None

    def _post(self, path) -> bytes:
        status, answer = self._send("POST", path)
        if status != 200:
            raise ServerError(f"{status}: {answer.decode(errors='replace')}")
        return answer

    def _send(self, method, path, body=None):
        address = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPSConnection(address.hostname, address.port, context=self._context)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def stop(self, keep_logs=False):
        """Ends the server. Nothing of it is left, unless its logs are to be kept."""
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        if not keep_logs:
            self._forget_logs()

    def _forget_logs(self):
        if self._own_logs:
            shutil.rmtree(self.logs, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
