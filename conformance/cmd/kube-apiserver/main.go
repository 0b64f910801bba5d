// Command kube-apiserver is the published kube-apiserver, built from its module.
package main

import (
	"os"
	_ "time/tzdata" // CronJob time zones without files on the host

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics under /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build info under /metrics
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
