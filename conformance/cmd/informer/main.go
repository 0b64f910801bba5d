// Command informer proves that client-go's informers follow a server without a gap.
//
// Typed informers speak protobuf and start with a watch-list, as controllers of this release do; a dynamic one speaks
// JSON and a metadata one asks for PartialObjectMetadata. Objects are created before and after the start, changed and
// deleted while every connection is cut again and again. In the end each informer must have told the truth: for every
// object its add, then each later state it reports newer than the last, then its delete, and a store equal to a list.
//
//	KUBECONFIG=... informer [-objects 200] [-rounds 5]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const protobuf = "application/vnd.kubernetes.protobuf"

func main() {
	objects := flag.Int("objects", 200, "objects of each kind")
	rounds := flag.Int("rounds", 5, "times every object is changed")
	limit := flag.Duration("timeout", 3*time.Minute, "give up after this long")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := run(ctx, *objects, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
	fmt.Println("informer: ok")
}

func run(ctx context.Context, objects, rounds int) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	load, err := newLoad(ctx, config, objects)
	if err != nil {
		return err
	}
	defer load.cleanUp()
	if err := load.createHalf(ctx, 0); err != nil {
		return err
	}

	watchers, err := startWatchers(ctx, config, load.namespace)
	if err != nil {
		return err
	}
	if err := watchers.waitForSync(ctx); err != nil {
		return err
	}
	if err := load.createHalf(ctx, 1); err != nil {
		return err
	}
	for round := range rounds {
		watchers.wire.cutConnections()
		if err := load.changeAll(ctx, round); err != nil {
			return err
		}
	}
	watchers.wire.cutConnections()
	if err := load.deleteHalf(ctx); err != nil {
		return err
	}
	if err := watchers.waitForTruth(ctx, load); err != nil {
		return err
	}
	return watchers.wire.verdict()
}

// watchers are the informers under test, all over one wire that is recorded and can be cut.
type watchers struct {
	wire *wire
	logs []*eventLog
}

func startWatchers(ctx context.Context, config *rest.Config, namespace string) (*watchers, error) {
	w := &watchers{wire: newWire()}
	typed := rest.CopyConfig(config)
	typed.ContentType, typed.AcceptContentTypes = protobuf, protobuf+",application/json"
	w.wire.attach(typed)
	plain := rest.CopyConfig(config)
	w.wire.attach(plain)

	clientset, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(plain)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(plain)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	dynamicFactory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, nil)
	metaFactory := metadatainformer.NewFilteredSharedInformerFactory(meta, 0, namespace, nil)
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for _, follow := range []struct {
		name, kind string
		informer   informer
	}{
		{"typed configmaps", "configmaps", factory.Core().V1().ConfigMaps().Informer()},
		{"typed deployments", "deployments", factory.Apps().V1().Deployments().Informer()},
		{"dynamic configmaps", "configmaps", dynamicFactory.ForResource(configMaps).Informer()},
		{"dynamic deployments", "deployments", dynamicFactory.ForResource(deployments).Informer()},
		{"metadata configmaps", "configmaps", metaFactory.ForResource(configMaps).Informer()},
	} {
		log, err := newEventLog(follow.name, follow.kind, follow.informer)
		if err != nil {
			return nil, err
		}
		w.logs = append(w.logs, log)
	}
	factory.Start(ctx.Done())
	dynamicFactory.Start(ctx.Done())
	metaFactory.Start(ctx.Done())
	return w, nil
}

func (w *watchers) waitForSync(ctx context.Context) error {
	for _, log := range w.logs {
		if err := until(ctx, func() error {
			if !log.synced() {
				return fmt.Errorf("%s: not synced", log.name)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// waitForTruth waits until every store equals a fresh list, then judges the events on the way there.
func (w *watchers) waitForTruth(ctx context.Context, load *load) error {
	for _, log := range w.logs {
		want, err := load.list(ctx, log.kind)
		if err != nil {
			return err
		}
		if err := until(ctx, func() error { return log.storeEquals(want) }); err != nil {
			return err
		}
		if err := until(ctx, func() error { return log.verdict(want) }); err != nil {
			return err
		}
		fmt.Printf("ok %s: %d objects, %d events\n", log.name, len(want), log.count())
	}
	return nil
}

// until polls a condition; its last complaint is the error when time is up.
func until(ctx context.Context, condition func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("time is up: %w", err)
		case <-tick.C:
		}
	}
}
