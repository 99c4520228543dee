package main

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// The record of one attempt, in the form of tests/parity/data/README.md. Raw scores are left out,
// since the framework does not hand them out, and so is which candidates are equally good.

type rejection struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type candidate struct {
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdb_violations"`
}

type preempted struct {
	Nominated  *string              `json:"nominated"`
	Victims    []string             `json:"victims"`
	Candidates map[string]candidate `json:"candidates"`
	Acceptable []string             `json:"acceptable"`
}

type decision struct {
	Result               string                      `json:"result"`
	Node                 *string                     `json:"node"`
	Tied                 []string                    `json:"tied"`
	Choice               string                      `json:"choice,omitempty"`
	Rejected             map[string]rejection        `json:"rejected"`
	Prefilter            *rejection                  `json:"prefilter,omitempty"`
	Scores               map[string]map[string]int64 `json:"scores,omitempty"`
	Total                map[string]int64            `json:"total,omitempty"`
	Reason               string                      `json:"reason,omitempty"`
	Message              string                      `json:"message,omitempty"`
	UnschedulablePlugins []string                    `json:"unschedulable_plugins"`
	PendingPlugins       []string                    `json:"pending_plugins"`
	Preemption           *preempted                  `json:"preemption,omitempty"`
	NominatedNodeAfter   *string                     `json:"nominated_node_after,omitempty"`
}

type effects struct {
	StartTime string            `json:"start_time,omitempty"`
	Deleted   []string          `json:"deleted,omitempty"`
	Updated   []any             `json:"updated,omitempty"`
	Nominated map[string]string `json:"nominated,omitempty"`
	// ExtendedResourceClaimStatus is that of the pod after PreBind.
	ExtendedResourceClaimStatus any `json:"extended_resource_claim_status,omitempty"`
}

type step struct {
	Pod        *v1.Pod  `json:"pod"`
	Attempt    int      `json:"attempt"`
	StartIndex int64    `json:"start_index"`
	Decision   decision `json:"decision"`
	Effects    effects  `json:"effects"`
}

// recorder runs the pods one after another and notes what the scheduler said of each.
type recorder struct {
	*peer
	step      *step
	now       time.Time
	nominated map[string]string
	attempts  map[string]int
	nodes     []string
	// samples says that not all nodes are looked at.
	samples bool
}

func record(ctx context.Context, peer *peer, pods []*v1.Pod, samples bool) error {
	r := &recorder{
		peer: peer, samples: samples, nominated: map[string]string{}, attempts: map[string]int{},
		now: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	}
	decide := peer.SchedulePod
	peer.SchedulePod = func(
		ctx context.Context, f framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo,
	) (scheduler.ScheduleResult, error) {
		r.step.StartIndex = reflect.ValueOf(peer.Scheduler).Elem().FieldByName("nextStartNodeIndex").Int()
		result, err := decide(ctx, f, state, info)
		r.observe(ctx, f, info.Pod, result, err)
		return result, err
	}
	peer.FailureHandler = r.failed
	for _, pod := range pods {
		r.attempt(ctx, pod)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"nodes": r.nodes})
}

func (r *recorder) attempt(ctx context.Context, pod *v1.Pod) {
	key := pod.Namespace + "/" + pod.Name
	if r.byKey[key].Spec.NodeName != "" {
		return // placed by now, and perhaps evicted again
	}
	pod = pod.DeepCopy()
	if name, known := r.nominated[key]; known {
		pod.Status.NominatedNodeName = name
	}
	r.attempts[key]++
	r.step = &step{Pod: pod, Attempt: r.attempts[key], Effects: effects{Nominated: map[string]string{}}}
	r.step.Decision.Tied, r.step.Decision.Rejected = []string{}, map[string]rejection{}
	r.step.Decision.UnschedulablePlugins, r.step.Decision.PendingPlugins = []string{}, []string{}
	r.victims, r.cleared, r.claims = nil, nil, claimWrites{}
	r.NextPod = func(klog.Logger) (*framework.QueuedPodInfo, error) {
		info, err := framework.NewPodInfo(pod)
		return &framework.QueuedPodInfo{PodInfo: info}, err
	}
	r.ended.Add(1)
	r.ScheduleOne(ctx)
	r.ended.Wait()
	r.claims.describe(r.peer, &r.step.Effects)
	if r.step.Decision.Result == "scheduled" {
		r.place(ctx, pod)
	}
	_ = json.NewEncoder(os.Stdout).Encode(r.step)
}

// place confirms a binding: the pod has started, one minute after the one before.
func (r *recorder) place(ctx context.Context, pod *v1.Pod) {
	r.now = r.now.Add(time.Minute)
	started := metav1.NewTime(r.now)
	r.step.Effects.StartTime = r.now.Format(time.RFC3339)
	placed := pod.DeepCopy()
	placed.Spec.NodeName, placed.Status.StartTime = *r.step.Decision.Node, &started
	placed.Status.NominatedNodeName = ""
	if err := r.Cache.AddPod(klog.FromContext(ctx), placed); err != nil {
		panic(err)
	}
	r.byKey[pod.Namespace+"/"+pod.Name] = placed
	delete(r.nominated, pod.Namespace+"/"+pod.Name)
}

// failed is told of a pod that got no node, after room was looked for.
func (r *recorder) failed(
	ctx context.Context, _ framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status,
	nominated *fwk.NominatingInfo, _ time.Time,
) {
	defer r.ended.Done()
	logger, d := klog.FromContext(ctx), &r.step.Decision
	if d.Result == "scheduled" {
		panic("binding failed: " + status.Message())
	}
	d.Message, d.Reason = status.Message(), "SchedulerError"
	if status.IsRejected() {
		d.Reason = "Unschedulable"
	}
	for _, key := range r.victims {
		if err := r.Cache.RemovePod(logger, r.byKey[key]); err != nil {
			panic(err)
		}
		r.step.Effects.Deleted = append(r.step.Effects.Deleted, "pods "+key)
	}
	for _, key := range r.cleared {
		r.nominate(logger, r.byKey[key], "")
	}
	name := info.Pod.Status.NominatedNodeName
	if nominated != nil && nominated.NominatingMode == fwk.ModeOverride {
		name = nominated.NominatedNodeName
	}
	d.NominatedNodeAfter = &name
	r.nominate(logger, info.Pod, name)
	if d.Preemption != nil && nominated != nil && name != "" {
		// Victims that are being deleted anyway are among them, but were not deleted again.
		d.Preemption.Nominated, d.Preemption.Victims = &name, d.Preemption.Candidates[name].Victims
	}
}

func (r *recorder) nominate(logger klog.Logger, pod *v1.Pod, name string) {
	key := pod.Namespace + "/" + pod.Name
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = name
	r.nominated[key] = name
	r.byKey[key] = pod
	r.step.Effects.Nominated[key] = name
	r.remember(pod)
	r.SchedulingQueue.DeleteNominatedPodIfExists(pod)
	if name != "" {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			panic(err)
		}
		made := fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: name}
		r.SchedulingQueue.AddNominatedPod(logger, info, &made)
	}
}

// observe notes what the attempt saw; scores are asked for anew, on the same snapshot.
func (r *recorder) observe(
	ctx context.Context, f framework.Framework, pod *v1.Pod,
	result scheduler.ScheduleResult, err error,
) {
	infos, listError := f.SnapshotSharedLister().NodeInfos().List()
	if listError != nil {
		panic(listError)
	}
	if r.nodes == nil {
		for _, info := range infos {
			r.nodes = append(r.nodes, info.Node().Name)
		}
	}
	d := &r.step.Decision
	unfit, isFitError := err.(*framework.FitError)
	switch {
	case err == nil:
		d.Result, d.Node = "scheduled", &result.SuggestedHost
		r.score(ctx, f, pod, infos, result)
	case isFitError:
		d.Result = "unschedulable"
		d.UnschedulablePlugins = sorted(unfit.Diagnosis.UnschedulablePlugins.UnsortedList())
		d.PendingPlugins = sorted(unfit.Diagnosis.PendingPlugins.UnsortedList())
		r.refusals(ctx, f, pod, infos, unfit.Diagnosis)
		r.candidates(ctx, f, pod, unfit.Diagnosis)
	default:
		d.Result = "error"
	}
}

func (r *recorder) refusals(
	ctx context.Context, f framework.Framework, pod *v1.Pod, infos []fwk.NodeInfo, diagnosis framework.Diagnosis,
) {
	d := &r.step.Decision
	if diagnosis.PreFilterMsg != "" {
		found := rejectionOf(diagnosis.NodeToStatus.AbsentNodesStatus())
		if found.Plugin == "" {
			found.Plugin = strings.Join(d.UnschedulablePlugins, ",")
		}
		d.Prefilter = &found
		return
	}
	narrowed, _, _ := f.RunPreFilterPlugins(ctx, framework.NewCycleState(), pod)
	walked := 0
	for _, info := range infos {
		name := info.Node().Name
		d.Rejected[name] = rejectionOf(diagnosis.NodeToStatus.Get(name))
		if !narrowed.AllNodes() && narrowed.NodeNames.Has(name) {
			walked++
		}
	}
	r.noteOrder(narrowed, walked)
}

// noteOrder says that the nodes which PreFilter left were walked in random order.
func (r *recorder) noteOrder(narrowed *fwk.PreFilterResult, walked int) {
	if !narrowed.AllNodes() && walked > 1 {
		r.step.Decision.Choice = "unordered"
	}
}

// rejectionOf reads a status. That of nodes which PreFilter left out has no plugin, but names some.
func rejectionOf(status *fwk.Status) rejection {
	found := rejection{status.Plugin(), status.Code().String(), sorted(status.Reasons())}
	text := status.Message()
	const lead = "node(s) didn't satisfy plugin(s) ["
	if found.Plugin == "" && strings.HasPrefix(text, lead) && strings.HasSuffix(text, "]") {
		found.Plugin = strings.ReplaceAll(text[len(lead):len(text)-1], " ", ",")
	}
	return found
}

func (r *recorder) candidates(
	ctx context.Context, f framework.Framework, pod *v1.Pod, diagnosis framework.Diagnosis,
) {
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 100}
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	plugin, err := defaultpreemption.New(ctx, args, f, features)
	if err != nil {
		panic(err)
	}
	hasPlugin := false
	for _, enabled := range f.ListPlugins().PostFilter.Enabled {
		hasPlugin = hasPlugin || enabled.Name == plugin.Name()
	}
	status := diagnosis.NodeToStatus.Get(pod.Status.NominatedNodeName)
	eligible, _ := plugin.PodEligibleToPreemptOthers(ctx, pod, status)
	nodes, err := diagnosis.NodeToStatus.NodesForStatusCode(f.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		panic(err)
	}
	if !hasPlugin || !eligible || len(nodes) == 0 {
		return
	}
	budgets, err := plugin.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		panic(err)
	}
	// DynamicResources shares its state with copies, and notes claims in it when it filters.
	own := framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(ctx, own, pod); !status.IsSuccess() {
		panic(status.AsError())
	}
	found, _, err := plugin.Evaluator.DryRunPreemption(ctx, own, pod, nodes, budgets, 0, int32(len(nodes)))
	if err != nil && len(found) == 0 {
		return // looking for room ends in the same error
	}
	noted := &preempted{Victims: []string{}, Candidates: map[string]candidate{}, Acceptable: []string{}}
	for _, each := range found {
		victims := []string{}
		for _, victim := range each.Victims().Pods {
			victims = append(victims, victim.Namespace+"/"+victim.Name)
		}
		noted.Candidates[each.Name()] = candidate{sorted(victims), each.Victims().NumPDBViolations}
	}
	r.step.Decision.Preemption = noted
}

// score finds the nodes that passed once more, and their scores.
func (r *recorder) score(
	ctx context.Context, f framework.Framework, pod *v1.Pod, infos []fwk.NodeInfo, result scheduler.ScheduleResult,
) {
	d, state := &r.step.Decision, framework.NewCycleState()
	narrowed, status, by := f.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		panic(status.AsError())
	}
	walked, leftOut := 0, map[string]rejection{}
	var passed []fwk.NodeInfo
	for number := range infos {
		// A profile that looks at some nodes only ends with the one that would be too many.
		info := infos[(int(r.step.StartIndex)+number)%len(infos)]
		name := info.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			plugins := sorted(by.UnsortedList())
			text := "node(s) didn't satisfy plugin(s) [" + strings.Join(plugins, " ") + "]"
			leftOut[name] = rejection{strings.Join(plugins, ","), "UnschedulableAndUnresolvable", []string{text}}
			d.Rejected[name] = leftOut[name]
			continue
		}
		walked++
		if status := f.RunFilterPluginsWithNominatedPods(ctx, state, pod, info); !status.IsSuccess() {
			d.Rejected[name] = rejectionOf(status)
		} else if r.samples && len(passed) == result.FeasibleNodes {
			break
		} else {
			passed = append(passed, info)
		}
	}
	r.noteOrder(narrowed, walked)
	d.Tied = []string{result.SuggestedHost}
	wasFirst := pod.Status.NominatedNodeName == result.SuggestedHost && result.EvaluatedNodes == 1
	if wasFirst && walked > 1 {
		d.Choice, d.Rejected = "nominated", leftOut
	} else if len(passed) > 1 {
		r.scores(ctx, f, state, pod, passed)
	}
}

func (r *recorder) scores(
	ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, passed []fwk.NodeInfo,
) {
	d := &r.step.Decision
	if status := f.RunPreScorePlugins(ctx, state, pod, passed); !status.IsSuccess() {
		panic(status.AsError())
	}
	found, status := f.RunScorePlugins(ctx, state, pod, passed)
	if !status.IsSuccess() {
		panic(status.AsError())
	}
	weights := map[string]int64{}
	for _, plugin := range f.ListPlugins().Score.Enabled {
		weights[plugin.Name] = int64(plugin.Weight)
	}
	d.Scores, d.Total = map[string]map[string]int64{}, map[string]int64{}
	var highest int64 = -1
	for _, node := range found {
		d.Total[node.Name] = node.TotalScore
		highest = max(highest, node.TotalScore)
		for _, score := range node.Scores {
			if d.Scores[score.Name] == nil {
				d.Scores[score.Name] = map[string]int64{}
			}
			d.Scores[score.Name][node.Name] = score.Score / weights[score.Name]
		}
	}
	d.Tied = nil
	for name, total := range d.Total {
		if total == highest {
			d.Tied = append(d.Tied, name)
		}
	}
	sort.Strings(d.Tied)
}

func sorted(words []string) []string {
	found := append([]string{}, words...)
	sort.Strings(found)
	return found
}
