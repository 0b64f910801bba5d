// Command etcd is the store that kube-apiserver, and ferrokube with --etcd-servers, keep their objects in.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
