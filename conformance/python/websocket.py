"""Speaks WebSocket as a browser's page does and prints what comes back.

  websocket.py [--token TOKEN] URL [PROTOCOL...]

The first line is the protocol that the server chose, or its refusal. Of every message of a channel protocol the channel and the text
are printed, of every other message its text; of a watch event the type and the name. A page cannot set headers, so a token is sent as
one of the protocols. Only Python's own library is used.
"""

import argparse
import base64
import json
import os
import socket
import ssl
import struct
import sys
import urllib.parse


def connect(url):
    port = url.port or (443 if url.scheme == "https" else 80)
    stream = socket.create_connection((url.hostname, port), timeout=30)
    if url.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        stream = tls.wrap_socket(stream, server_hostname=url.hostname)
    return stream.makefile("rwb")


def handshake(stream, url, protocols):
    lines = [f"GET {url.path}?{url.query} HTTP/1.1", f"Host: {url.netloc}", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
             "Origin: https://dashboard.example.com", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()]
    if protocols:
        lines.append("Sec-WebSocket-Protocol: " + ", ".join(protocols))
    stream.write("\r\n".join(lines + ["", ""]).encode())
    stream.flush()
    status = stream.readline().decode().split(" ", 2)
    headers = {}
    for line in iter(stream.readline, b"\r\n"):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    if status[1] != "101":
        print(status[1])
        sys.exit(1)
    chosen = headers.get("sec-websocket-protocol", "")
    print("protocol", chosen)
    return chosen


def messages(stream):
    """Whole messages until the server closes."""
    message = b""
    while True:
        head = stream.read(2)
        if len(head) < 2:
            return
        last, kind, length = head[0] & 0x80, head[0] & 0x0F, head[1] & 0x7F
        if length == 126:
            length = struct.unpack(">H", stream.read(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", stream.read(8))[0]
        payload = stream.read(length)
        if kind == 8:
            print("closed", struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else "")
            return
        if kind > 8:
            continue
        message += payload
        if last:
            yield message
            message = b""


def tell(message, protocol):
    if protocol.startswith("base64"):
        channel, text = int(message[:1]), base64.b64decode(message[1:])
    elif "channel" in protocol:
        channel, text = message[0], message[1:]
    else:
        event = json.loads(message)
        print(event["type"], event["object"]["metadata"]["name"])
        return
    if not text:
        return
    text = text.decode(errors="replace").rstrip("\n")
    if channel == 3 and text.startswith("{"):
        status = json.loads(text)
        text = " ".join([status.get("status", ""), status.get("reason", "")]).strip()
    print(channel, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--token")
    parser.add_argument("url")
    parser.add_argument("protocols", nargs="*")
    args = parser.parse_args()
    protocols = list(args.protocols)
    if args.token:
        token = base64.urlsafe_b64encode(args.token.encode()).decode().rstrip("=")
        protocols.append("base64url.bearer.authorization.k8s.io." + token)
    url = urllib.parse.urlsplit(args.url)
    stream = connect(url)
    chosen = handshake(stream, url, protocols)
    for message in messages(stream):
        tell(message, chosen)


if __name__ == "__main__":
    main()
