"""Fixtures for pytest: cluster, namespace and kubectl. A test that asks for one of them has an empty server for itself."""

import os
import shutil
import subprocess
import uuid

import pytest

from ._server import TestServer

_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser):
    parser.addini("ferrokube_crds", "files and folders with CustomResourceDefinitions", type="paths", default=[])
    parser.addini("ferrokube_flags", "flags of kube-apiserver", type="args", default=[])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        item.config.stash[_FAILED] = True
        server = item.funcargs.get("cluster")
        if isinstance(server, TestServer):
            report.sections.append(("ferrokube", f"{server.logs}/server.log and audit.log say what the API server did"))
    return report


@pytest.fixture(scope="session")
def ferrokube_server(request):
    """The server of this process; the fixture cluster empties it for each test."""
    config = request.config
    server = TestServer(crds=config.getini("ferrokube_crds"), flags=config.getini("ferrokube_flags"))
    yield server
    server.stop(keep_logs=config.stash.get(_FAILED, False))


@pytest.fixture
def cluster(ferrokube_server, monkeypatch):
    """An empty server. KUBECONFIG is set to it while the test runs."""
    monkeypatch.setenv("KUBECONFIG", ferrokube_server.kubeconfig)
    yield ferrokube_server
    ferrokube_server.reset()


@pytest.fixture
def namespace(cluster):
    """The name of a new namespace."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    return name


@pytest.fixture
def kubectl(cluster):
    """Runs kubectl and returns what it prints. The test is skipped where there is none."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")

    def run(*arguments, input=None):
        environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig}
        command = ["kubectl", *arguments]
        return subprocess.run(command, input=input, env=environment, check=True, capture_output=True, text=True).stdout

    return run
