// Command kubeadm is the published kubeadm, built from its module.
package main

import (
	"os"

	"k8s.io/kubernetes/cmd/kubeadm/app"
)

func main() {
	if err := app.Run(); err != nil {
		os.Exit(1)
	}
}
