// Command fake-nodes plays the kubelets of nodes that do not exist.
//
// It registers nodes, renews their leases and reports their status, marks the pods bound to them running and ready,
// lets pods that may finish do so, and deletes what is asked to terminate, so that a control plane without a container
// runtime goes through everything it would on real machines.
//
//	KUBECONFIG=... fake-nodes [-nodes 10] [-prefix fake-] [-as-nodes]
//
// What is to happen can be said on the objects:
//
//	node annotation fake.ferrokube.dev/silent: "true"    the node falls silent: no lease, no status, no pods move
//	pod annotation  fake.ferrokube.dev/run-for: 5s       how long a pod that may finish runs
//	pod annotation  fake.ferrokube.dev/exit-code: "1"    how it ends
//	pod annotation  fake.ferrokube.dev/stop-after: 2s    how long it takes to terminate
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	silentAnnotation    = "fake.ferrokube.dev/silent"
	runForAnnotation    = "fake.ferrokube.dev/run-for"
	exitCodeAnnotation  = "fake.ferrokube.dev/exit-code"
	stopAfterAnnotation = "fake.ferrokube.dev/stop-after"
)

type options struct {
	nodes       int
	prefix      string
	podsPerNode int
	runFor      time.Duration
	workers     int
	asNodes     bool
}

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 10, "how many nodes")
	flag.StringVar(&o.prefix, "prefix", "fake-", "what their names start with")
	flag.IntVar(&o.podsPerNode, "pods-per-node", 250, "how many pods fit on a node")
	flag.DurationVar(&o.runFor, "run-for", time.Second, "how long pods that may finish run, unless they say otherwise")
	flag.IntVar(&o.workers, "workers", 8, "pods moved at the same time")
	flag.BoolVar(&o.asNodes, "as-nodes", false, "write as each node's own user (by impersonation), so that node authorization is exercised")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fake-nodes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	fleet := newFleet(client, o)
	for index := range o.nodes {
		name := fmt.Sprintf("%s%d", o.prefix, index)
		own, err := nodeClient(config, name, o.asNodes)
		if err != nil {
			return err
		}
		fleet.add(newNode(name, index, own, o))
	}
	return fleet.run(ctx)
}

// nodeClient is what a node's kubelet would hold: the same connection, but its own identity.
func nodeClient(config *rest.Config, name string, asNode bool) (kubernetes.Interface, error) {
	own := rest.CopyConfig(config)
	own.UserAgent = "fake-nodes/" + name
	if asNode {
		own.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
	}
	return kubernetes.NewForConfig(own)
}
