// What kube-apiserver stores when a pod is created: the program behind
// tests/unit/data/pods.jsonl.gz.
//
// It reads pods, one JSON object a line, and writes lines {"written", "stored"}: defaults, the
// preparation of the pod strategy (matchLabelKeys), and the plugin DefaultTolerationSeconds.
// ../configs/main.go tells how to build it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

func main() {
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(nil, 1<<24)
	enc := json.NewEncoder(os.Stdout)
	for sc.Scan() {
		written := &v1.Pod{}
		if err := json.Unmarshal(sc.Bytes(), written); err != nil {
			panic(err)
		}
		var raw json.RawMessage = append([]byte{}, sc.Bytes()...)
		legacyscheme.Scheme.Default(written)
		internal := &api.Pod{}
		if err := legacyscheme.Scheme.Convert(written, internal, nil); err != nil {
			panic(err)
		}
		pod.Strategy.PrepareForCreate(context.Background(), internal)
		plugin := defaulttolerationseconds.NewDefaultTolerationSeconds()
		plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
		if err := plugin.ValidateInitialization(); err != nil {
			panic(err)
		}
		attributes := admission.NewAttributesRecord(internal, nil, api.Kind("Pod").WithVersion("v1"), internal.Namespace, internal.Name, api.Resource("pods").WithVersion("v1"), "", admission.Create, nil, false, nil)
		if err := plugin.Admit(context.Background(), attributes, nil); err != nil {
			panic(err)
		}
		stored := &v1.Pod{}
		if err := legacyscheme.Scheme.Convert(internal, stored, nil); err != nil {
			panic(err)
		}
		enc.Encode(map[string]any{"written": raw, "stored": stored})
	}
}
