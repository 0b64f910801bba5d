// Command konnectivity is Kubernetes' network proxy: `konnectivity server` is what an API server connects through with the
// egress protocol GRPC or HTTPConnect, `konnectivity agent` opens the connections in the cluster's network.
package main

import (
	"fmt"
	"os"

	agentapp "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app"
	agentoptions "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	serverapp "sigs.k8s.io/apiserver-network-proxy/cmd/server/app"
	serveroptions "sigs.k8s.io/apiserver-network-proxy/cmd/server/app/options"
)

func main() {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case "server":
		options := serveroptions.NewProxyRunOptions()
		command := serverapp.NewProxyCommand(&serverapp.Proxy{}, options)
		command.Flags().AddFlagSet(options.Flags())
		command.SetArgs(os.Args[2:])
		err = command.Execute()
	case "agent":
		options := agentoptions.NewGrpcProxyAgentOptions()
		command := agentapp.NewAgentCommand(&agentapp.Agent{}, options)
		command.Flags().AddFlagSet(options.Flags())
		command.SetArgs(os.Args[2:])
		err = command.Execute()
	default:
		err = fmt.Errorf("konnectivity server|agent [flags]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
