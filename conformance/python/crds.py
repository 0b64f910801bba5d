"""Plays published custom resource definitions to one or two API servers and compares their answers.

  crds.py --token TOKEN --server NAME=URL [--server NAME=URL] FILE...

Every definition is created, applied server-side and waited for. Of every kind two objects are made from its schema, one with
only what is required and one with everything, created in each served version, read back in all of them, listed as a
table and deleted. What the OpenAPI document says of the kind is part of the answers. Only Python's own library is used.
"""

import argparse
import json
import re
import ssl
import sys
import time
import urllib.error
import urllib.request

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# What no two servers have alike, and what is spelled in the order of Go's maps.
VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime"}
STRINGS = ["a", "a.b", "a/b", "v1", "1", "1s", "1m", "10Mi", "https://example.com", "/a", "A", "a@b.c", "1.1.1.1",
           "10.0.0.0/8", "aaaaaaaa", "example.com/a", "0.5", "sha256:" + "a" * 64, "Aa"]
FORMATS = {"date-time": "2024-01-01T00:00:00Z", "duration": "1s", "uri": "https://example.com", "byte": "YQ==",
           "ipv4": "1.1.1.1", "ipv6": "::1", "cidr": "10.0.0.0/8", "email": "a@b.c", "hostname": "example.com",
           "date": "2024-01-01", "uuid": "00000000-0000-4000-8000-000000000000"}


class Server:
    def __init__(self, name, url, token):
        self.name, self.url, self.token = name, url, token
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def ask(self, method, path, body=None, kind="application/json", accept="application/json"):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": kind, "Accept": accept}
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"text": text.decode(errors="replace")}


def normal(value):
    """An answer without what differs from server to server."""
    if isinstance(value, dict):
        if value.get("kind") == "Status":
            return refusal(value)
        value = {key: normal(item) for key, item in value.items() if key not in VOLATILE}
        if isinstance(value.get("conditions"), list):
            # Controllers add them as they come to it.
            value["conditions"] = sorted(value["conditions"], key=lambda condition: str(condition))
        return value
    return [normal(item) for item in value] if isinstance(value, list) else value


def refusal(status):
    """Of several causes Go tells in any order."""
    causes = (status.get("details") or {}).get("causes") or []
    told = sorted(json.dumps(cause, sort_keys=True) for cause in causes)
    message = "" if len(told) > 1 else status.get("message", "")
    return {"reason": status.get("reason"), "code": status.get("code"), "causes": told, "message": message}


def fitting(schema):
    pattern = schema.get("pattern")
    found = FORMATS.get(schema.get("format"))
    candidates = ([found] if found else []) + STRINGS
    for text in candidates:
        text = text.ljust(schema.get("minLength", 0), "a")
        try:
            if pattern is None or re.search(pattern, text):
                return text
        except re.error:
            break
    return "a"


def made(schema, everything, depth=0):
    """A value of the schema: with all its fields, or with those only that must be there."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        required = schema.get("required", [])
        fields = schema.get("properties", {})
        wanted = [name for name in fields if name in required or (everything and depth < 6)]
        value = {name: made(fields[name], everything, depth + 1) for name in sorted(wanted)}
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict) and everything:
            value["a"] = made(inner, everything, depth + 1)
        return value
    if kind == "array":
        count = max(schema.get("minItems", 0), 1 if everything and depth < 6 else 0)
        return [made(schema.get("items", {}), everything, depth + 1)] * count
    if kind == "integer":
        return int(schema.get("minimum", 1))
    if kind == "number":
        return schema.get("minimum", 1)
    if kind == "boolean":
        return True
    return fitting(schema) if kind == "string" else {}


def instance(definition, version, everything):
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    fields = {name: part for name, part in schema.get("properties", {}).items()
              if name not in ("apiVersion", "kind", "metadata", "status")}
    value = made(dict(schema, properties=fields, type="object"), everything)
    spec = definition["spec"]
    value.update(apiVersion=spec["group"] + "/" + version["name"], kind=spec["names"]["kind"],
                 metadata={"name": "tour"})
    return value


def wait(what, ask):
    for _ in range(300):
        found = ask()
        if found is not None:
            return found
        time.sleep(0.1)
    sys.exit("waited too long for " + what)


def definition_names(documents):
    return [re.search(r"^  name: ['\"]?([^'\"\s]+)", document, re.M).group(1) for document in documents]


def play(server, documents):
    """All answers of a server, by what was asked."""
    answers = {}
    names = definition_names(documents)
    for name, document in zip(names, documents):
        code, body = server.ask("POST", DEFINITIONS, document.encode(), "application/yaml")
        answers["create " + name] = (code, normal(body) if code >= 400 else None)
    for name, document in zip(names, documents):
        path = f"{DEFINITIONS}/{name}?fieldManager=tour&force=true"
        code, body = server.ask("PATCH", path, document.encode(), "application/apply-patch+yaml")
        answers["apply " + name] = (code, normal(body) if code >= 400 else None)
    for name in names:
        definition = wait(name, lambda: established(server, name))
        answers["definition " + name] = normal({"spec": definition["spec"], "status": definition["status"]})
        kinds(server, definition, answers)
    for name in names:
        answers["delete " + name] = server.ask("DELETE", f"{DEFINITIONS}/{name}")[0]
    return answers


def established(server, name):
    code, definition = server.ask("GET", f"{DEFINITIONS}/{name}")
    if code != 200:
        sys.exit(f"{server.name}: {name}: {code} {definition}")
    conditions = definition.get("status", {}).get("conditions") or []
    is_true = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
    return definition if is_true else None


def kinds(server, definition, answers):
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version["served"]]
    inside = "/namespaces/default" if spec["scope"] == "Namespaced" else ""
    collection = {v["name"]: f"/apis/{spec['group']}/{v['name']}{inside}/{spec['names']['plural']}" for v in served}
    by_webhook = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    for version in served:
        title = f"{definition['metadata']['name']} {version['name']}"
        answers["openapi " + title] = wait(title + " in OpenAPI", lambda: described(server, spec, version))
        for everything in (False, True):
            what = f"{title} {'everything' if everything else 'least'}"
            path = collection[version["name"]]
            code, body = server.ask("POST", path, instance(definition, version, everything))
            answers["POST " + what] = (code, normal(body))
            if code != 201:
                continue
            # Webhooks of operators that do not run cannot convert.
            readable = [version] if by_webhook else served
            for other in readable:
                code, body = server.ask("GET", collection[other["name"]] + "/tour")
                answers[f"GET {what} as {other['name']}"] = (code, normal(body))
                table = "application/json;as=Table;v=v1;g=meta.k8s.io"
                code, body = server.ask("GET", collection[other["name"]], accept=table)
                rows = [row["cells"] for row in body.get("rows") or []]
                columns = [column["name"] for column in body.get("columnDefinitions") or []]
                dates = [i for i, column in enumerate(body.get("columnDefinitions") or []) if column["type"] == "date"]
                cells = [[None if i in dates else cell for i, cell in enumerate(row)] for row in rows]
                answers[f"table {what} as {other['name']}"] = (code, columns, cells)
            answers["DELETE " + what] = server.ask("DELETE", path + "/tour")[0]


def described(server, spec, version):
    code, document = server.ask("GET", f"/openapi/v3/apis/{spec['group']}/{version['name']}")
    for schema in (document.get("components") or {}).get("schemas", {}).values() if code == 200 else ():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            if kind["kind"] == spec["names"]["kind"] and kind["version"] == version["name"]:
                return normal(schema)
    return None


def compare(first, second, names):
    differences = []
    for what in sorted(set(first) | set(second)):
        one, other = (json.dumps(answers.get(what), sort_keys=True) for answers in (first, second))
        if one != other:
            at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
            part = slice(max(0, at - 150), at + 250)
            differences.append(f"{what}\n  {names[0]}: …{one[part]}\n  {names[1]}: …{other[part]}")
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--token", required=True)
    parser.add_argument("--server", action="append", required=True, help="NAME=URL")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    documents = []
    for file in args.files:
        with open(file, encoding="utf-8") as text:
            parts = re.split(r"^---\s*$", text.read(), flags=re.M)
        documents += [part for part in parts if re.search(r"^kind: CustomResourceDefinition", part, re.M)]
    servers = [Server(*server.split("=", 1), args.token) for server in args.server]
    answers = []
    for server in servers:
        began = time.time()
        answers.append(play(server, documents))
        refused = sum(1 for what, answer in answers[-1].items() if what.startswith(("create", "apply")) and answer[0] >= 400)
        print(f"{server.name}: {len(documents)} definitions ({refused} refusals), {len(answers[-1])} answers "
              f"in {time.time() - began:.1f} s")
    if len(servers) == 2:
        differences = compare(*answers, [server.name for server in servers])
        print(f"{len(differences)} of {len(answers[0])} answers differ")
        print("\n".join(differences))
        sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
