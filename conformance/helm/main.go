// Command helm is the published Helm, built from its module.
package main

import (
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "helm" // whatever the binary is called
	if err := run(); err != nil {
		code := 1
		if failed, ok := errors.AsType[cmd.CommandError](err); ok {
			code = failed.ExitCode
		}
		os.Exit(code)
	}
}

// run leaves reporting to the command, except when there is none yet.
func run() error {
	root, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		return err
	}
	return root.Execute()
}
