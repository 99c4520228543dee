// What kube-scheduler makes of configuration files: the program behind
// tests/unit/data/configs.jsonl.gz.
//
// It reads lines {"name", "text"} and writes lines {"name", "text", "ok", "defaulted", "error"}:
// decoding, defaulting and validation as kube-scheduler does them, and the check of
// NodeResourcesFit's arguments, which it makes when it builds the plugin.
//
// To run it again, in an empty folder outside of this tree: take go.mod and go.sum of the module
// k8s.io/kubernetes v1.36.3, change the module's name, point the staging replacements at v0.36.3,
// add `require k8s.io/kubernetes v1.36.3`, put this file beside them, and
//
//	go build -mod=mod -o verdicts . && gzip -dc configs.jsonl.gz | ./verdicts > again.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	kscv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

type in struct{ Name, Text string }
type out struct {
	Name      string `json:"name"`
	Text      string `json:"text"`
	OK        bool   `json:"ok"`
	Defaulted string `json:"defaulted,omitempty"`
	Error     string `json:"error,omitempty"`
}

func load(text string) (string, error) {
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return "", err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return "", fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	cfg.TypeMeta.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return "", err
	}
	for i := range cfg.Profiles {
		for _, pc := range cfg.Profiles[i].PluginConfig {
			if a, ok := pc.Args.(*config.NodeResourcesFitArgs); ok {
				if err := validation.ValidateNodeResourcesFitArgs(nil, a); err != nil {
					return "", err
				}
			}
		}
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	enc := scheme.Codecs.EncoderForVersion(info.Serializer, kscv1.SchemeGroupVersion)
	data, err := runtime.Encode(enc, cfg)
	return string(data), err
}

func main() {
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(nil, 1<<24)
	enc := json.NewEncoder(os.Stdout)
	for sc.Scan() {
		var i in
		if err := json.Unmarshal(sc.Bytes(), &i); err != nil {
			panic(err)
		}
		d, err := load(i.Text)
		o := out{Name: i.Name, Text: i.Text, OK: err == nil, Defaulted: d}
		if err != nil {
			o.Error = err.Error()
		}
		enc.Encode(o)
	}
}
