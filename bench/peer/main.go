// Puts pods through kube-scheduler's own framework and cache, without an API server: the same
// pods on the same nodes as a rung of bench/ladder.py, which writes them.
//
// It reads lines {"role", "object"} from standard input: "node" and "running" go into the
// scheduler's cache, "object" to its informers, "pod" is scheduled. Every pod that finds a node is
// assumed there at once; a preemptor's victims go at once, and it takes their place, unless -found-only
// says that room is only to be found. Bind does nothing, and PreBind writes resource claims only. One line of JSON on standard output says what it took;
// with -record, a line for every attempt says what was decided (record.go). With -decisions, each
// pod is timed until it is assumed: not its binding, which writes claims, and not the first pod.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

const configuration = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`

type line struct {
	Role   string          `json:"role"`
	Object json.RawMessage `json:"object"`
}

type cluster struct {
	nodes   []*v1.Node
	running []*v1.Pod
	objects []kruntime.Object
	pods    []*v1.Pod
	config  []byte
}

// noBind ends a binding: what it costs to tell an API server is not measured.
type noBind struct{ ended *sync.WaitGroup }

func (noBind) Name() string { return "NoBind" }

func (b noBind) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	b.ended.Done()
	return nil
}

func read() (cluster, error) {
	var found cluster
	decoder := clientscheme.Codecs.UniversalDeserializer()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var each line
		if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
			return found, err
		}
		if each.Role == "config" {
			found.config = each.Object
			continue
		}
		object, _, err := decoder.Decode(each.Object, nil, nil)
		if err != nil {
			return found, err
		}
		switch each.Role {
		case "node":
			found.nodes = append(found.nodes, object.(*v1.Node))
		case "running":
			found.running = append(found.running, object.(*v1.Pod))
		case "pod":
			found.pods = append(found.pods, object.(*v1.Pod))
		default:
			found.objects = append(found.objects, object)
		}
	}
	return found, lines.Err()
}

// decoded is a configuration with defaults; nil: the default one.
func decoded(text []byte) *config.KubeSchedulerConfiguration {
	if text == nil {
		text = []byte(configuration)
	}
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		panic(err)
	}
	return object.(*config.KubeSchedulerConfiguration)
}

// profiles are those of a configuration, but nobody is told of a binding.
func profiles(text []byte) []config.KubeSchedulerProfile {
	found := decoded(text).Profiles
	for _, profile := range found {
		profile.Plugins.Bind.Enabled = []config.Plugin{{Name: "NoBind"}}
		profile.Plugins.Bind.Disabled = []config.Plugin{{Name: "*"}}
		// Claims are written, since pods share them.
		profile.Plugins.PreBind.Enabled = []config.Plugin{{Name: "DynamicResources"}}
		profile.Plugins.PreBind.Disabled = []config.Plugin{{Name: "*"}}
	}
	return found
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// peer is the scheduler, and what happens to the pods that it decides about.
type peer struct {
	*scheduler.Scheduler
	ended   sync.WaitGroup
	byKey   map[string]*v1.Pod
	victims []string
	// cleared are pods whose nomination a preemptor took away.
	cleared []string
	client  *fake.Clientset
	// claims are the resource claims that an attempt wrote (claims.go).
	claims claimWrites
	// podLister is what the plugins know of pods.
	podLister corelisters.PodLister
	placed    int
	refused   int
	made      int
	// foundOnly leaves the cluster as it is when room was found.
	foundOnly bool
}

func newPeer(ctx context.Context, all cluster, parallelism int, percentage int) (*peer, error) {
	made := &peer{byKey: map[string]*v1.Pod{}}
	known := append([]kruntime.Object{}, all.objects...)
	for _, pod := range all.pods {
		// Preemption looks a preemptor up. One that is tried again is there once.
		if _, twice := made.byKey[pod.Namespace+"/"+pod.Name]; !twice {
			made.byKey[pod.Namespace+"/"+pod.Name] = pod
			known = append(known, pod)
		}
	}
	client := fake.NewSimpleClientset(known...)
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		gone := action.(clienttesting.DeleteAction)
		made.victims = append(made.victims, gone.GetNamespace()+"/"+gone.GetName())
		return true, nil, nil
	})
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		if bytes.Contains(patch.GetPatch(), []byte(`"nominatedNodeName":null`)) {
			made.cleared = append(made.cleared, patch.GetNamespace()+"/"+patch.GetName())
		}
		made.claims.notePatch(patch.GetPatch())
		return true, &v1.Pod{}, nil
	})
	made.client = client
	made.storeClaims()
	registry := frameworkruntime.Registry{
		"NoBind": func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) {
			return noBind{&made.ended}, nil
		},
	}
	informers := scheduler.NewInformerFactory(client, 0)
	made.podLister = informers.Core().V1().Pods().Lister()
	limit := int32(percentage)
	sched, err := scheduler.New(ctx, client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profiles(all.config)...),
		scheduler.WithParallelism(int32(parallelism)),
		scheduler.WithPercentageOfNodesToScore(&limit),
		scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		return nil, err
	}
	made.Scheduler = sched
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	for _, node := range all.nodes {
		sched.Cache.AddNode(logger, node)
	}
	for _, pod := range all.running {
		if err := sched.Cache.AddPod(logger, pod); err != nil {
			return nil, err
		}
		made.byKey[pod.Namespace+"/"+pod.Name] = pod
	}
	return made, nil
}

// failed takes a refused pod. Its victims go at once, and it takes the place that it was given.
func (p *peer) failed(
	ctx context.Context, _ framework.Framework, info *framework.QueuedPodInfo, _ *fwk.Status,
	nominated *fwk.NominatingInfo, _ time.Time,
) {
	p.ended.Done()
	if p.foundOnly {
		if p.victims != nil {
			p.made++
		} else {
			p.refused++
		}
		p.victims = nil
		return
	}
	logger := klog.FromContext(ctx)
	for _, key := range p.victims {
		if err := p.Cache.RemovePod(logger, p.byKey[key]); err != nil {
			panic(err)
		}
	}
	p.victims = nil
	if nominated == nil || nominated.NominatedNodeName == "" {
		p.refused++
		return
	}
	p.SchedulingQueue.DeleteNominatedPodIfExists(info.Pod)
	placed := info.Pod.DeepCopy()
	placed.Spec.NodeName = nominated.NominatedNodeName
	if err := p.Cache.AddPod(logger, placed); err != nil {
		panic(err)
	}
	p.made++
}

// remember makes the informers know a pod in its newest version.
func (p *peer) remember(pod *v1.Pod) {
	pods := p.client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.UpdateStatus(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		known, err := p.podLister.Pods(pod.Namespace).Get(pod.Name)
		if err == nil && known.Status.NominatedNodeName == pod.Status.NominatedNodeName {
			return
		}
		if time.Now().After(deadline) {
			panic("the informer does not learn of " + pod.Name)
		}
	}
}

// prepare makes ScheduleOne take one pod after the other. It would ignore one of no profile.
func (p *peer) prepare(pods []*v1.Pod) {
	for _, pod := range pods {
		if p.Profiles[pod.Spec.SchedulerName] == nil {
			panic("no profile for pod " + pod.Name)
		}
	}
	next := 0
	p.NextPod = func(klog.Logger) (*framework.QueuedPodInfo, error) {
		info, err := framework.NewPodInfo(pods[next])
		next++
		return &framework.QueuedPodInfo{PodInfo: info}, err
	}
	p.FailureHandler = p.failed
}

// runDecisions returns the seconds of wall and CPU time of all decisions but the first. The next
// one waits until the scheduler knows the claims that the last binding wrote.
func (p *peer) runDecisions(ctx context.Context, pods []*v1.Pod) (wall, cpu float64) {
	p.prepare(pods)
	for number := range pods {
		p.ended.Add(1)
		beganCPU, began := cpuSeconds(), time.Now()
		p.ScheduleOne(ctx)
		if number > 0 {
			wall += time.Since(began).Seconds()
			cpu += cpuSeconds() - beganCPU
		}
		p.ended.Wait()
		p.awaitDevices()
	}
	p.placed = len(pods) - p.refused - p.made
	return wall, cpu
}

func (p *peer) run(ctx context.Context, pods []*v1.Pod) {
	p.prepare(pods)
	for range pods {
		p.ended.Add(1)
		p.ScheduleOne(ctx)
	}
	p.ended.Wait()
	p.placed = len(pods) - p.refused - p.made
}

func main() {
	parallelism := flag.Int("parallelism", 1, "kube-scheduler's parallelism")
	percentage := flag.Int("percentage", 0, "percentageOfNodesToScore; 0: its adaptive default")
	cores := flag.Int("cores", 1, "how many cores Go may use")
	records := flag.Bool("record", false, "write down every decision instead of how long all took")
	foundOnly := flag.Bool("found-only", false, "find room by preemption, but do not make it")
	decisions := flag.Bool("decisions", false, "time decisions without bindings, and not the first one")
	requeues := flag.Bool("requeue", false, "say which pods each change of an object brings back (requeue.go)")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	runtime.GOMAXPROCS(*cores)
	if *requeues {
		// What is written does not matter: nothing is to be sent later.
		if err := utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncAPICalls=false"); err != nil {
			panic(err)
		}
		if err := requeue(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(2)
		}
		return
	}
	all, err := read()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(2)
	}
	// Victims are deleted before the attempt ends, not beside it: only then they can be waited for.
	gates := "SchedulerAsyncPreemption=false"
	if *records {
		gates += ",OpportunisticBatching=false" // a pod like the one before gets a node without a look
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	peer, err := newPeer(ctx, all, *parallelism, *percentage)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(2)
	}
	peer.foundOnly = *foundOnly
	if *records {
		if err := record(ctx, peer, all.pods, *percentage != 100); err != nil {
			panic(err)
		}
		return
	}
	runtime.GC()
	var wall, cpu float64
	count := float64(len(all.pods))
	if *decisions {
		wall, cpu = peer.runDecisions(ctx, all.pods)
		count--
	} else {
		beganCPU, began := cpuSeconds(), time.Now()
		peer.run(ctx, all.pods)
		wall, cpu = time.Since(began).Seconds(), cpuSeconds()-beganCPU
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"pods": len(all.pods), "placed": peer.placed, "refused": peer.refused,
		"made_room": peer.made, "cpu_ms_per_pod": cpu * 1e3 / count, "pods_per_s": count / wall,
	})
}
