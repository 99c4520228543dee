// Package devices says what the containers of a pod see of their devices, without running them.
package devices

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	"k8s.io/kubernetes/test/utils/ktesting"
)

var notInName = regexp.MustCompile(`[^a-zA-Z0-9]`)

// ContainerEnv returns the output of "env" in a container, as far as the test driver would set it:
// the parameters of each allocated device, and one variable for each request. The specs call it in
// place of an exec.
func ContainerEnv(tCtx ktesting.TContext, options e2epod.ExecOptions) (stdout, stderr string, err error) {
	pod, err := tCtx.Client().CoreV1().Pods(options.Namespace).Get(tCtx, options.PodName, metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	requests, err := containerRequests(pod, options.ContainerName)
	if err != nil {
		return "", "", err
	}
	env := map[string]string{}
	for claimName, requestNames := range requests {
		claim, err := tCtx.Client().ResourceV1().ResourceClaims(pod.Namespace).Get(tCtx, claimName, metav1.GetOptions{})
		if err != nil {
			return "", "", err
		}
		if claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, true) {
			return "", "", fmt.Errorf("claim %s is not reserved for pod %s", claimName, pod.Name)
		}
		if err := addClaim(env, claim, requestNames); err != nil {
			return "", "", err
		}
	}
	var lines []string
	for name, value := range env {
		lines = append(lines, name+"="+value+"\n")
	}
	sort.Strings(lines)
	return strings.Join(lines, ""), "", nil
}

// containerRequests returns which requests of which claims a container uses; an empty list means all.
func containerRequests(pod *v1.Pod, containerName string) (map[string][]string, error) {
	requests := map[string][]string{}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if container.Name != containerName {
			continue
		}
		for _, used := range container.Resources.Claims {
			for i := range pod.Spec.ResourceClaims {
				if pod.Spec.ResourceClaims[i].Name != used.Name {
					continue
				}
				name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
				if err != nil {
					return nil, err
				}
				if name == nil {
					continue
				}
				requests[*name] = slices.Clone(requests[*name])
				if used.Request != "" {
					requests[*name] = append(requests[*name], used.Request)
				}
			}
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		for _, mapping := range status.RequestMappings {
			if mapping.ContainerName == containerName {
				requests[status.ResourceClaimName] = append(requests[status.ResourceClaimName], mapping.RequestName)
			}
		}
	}
	return requests, nil
}

func addClaim(env map[string]string, claim *resourceapi.ResourceClaim, requestNames []string) error {
	for _, result := range claim.Status.Allocation.Devices.Results {
		request := resourceclaim.BaseRequestRef(result.Request)
		if len(requestNames) > 0 && !slices.Contains(requestNames, request) {
			continue
		}
		for _, config := range resourceclaim.ConfigForResult(claim.Status.Allocation.Devices.Config, result) {
			if config.Opaque == nil || config.Opaque.Driver != result.Driver {
				continue
			}
			prefix := "user_"
			if config.Source == resourceapi.AllocationConfigSourceClass {
				prefix = "admin_"
			}
			var parameters map[string]string
			if err := json.Unmarshal(config.Opaque.Parameters.Raw, &parameters); err != nil {
				return fmt.Errorf("parameters of claim %s: %w", claim.Name, err)
			}
			for name, value := range parameters {
				env[prefix+name] = value
			}
		}
		env[notInName.ReplaceAllString("claim_"+claim.Name+"_"+request, "_")] = "true"
	}
	return nil
}
