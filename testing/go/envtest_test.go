package envtest_test

import (
	"os"
	"testing"

	"ferrokube.dev/envtest"
	"k8s.io/client-go/rest"
)

func TestWhatIsThere(t *testing.T) {
	server := envtest.Start(t, envtest.WithFlags("--feature-gates=MutatingAdmissionPolicy=true"))
	if _, err := os.Stat(server.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	for _, config := range []*rest.Config{server.Config(), server.User(t, "alice", "system:masters")} {
		if _, err := rest.HTTPClientFor(config); err != nil {
			t.Fatal(err)
		}
	}
	server.Reset(t)
}

func TestMissingProgram(t *testing.T) {
	if server, err := envtest.New(envtest.WithBinary("/nowhere/ferrokube")); err == nil {
		server.Stop()
		t.Fatal("it started")
	}
	if server, err := envtest.New(envtest.WithFlags("--no-such-flag")); err == nil {
		server.Stop()
		t.Fatal("it started")
	}
}
