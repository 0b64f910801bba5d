// Command helm-tour takes a chart through its life with the real helm, and looks at the server after every step.
//
//	KUBECONFIG=... helm-tour -helm path/to/helm [-wait]
//
// With -wait helm waits for the workload, which takes a controller-manager, a scheduler and (fake) nodes.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

//go:embed all:chart
var charts embed.FS

const release = "tour"

func main() {
	helm := flag.String("helm", "helm", "the helm binary")
	wait := flag.Bool("wait", false, "let helm wait until the workload is ready")
	limit := flag.Duration("timeout", 3*time.Minute, "give up after this long")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := run(ctx, *helm, *wait); err != nil {
		fmt.Fprintln(os.Stderr, "helm-tour:", err)
		os.Exit(1)
	}
	fmt.Println("helm-tour: ok")
}

func run(ctx context.Context, helm string, wait bool) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "helm-tour-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	files, err := fs.Sub(charts, "chart")
	if err != nil {
		return err
	}
	if err := os.CopyFS(home+"/chart", files); err != nil {
		return err
	}
	namespace, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "helm-tour-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer func() {
		_ = client.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	}()
	t := &tour{ctx: ctx, helm: helm, home: home, wait: wait, client: client, namespace: namespace.Name}
	for _, stop := range t.stops() {
		if err := stop.visit(); err != nil {
			return fmt.Errorf("%s: %w", stop.name, err)
		}
		fmt.Println("ok", stop.name)
	}
	return nil
}

// tour is one release in one namespace.
type tour struct {
	ctx       context.Context
	helm      string
	home      string // helm's caches and configuration, so that the user's are left alone
	wait      bool
	client    kubernetes.Interface
	namespace string
}

// run calls helm with a command and returns what it printed.
func (t *tour) run(arguments ...string) (string, error) {
	command := exec.CommandContext(t.ctx, t.helm, append(arguments, "--namespace", t.namespace)...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.home+"/cache", "HELM_CONFIG_HOME="+t.home+"/config", "HELM_DATA_HOME="+t.home+"/data")
	output, err := command.CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return text, fmt.Errorf("helm %s: %w: %s", strings.Join(arguments, " "), err, text)
	}
	return text, nil
}

// change calls a helm command that changes the release from the chart.
func (t *tour) change(verb string, arguments ...string) error {
	arguments = append([]string{verb, release, t.home + "/chart"}, arguments...)
	if t.wait {
		arguments = append(arguments, "--wait", "--timeout", "60s")
	}
	_, err := t.run(arguments...)
	return err
}
