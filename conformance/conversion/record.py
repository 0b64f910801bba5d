#!/usr/bin/env python3
"""Records what the conversion functions of published projects make of generated objects: see README.md.

Usage: record.py FOLDER [PROJECT…]: in the folder the programs are, or are built."""

import gzip, json, os, random, re, subprocess, sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "../../crates/crd/testdata/conversions.jsonl.gz")
OBJECTS = 12
MODULES = [
    ("cluster-api", "sigs.k8s.io/cluster-api", "v1.11.2", [
        "config/crd/bases/ipam.cluster.x-k8s.io_ipaddresses.yaml", "config/crd/bases/ipam.cluster.x-k8s.io_ipaddressclaims.yaml",
        "config/crd/bases/addons.cluster.x-k8s.io_clusterresourcesets.yaml",
        "config/crd/bases/addons.cluster.x-k8s.io_clusterresourcesetbindings.yaml"]),
]
# Versions that are served and that the project has no conversion functions for in the module.
WITHOUT = {"cluster-api": ["v1alpha1"]}
TEXTS = ["text", "a", "b-c", "example.com/name", "10s", "1h0m0s", "100m", "50%", "example.com/v1", "10.0.0.1", "1", "1Gi", "/", "*",
         "@daily", "https://example.com/path", "True", "Ready"]


def directory(module, version):
    got = subprocess.run(["go", "mod", "download", "-json", module + "@" + version], capture_output=True, check=True, cwd="/")
    return json.loads(got.stdout)["Dir"]


def build(folder, name):
    program = os.path.join(folder, name)
    if os.path.exists(program):
        return program
    source = os.path.join(HERE, name)
    subprocess.run(["go", "build", "-o", program, "."], check=True, cwd=source)
    return program


def without_prose(value, inside=False):
    """Descriptions are not facts. A property may have that name."""
    if isinstance(value, dict):
        kept = value.items() if inside else [(k, v) for k, v in value.items() if k not in ("description", "example", "externalDocs")]
        return {k: without_prose(v, k == "properties") for k, v in kept}
    if isinstance(value, list):
        return [without_prose(item) for item in value]
    return value


def definition_of(path, without):
    text = "\n".join(re.sub(r"\{\{.*\}\}", "x", line) for line in open(path).read().split("\n"))
    read = next(document for document in yaml.safe_load_all(text) if document)
    spec = read["spec"]
    versions = [{k: v for k, v in without_prose(version).items() if k in ("name", "served", "storage", "schema", "subresources")}
                for version in spec["versions"] if version["served"] and version["name"] not in without]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": read["metadata"]["name"]},
            "spec": {"group": spec["group"], "scope": spec["scope"], "names": {k: spec["names"][k] for k in ("plural", "kind")},
                     "versions": versions}}


def value(schema, rand, density, path):
    if "enum" in schema:
        return rand.choice([e for e in schema["enum"] if e != ""] or [None])
    if schema.get("x-kubernetes-int-or-string"):
        return rand.choice([1, "10%"] if not schema.get("pattern") else ["100m", "1Gi"])
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        if "properties" in schema:
            made = {}
            for name, field in sorted(schema["properties"].items()):
                if path == "" and name in ("apiVersion", "kind", "metadata"):
                    continue
                if name in schema.get("required", []) or rand.random() < density:
                    item = value(field, rand, density, path + "." + name)
                    if item is not None:
                        made[name] = item
            return made
        if isinstance(schema.get("additionalProperties"), dict):
            return {f"key{n}": value(schema["additionalProperties"], rand, density, path + ".*") for n in range(2)}
        return {}
    if kind == "array":
        return [value(schema["items"], rand, density, path + "[]") for _ in range(rand.choice([1, 2]))]
    if kind == "integer":
        return rand.randint(int(schema.get("minimum", 1)), int(min(schema.get("maximum", 100), schema.get("minimum", 1) + 99)))
    if kind == "number":
        return 1.5
    if kind == "boolean":
        return rand.choice([True, False])
    if kind == "string":
        if schema.get("format") == "date-time":
            return "2024-01-02T03:04:05Z"
        if schema.get("format") == "byte":
            return "YWJj"
        for text in rand.sample(TEXTS, len(TEXTS)):
            pattern = schema.get("pattern", "").replace(r"\d", "[0-9]")
            if re.search(pattern, text) and schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 1 << 20):
                return text
    return None


def objects(definition):
    spec = definition["spec"]
    for version in spec["versions"]:
        rand = random.Random(definition["metadata"]["name"] + version["name"])
        for number in range(OBJECTS):
            density = [1.0, 0.0, 0.9, 0.7, 0.5, 0.3][number % 6]
            made = value(version["schema"]["openAPIV3Schema"], rand, density, "")
            made["apiVersion"], made["kind"] = spec["group"] + "/" + version["name"], spec["names"]["kind"]
            made["metadata"] = {"name": "generated", "labels": {"a": "b"}}
            if spec["scope"] == "Namespaced":
                made["metadata"]["namespace"] = "default"
            yield version["name"], made


def main():
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    out = []
    for name, module, version, files in [m for m in MODULES if m[0] in sys.argv[2:] or not sys.argv[2:]]:
        program = build(folder, name)
        source = directory(module, version)
        for file in files:
            definition = definition_of(os.path.join(source, file), WITHOUT.get(name, []))
            out.append({"module": module + " " + version, "definition": definition})
            versions = [version["name"] for version in definition["spec"]["versions"]]
            lines = [json.dumps({"definition": definition["metadata"]["name"], "from": own, "to": to, "object": made})
                     for own, made in objects(definition) for to in versions if to != own]
            ran = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True)
            if ran.returncode != 0:
                sys.exit(f"{name}: {definition['metadata']['name']}: {ran.stderr[:2000]}")
            out += [json.loads(line) for line in ran.stdout.splitlines()]
    with gzip.GzipFile(OUT, "wb", 9, mtime=0) as file:
        file.write("".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in out).encode())
    print(len(out), "lines,", os.path.getsize(OUT), "bytes")


main()
