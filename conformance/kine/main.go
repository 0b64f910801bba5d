// Command kine is k3s's kine: etcd's API on top of SQLite, which is what clusters without etcd use.
package main

import (
	"os"

	"github.com/k3s-io/kine/pkg/app"
	"github.com/sirupsen/logrus"
)

func main() {
	if err := app.New().Run(os.Args); err != nil {
		logrus.Fatal(err)
	}
}
