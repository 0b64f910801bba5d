package com.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.ferrokube.junit.ApiServer;
import dev.ferrokube.junit.KubeConfig;
import dev.ferrokube.junit.TestServer;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;

@ApiServer
class GreeterTest {
    @KubeConfig
    static String kubeconfig;

    private static KubernetesClient client(String kubeconfig) {
        return new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(kubeconfig)).build();
    }

    @RepeatedTest(2)
    void eachTestHasAnEmptyServer() {
        try (KubernetesClient client = client(kubeconfig)) {
            var hello = new ConfigMapBuilder().withNewMetadata().withName("hello").endMetadata().build();
            assertNotNull(client.configMaps().inNamespace("default").resource(hello).create());
        }
    }

    @Test
    void namespacesAreDeleted() {
        try (KubernetesClient client = client(kubeconfig)) {
            var greetings = new NamespaceBuilder().withNewMetadata().withName("greetings").endMetadata().build();
            client.namespaces().resource(greetings).create();
            client.namespaces().withName("greetings").delete();
            client.namespaces().withName("greetings").waitUntilCondition(namespace -> namespace == null, 30, TimeUnit.SECONDS);
        }
    }

    @Test
    void usersMayDoWhatRolesSay(TestServer server) throws Exception {
        try (KubernetesClient alice = client(server.user("alice", "devs"))) {
            var refused = assertThrows(
                    KubernetesClientException.class, () -> alice.secrets().inNamespace("default").list());
            assertEquals(403, refused.getCode());
        }
    }

    @Test
    void serversOfTheirOwn(TestServer server) throws Exception {
        try (TestServer other = TestServer.start()) {
            assertEquals(200, other.request("GET", "/api/v1/namespaces/default", null).statusCode());
            assertEquals(409, other.request("POST", "/api/v1/namespaces", "{\"metadata\":{\"name\":\"default\"}}").statusCode());
            assertEquals(200, server.request("GET", "/version", null).statusCode());
        }
    }
}
