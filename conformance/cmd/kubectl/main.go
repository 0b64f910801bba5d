// Command kubectl is the published kubectl, built from its module.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// The command tree logs while it is being built, before it has parsed its own flags.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
}
