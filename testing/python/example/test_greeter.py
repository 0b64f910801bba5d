"""A project that tests with ferrokube, as its users have it: pip install ferrokube pytest kubernetes."""

import ferrokube
from kubernetes import client, config, watch


def core(cluster):
    return client.CoreV1Api(config.new_client_from_config(cluster.kubeconfig))


def test_objects_are_stored(cluster, namespace):
    maps = core(cluster)
    maps.create_namespaced_config_map(namespace, {"metadata": {"name": "hello"}, "data": {"to": "world"}})
    assert maps.read_namespaced_config_map("hello", namespace).data == {"to": "world"}


def test_each_test_has_an_empty_server(cluster):
    names = {namespace.metadata.name for namespace in core(cluster).list_namespace().items}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}


def test_namespaces_are_deleted(cluster, namespace):
    api = core(cluster)
    api.create_namespaced_config_map(namespace, {"metadata": {"name": "hello"}})
    seen = api.read_namespace(namespace).metadata.resource_version
    api.delete_namespace(namespace)
    selector = f"metadata.name={namespace}"
    events = watch.Watch().stream(api.list_namespace, field_selector=selector, resource_version=seen, timeout_seconds=30)
    assert any(event["type"] == "DELETED" for event in events)


def test_kubectl(kubectl, namespace):
    kubectl("create", "configmap", "hello", "--namespace", namespace)
    assert kubectl("get", "configmaps", "--namespace", namespace, "--output=name").split() == [
        "configmap/hello",
        "configmap/kube-root-ca.crt",
    ]


def test_users_may_do_what_roles_say(cluster, namespace, tmp_path):
    path = tmp_path / "alice"
    path.write_text(cluster.user("alice", groups=["devs"], cluster_role="view"))
    alice = client.CoreV1Api(config.new_client_from_config(str(path)))
    assert alice.list_namespaced_config_map(namespace).items is not None
    try:
        alice.list_namespaced_secret(namespace)
        raise AssertionError("secrets are not for viewers")
    except client.ApiException as refused:
        assert refused.status == 403


def test_servers_of_their_own():
    with ferrokube.start(bare=True) as one, ferrokube.start() as two:
        assert one.request("GET", "/version")[1] == two.request("GET", "/version")[1]
        assert one.url != two.url
