// Command kube-apiserver is Kubernetes' kube-apiserver with the plugins that its release build has.
package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs, where the machine has none

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of its own requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
