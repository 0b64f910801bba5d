// Package suite is what a controller author's test suite looks like: a manager with a controller, run by envtest.
//
//	KUBEBUILDER_ASSETS=folder controller-suite   envtest starts the etcd and kube-apiserver it finds there
//	KUBECONFIG=file controller-suite             uses a server that runs already
package suite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const patience = 30 * time.Second

var (
	environment *envtest.Environment
	config      *rest.Config
	direct      client.Client // without a cache: reads what the server has now
	existing    = os.Getenv("KUBECONFIG") != ""
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Managers that are being stopped complain about it, so their log is for those who ask for detail.
	logger := logr.Discard()
	if testing.Verbose() {
		logger = zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel))
	}
	ctrl.SetLogger(logger)
	code, err := withEnvironment(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		code = 1
	}
	os.Exit(code)
}

func withEnvironment(m *testing.M) (code int, err error) {
	environment = &envtest.Environment{UseExistingCluster: &existing}
	started := time.Now()
	if config, err = environment.Start(); err != nil {
		return 1, fmt.Errorf("starting: %w", err)
	}
	fmt.Printf("envtest: ready after %v\n", time.Since(started).Round(time.Millisecond))
	defer func() { err = errors.Join(err, environment.Stop()) }()
	if direct, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// newNamespace gives a test a place of its own. It stays Terminating without a controller-manager, as envtest documents.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "suite-"}}
	must(t, direct.Create(t.Context(), namespace))
	t.Cleanup(func() { _ = direct.Delete(context.Background(), namespace) })
	return namespace.Name
}

// startManager runs a manager until the test ends.
func startManager(t *testing.T, options ctrl.Options, setUp func(ctrl.Manager) error) (ctrl.Manager, context.CancelFunc) {
	t.Helper()
	options.Scheme, options.Metrics = scheme.Scheme, server.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true)
	manager, err := ctrl.NewManager(config, options)
	must(t, err)
	must(t, setUp(manager))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	stop := func() {
		cancel()
		if err, open := <-done; open && err != nil {
			t.Errorf("manager: %v", err)
		}
	}
	stopOnce := sync.OnceFunc(stop)
	t.Cleanup(stopOnce)
	return manager, stopOnce
}

// eventually polls until the condition has nothing to complain about.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect is an error unless the two are the same.
func expect[T comparable](what string, have, want T) error {
	if have != want {
		return fmt.Errorf("%s is %v, want %v", what, have, want)
	}
	return nil
}
