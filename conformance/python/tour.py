"""The Python client against a server: objects, patches, watches, dynamic access. Prints what it did, fails loudly."""

import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "python-tour"


def expect(status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == status, f"{error.status} instead of {status}: {error.body}"
        return
    raise AssertionError(f"{call.__name__} should have failed with {status}")


def config_maps(core):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one", labels={"a": "b"}), data={"k": "1"})
    made = core.create_namespaced_config_map(NAMESPACE, body)
    assert made.metadata.uid and made.data == {"k": "1"}
    expect(409, core.create_namespaced_config_map, NAMESPACE, body)
    made.data["k"] = "2"
    core.replace_namespaced_config_map("one", NAMESPACE, made)
    expect(409, core.replace_namespaced_config_map, "one", NAMESPACE, made)
    patched = core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"k": "3", "l": "4"}})
    assert patched.data == {"k": "3", "l": "4"}
    patched = core.patch_namespaced_config_map("one", NAMESPACE, [{"op": "remove", "path": "/data/l"}])
    assert patched.data == {"k": "3"}
    for at in range(5):
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"page-{at}", "labels": {"paged": "yes"}}})
    page = core.list_namespaced_config_map(NAMESPACE, limit=2, label_selector="paged")
    rest = core.list_namespaced_config_map(
        NAMESPACE, limit=100, label_selector="paged", _continue=page.metadata._continue
    )
    assert len(page.items) == 2 and len(page.items) + len(rest.items) == 5
    assert [m.metadata.name for m in core.list_namespaced_config_map(NAMESPACE, label_selector="a=b").items] == ["one"]
    expect(404, core.read_namespaced_config_map, "nothing", NAMESPACE)
    expect(422, core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "Not A Name"}})


def deployments(apps):
    container = {"name": "c", "image": "nginx"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    apps.create_namespaced_deployment(NAMESPACE, {"metadata": {"name": "web"}, "spec": spec})
    apps.patch_namespaced_deployment("web", NAMESPACE, {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "nginx:2"}]}}}})
    read = apps.read_namespaced_deployment("web", NAMESPACE)
    assert [c.image for c in read.spec.template.spec.containers] == ["nginx:2"]
    assert read.spec.strategy.type == "RollingUpdate" and read.metadata.generation == 2
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    assert scale.spec.replicas == 5
    apps.patch_namespaced_deployment_status("web", NAMESPACE, {"status": {"replicas": 5}})
    assert apps.read_namespaced_deployment("web", NAMESPACE).status.replicas == 5
    apps.delete_namespaced_deployment("web", NAMESPACE)


def watches(core):
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    started = threading.Event()

    def change():
        started.wait()
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "seen"}})
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"a": "b"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    changes = threading.Thread(target=change)
    changes.start()
    started.set()
    seen = []
    for event in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start,
                                      timeout_seconds=30):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            break
    changes.join()
    assert seen == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")], seen


def dynamically(api):
    discovered = dynamic.DynamicClient(api).resources.get(api_version="batch/v1", kind="Job")
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}
    applied = discovered.server_side_apply(body=body, name="j", namespace=NAMESPACE, field_manager="tour")
    assert applied.metadata.managedFields[0].manager == "tour"
    assert discovered.get(name="j", namespace=NAMESPACE).spec.backoffLimit == 6
    discovered.delete(name="j", namespace=NAMESPACE, body={"propagationPolicy": "Background"})


def main():
    config.load_kube_config()
    api = client.ApiClient()
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    print("server", client.VersionApi(api).get_code().git_version)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    config_maps(core)
    deployments(apps)
    watches(core)
    dynamically(api)
    core.delete_namespace(NAMESPACE)
    print("python client: ok")


if __name__ == "__main__":
    sys.exit(main())
