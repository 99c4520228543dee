// Command kube-scheduler is Kubernetes' kube-scheduler with the plugins that its release build has.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of its own requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand()))
}
