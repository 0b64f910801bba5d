// Command cert-manager runs cert-manager's own controllers or its admission webhook, from the published module.
//
//	KUBECONFIG=... cert-manager controller
//	KUBECONFIG=... cert-manager webhook -port 10250 -namespace cert-manager -host localhost
//
// Only what needs no service outside the cluster is built in: self-signed issuers and authorities kept in Secrets.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/internal/apis/config/shared"
	config "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

func main() {
	logf.InitLogs()
	defer logf.FlushLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := map[string]func(context.Context, []string) error{"controller": runControllers, "webhook": runWebhook}
	if len(os.Args) < 2 || run[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cert-manager controller|webhook")
		os.Exit(2)
	}
	if err := run[os.Args[1]](logf.NewContext(ctx, logf.Log), os.Args[2:]); err != nil {
		logf.Log.Error(err, "cannot run")
		os.Exit(1)
	}
}

func runControllers(ctx context.Context, _ []string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         os.Getenv("KUBECONFIG"),
		KubernetesAPIQPS:   50,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for name, construct := range controller.Known() {
		control, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		running.Go(func() {
			if err := control.Run(5, ctx); err != nil {
				logf.Log.Error(err, "a controller ended", "name", name)
			}
		})
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	running.Wait()
	return nil
}

// runWebhook serves with certificates of an authority that it keeps in a Secret.
func runWebhook(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("webhook", flag.ContinueOnError)
	port := flags.Int("port", 10250, "the port that admission is served on")
	health := flags.Int("health-port", 6080, "the port that health is served on")
	namespace := flags.String("namespace", "cert-manager", "the namespace of the Secret that keeps the authority")
	host := flags.String("host", "localhost", "the name in the certificate")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(logf.Log, config.WebhookConfiguration{
		KubeConfig:  os.Getenv("KUBECONFIG"),
		SecurePort:  int32(*port),
		HealthzPort: int32(*health),
		TLSConfig: shared.TLSConfig{Dynamic: shared.DynamicServingConfig{
			SecretNamespace: *namespace,
			SecretName:      "cert-manager-webhook-ca",
			DNSNames:        []string{*host},
			LeafDuration:    time.Hour,
		}},
		MetricsListenAddress: "0",
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
