// Package e2e runs end-to-end specs of Kubernetes against a cluster without real nodes.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
)

const (
	startDelay = 200 * time.Millisecond
	stopDelay  = 300 * time.Millisecond
	exitDelay  = 2 * time.Second
	claimDelay = 500 * time.Millisecond
	restarts   = 3

	// The sample device plugin's DaemonSet, and what it offers on each node.
	devicePluginLabel    = "k8s-app"
	devicePluginName     = "sample-device-plugin"
	devicePluginResource = "example.com/resource"
	devicePluginDevices  = "2"
)

// Kubelets stands for the kubelets of all nodes. Each pod goes through
//
//	bound ──► Running ──► Succeeded or Failed ──► deleted
//
// A pod with resource claims starts when they are allocated and reserved for it. The command
// "true" and shell scripts without an endless loop end by themselves. A deleted pod ends at once, or after its preStop sleep.
type Kubelets struct {
	client kubernetes.Interface

	mutex    sync.Mutex
	started  map[types.UID]bool
	stopping map[types.UID]bool
	lastIP   int
}

// RunKubelets creates the nodes and serves them until the context is done.
func RunKubelets(ctx context.Context, client kubernetes.Interface, nodes int) error {
	k := &Kubelets{client: client, started: map[types.UID]bool{}, stopping: map[types.UID]bool{}}
	for i := range nodes {
		if err := k.createNode(ctx, i); err != nil {
			return err
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, nodeInformer := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.onPod(ctx, obj.(*v1.Pod)) },
		UpdateFunc: func(_, obj any) { k.onPod(ctx, obj.(*v1.Pod)) },
	}); err != nil {
		return err
	}
	if _, err := nodeInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.onNode(ctx, obj.(*v1.Node)) },
		UpdateFunc: func(_, obj any) { k.onNode(ctx, obj.(*v1.Node)) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

func (k *Kubelets) createNode(ctx context.Context, number int) error {
	name := fmt.Sprintf("node-%d", number)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1.LabelHostname:       name,
		v1.LabelOSStable:       "linux",
		v1.LabelArchStable:     "amd64",
		v1.LabelTopologyZone:   fmt.Sprintf("zone-%d", number%2),
		v1.LabelTopologyRegion: "region",
	}}}
	if _, err := k.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	resources := v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("8"),
		v1.ResourceMemory:           resource.MustParse("32Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		v1.ResourcePods:             resource.MustParse("110"),
	}
	now := metav1.Now()
	var conditions []v1.NodeCondition
	for kind, status := range map[v1.NodeConditionType]v1.ConditionStatus{
		v1.NodeReady:          v1.ConditionTrue,
		v1.NodeMemoryPressure: v1.ConditionFalse,
		v1.NodeDiskPressure:   v1.ConditionFalse,
		v1.NodePIDPressure:    v1.ConditionFalse,
	} {
		conditions = append(conditions, v1.NodeCondition{
			Type: kind, Status: status, Reason: "Kubelet", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	status := v1.NodeStatus{
		Capacity:    resources,
		Allocatable: resources,
		Conditions:  conditions,
		Addresses: []v1.NodeAddress{
			{Type: v1.NodeInternalIP, Address: fmt.Sprintf("10.1.0.%d", number+1)},
			{Type: v1.NodeHostName, Address: name},
		},
		NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if _, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	return k.createSystemPod(ctx, name)
}

// createSystemPod creates a pod that has the names of all pods which the specs expect on each node:
// without them they wait for a minute.
func (k *Kubelets) createSystemPod(ctx context.Context, node string) error {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      "kube-proxy-fluentd-elasticsearch-node-problem-detector-" + node,
			Namespace: metav1.NamespaceSystem,
		},
		Spec: v1.PodSpec{
			NodeName:    node,
			Containers:  []v1.Container{{Name: "pause", Image: "pause"}},
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
		},
	}
	_, err := k.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// onNode makes extended resources allocatable that were added to a node's capacity, as a kubelet does.
func (k *Kubelets) onNode(ctx context.Context, node *v1.Node) {
	changes := map[v1.ResourceName]any{}
	for name, quantity := range node.Status.Capacity {
		if allocatable, ok := node.Status.Allocatable[name]; strings.Contains(string(name), "/") && (!ok || !allocatable.Equal(quantity)) {
			changes[name] = quantity
		}
	}
	for name := range node.Status.Allocatable {
		if _, ok := node.Status.Capacity[name]; strings.Contains(string(name), "/") && !ok {
			changes[name] = nil
		}
	}
	if len(changes) > 0 {
		k.patchNode(ctx, node.Name, map[string]any{"allocatable": changes})
	}
}

func (k *Kubelets) patchNode(ctx context.Context, name string, status map[string]any) {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		klog.InfoS("Node status not written", "node", name, "err", err)
	}
}

func (k *Kubelets) onPod(ctx context.Context, pod *v1.Pod) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	switch {
	case pod.Spec.NodeName == "":
	case pod.DeletionTimestamp != nil:
		if !k.stopping[pod.UID] {
			k.stopping[pod.UID] = true
			go k.stop(ctx, pod)
		}
	case pod.Status.Phase == v1.PodPending && !k.started[pod.UID]:
		k.started[pod.UID] = true
		go k.run(ctx, pod)
	}
}

// run starts a pod, and ends it if its command does.
func (k *Kubelets) run(ctx context.Context, pod *v1.Pod) {
	time.Sleep(startDelay)
	for !k.claimsReady(ctx, pod) {
		time.Sleep(claimDelay)
		current, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || current.UID != pod.UID || current.DeletionTimestamp != nil {
			return
		}
		pod = current
	}
	k.patchPod(ctx, pod, k.running(pod))
	if pod.Labels[devicePluginLabel] == devicePluginName {
		k.offerDevices(ctx, pod.Spec.NodeName, devicePluginDevices)
	}
	phase, ends := exitPhase(pod)
	switch {
	case !ends:
	case pod.Spec.RestartPolicy == v1.RestartPolicyAlways:
		k.restart(ctx, pod)
	default:
		time.Sleep(exitDelay)
		k.patchPod(ctx, pod, ended(pod, phase))
	}
}

// restart ends and starts the containers of a pod a few times.
func (k *Kubelets) restart(ctx context.Context, pod *v1.Pod) {
	for count := range restarts {
		time.Sleep(exitDelay)
		var statuses []v1.ContainerStatus
		for _, container := range pod.Spec.Containers {
			state := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}}
			status := containerStatus(container, state, true)
			status.RestartCount = int32(count + 1)
			statuses = append(statuses, status)
		}
		k.patchPod(ctx, pod, map[string]any{"containerStatuses": statuses})
	}
}

// stop ends a deleted pod's containers and removes it.
func (k *Kubelets) stop(ctx context.Context, pod *v1.Pod) {
	delay := stopDelay
	for _, container := range pod.Spec.Containers {
		if container.Lifecycle != nil && container.Lifecycle.PreStop != nil && container.Lifecycle.PreStop.Sleep != nil {
			delay = max(delay, time.Duration(container.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
		}
	}
	if pod.DeletionGracePeriodSeconds != nil {
		delay = min(delay, time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)
	}
	time.Sleep(delay)
	if pod.Status.Phase == v1.PodRunning || pod.Status.Phase == v1.PodPending {
		k.patchPod(ctx, pod, ended(pod, v1.PodSucceeded))
	}
	if pod.Labels[devicePluginLabel] == devicePluginName {
		k.offerDevices(ctx, pod.Spec.NodeName, "0")
	}
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	if err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options); err != nil && !apierrors.IsNotFound(err) {
		klog.InfoS("Pod not removed", "pod", klog.KObj(pod), "err", err)
	}
}

func (k *Kubelets) offerDevices(ctx context.Context, node, count string) {
	devices := map[string]string{devicePluginResource: count}
	k.patchNode(ctx, node, map[string]any{"capacity": devices, "allocatable": devices})
}

// claimsReady reports whether every resource claim of the pod is allocated and reserved for it.
func (k *Kubelets) claimsReady(ctx context.Context, pod *v1.Pod) bool {
	names, err := claimNames(pod)
	if err != nil {
		return false
	}
	for _, name := range names {
		claim, err := k.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, true) {
			return false
		}
	}
	return true
}

// claimNames returns the names of all resource claims of a pod.
func claimNames(pod *v1.Pod) ([]string, error) {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != nil {
			names = append(names, *name)
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names, nil
}

func (k *Kubelets) patchPod(ctx context.Context, pod *v1.Pod, status map[string]any) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.InfoS("Pod status not written", "pod", klog.KObj(pod), "err", err)
	}
}

// running returns the status of a pod whose containers run and are ready.
func (k *Kubelets) running(pod *v1.Pod) map[string]any {
	k.mutex.Lock()
	k.lastIP++
	ip := fmt.Sprintf("10.2.%d.%d", k.lastIP/250, k.lastIP%250+1)
	k.mutex.Unlock()
	now := metav1.Now()
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	done := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
	var inits []v1.ContainerStatus
	for _, container := range pod.Spec.InitContainers {
		isSidecar := container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
		state := done
		if isSidecar {
			state = runs
		}
		inits = append(inits, containerStatus(container, state, true))
	}
	var statuses []v1.ContainerStatus
	for _, container := range pod.Spec.Containers {
		statuses = append(statuses, containerStatus(container, runs, true))
	}
	return map[string]any{
		"phase":                 v1.PodRunning,
		"observedGeneration":    pod.Generation,
		"startTime":             now,
		"hostIP":                "127.0.0.1",
		"podIP":                 ip,
		"podIPs":                []v1.PodIP{{IP: ip}},
		"conditions":            conditions(pod, v1.ConditionTrue, ""),
		"initContainerStatuses": inits,
		"containerStatuses":     statuses,
	}
}

// ended returns the status of a pod whose containers have ended.
func ended(pod *v1.Pod, phase v1.PodPhase) map[string]any {
	now := metav1.Now()
	state := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}}
	reason := "PodCompleted"
	if phase == v1.PodFailed {
		state.Terminated.ExitCode, state.Terminated.Reason, reason = 1, "Error", "PodFailed"
	}
	var statuses []v1.ContainerStatus
	for _, container := range pod.Spec.Containers {
		statuses = append(statuses, containerStatus(container, state, false))
	}
	return map[string]any{
		"phase":              phase,
		"observedGeneration": pod.Generation,
		"conditions":         conditions(pod, v1.ConditionFalse, reason),
		"containerStatuses":  statuses,
	}
}

func conditions(pod *v1.Pod, ready v1.ConditionStatus, reason string) []v1.PodCondition {
	now := metav1.Now()
	conditions := []v1.PodCondition{
		{Type: v1.PodReadyToStartContainers, Status: ready, LastTransitionTime: now},
		{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: now},
		{Type: v1.PodReady, Status: ready, Reason: reason, LastTransitionTime: now},
		{Type: v1.ContainersReady, Status: ready, Reason: reason, LastTransitionTime: now},
	}
	// The scheduler has written it, except for pods that were created with a node.
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			return conditions
		}
	}
	return append(conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now})
}

func containerStatus(container v1.Container, state v1.ContainerState, ready bool) v1.ContainerStatus {
	started := state.Running != nil
	return v1.ContainerStatus{Name: container.Name, Image: container.Image, ImageID: container.Image, State: state, Ready: ready, Started: &started}
}

// exitPhase returns the phase of a pod after its command has ended, if it ends.
func exitPhase(pod *v1.Pod) (v1.PodPhase, bool) {
	words := append(append([]string{}, pod.Spec.Containers[0].Command...), pod.Spec.Containers[0].Args...)
	if len(words) == 1 && words[0] == "true" {
		return v1.PodSucceeded, true
	}
	if len(words) < 3 || !strings.HasSuffix(words[0], "sh") {
		return "", false
	}
	script := words[len(words)-1]
	if strings.Contains(script, "while true") || strings.Contains(script, "sleep inf") {
		return "", false
	}
	if strings.Contains(script, "exit 1") {
		return v1.PodFailed, true
	}
	return v1.PodSucceeded, true
}
