// Command sample-apiserver is an API server for flunders that is made to be aggregated, built from its published module.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	ctx := genericapiserver.SetupSignalContext()
	options := server.NewWardleServerOptions(os.Stdout, os.Stderr)
	os.Exit(cli.Run(server.NewCommandStartWardleServer(ctx, options, false)))
}
