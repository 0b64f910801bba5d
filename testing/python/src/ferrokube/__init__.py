"""A Kubernetes API server for tests: ready in a moment, in memory, empty again after reset()."""

from ._server import ServerError, TestServer, program

__all__ = ["ServerError", "TestServer", "program", "start"]


def start(**settings) -> TestServer:
    """Starts a server. It ends with stop(), at the end of a with block, and with this process at the latest."""
    return TestServer(**settings)
