package scheduler

// This file is added to a copy of k8s.io/kubernetes/pkg/scheduler (see prepare.py). It runs
// mooring as a child process in place of the scheduling loop. The Go scheduler is still built: its
// informers, cache and queue are what the tests look at, but it schedules nothing.

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/utils/clock"
)

const (
	commandVariable = "EXTERNAL_SCHEDULER"         // the command line; empty: the Go scheduler
	gatesVariable   = "EXTERNAL_SCHEDULER_REFUSES" // Gate=value,...: settings it does not accept
	inertVariable   = "EXTERNAL_SCHEDULER_INERT"   // Go plugins to leave out, by comma
	folderVariable  = "EXTERNAL_SCHEDULER_FOLDER"  // configuration and logs
	readyWait       = 60 * time.Second

	fakeClockBackoffSeconds = 8
	versionsBack            = 3 // the oldest version that --emulated-version accepts
)

var externalCount atomic.Int64

// IsExternal says whether another program schedules.
func IsExternal() bool { return os.Getenv(commandVariable) != "" }

// DoesNotApply says why a scheduler with these options cannot run outside of this process.
func (sched *Scheduler) DoesNotApply() string {
	if !IsExternal() || len(sched.externalPlugins()) == 0 {
		return ""
	}
	return "does not apply: the test compiles in Go plugins: " + strings.Join(sched.externalPlugins(), ", ")
}

// externalPlugins returns the names of the Go plugins which the test needs.
func (sched *Scheduler) externalPlugins() []string {
	// Not Split: a plugin of a test may have no name, which is inert only if it is listed.
	inert := strings.FieldsFunc(os.Getenv(inertVariable), func(r rune) bool { return r == ',' })
	var names []string
	for name := range sched.externalOptions.frameworkOutOfTreeRegistry {
		if !slices.Contains(inert, name) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// withoutInert returns the plugins without those that change nothing in the tests that run.
func (sched *Scheduler) withoutInert(set *schedulerapi.PluginSet) {
	set.Enabled = slices.DeleteFunc(slices.Clone(set.Enabled), func(plugin schedulerapi.Plugin) bool {
		_, compiledIn := sched.externalOptions.frameworkOutOfTreeRegistry[plugin.Name]
		return compiledIn
	})
}

// Go runs the scheduler in the background and returns when it is ready.
func (sched *Scheduler) Go(ctx context.Context) {
	if !IsExternal() {
		go sched.Run(ctx)
		return
	}
	folder, err := externalFolder()
	if err != nil {
		panic(err)
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	configuration := filepath.Join(folder, "configuration.json")
	if err := sched.writeKubeconfig(kubeconfig); err != nil {
		panic(err)
	}
	if err := sched.writeConfiguration(configuration, kubeconfig); err != nil {
		panic(err)
	}
	port, err := freePort()
	if err != nil {
		panic(err)
	}
	ended := startExternal(ctx, folder, []string{
		"--config=" + configuration,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--authentication-skip-lookup",
		"--authorization-always-allow-paths=*",
		"--v=4",
	})
	go func() {
		<-ended
		_ = sched.Profiles.Close()
	}()
	sched.ExternalPort = port
	waitReady(ctx, port, "/readyz", ended)
}

// RunExternal runs the scheduler with these flags and returns when it answers on the port.
func RunExternal(ctx context.Context, port int, flags []string) error {
	folder, err := externalFolder()
	if err != nil {
		return err
	}
	ended := startExternal(ctx, folder, flags)
	waitReady(ctx, port, "/healthz", ended)
	return nil
}

func externalFolder() (string, error) {
	name := fmt.Sprintf("%d-%03d", os.Getpid(), externalCount.Add(1))
	folder := filepath.Join(os.Getenv(folderVariable), name)
	return folder, os.MkdirAll(folder, 0o700)
}

// startExternal starts the program, and kills it when ctx is done. Its output goes to a file.
func startExternal(ctx context.Context, folder string, flags []string) <-chan struct{} {
	arguments := append(strings.Fields(os.Getenv(commandVariable)), flags...)
	arguments = append(arguments, gateFlags()...)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(log, "%s\n", strings.Join(arguments, " "))
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Dir, command.Stdout, command.Stderr = folder, log, log
	if err := command.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "EXTERNAL-SCHEDULER %s\n", folder)
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			_ = command.Process.Kill()
		case <-ended:
		}
	}()
	go func() {
		err := command.Wait()
		log.Close()
		if ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "EXTERNAL-SCHEDULER ended by itself: %v; see %s\n", err, folder)
		}
		close(ended)
	}()
	return ended
}

func (sched *Scheduler) writeKubeconfig(path string) error {
	from := sched.externalOptions.kubeConfig
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{
		Server:                   from.Host,
		TLSServerName:            from.ServerName,
		InsecureSkipTLSVerify:    from.Insecure,
		CertificateAuthority:     from.CAFile,
		CertificateAuthorityData: from.CAData,
	}
	if from.CAFile != "" {
		config.Clusters["test"].CertificateAuthorityData = nil
	}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		Token:                 from.BearerToken,
		ClientCertificate:     from.CertFile,
		ClientCertificateData: from.CertData,
		ClientKey:             from.KeyFile,
		ClientKeyData:         from.KeyData,
	}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, path)
}

func (sched *Scheduler) writeConfiguration(path, kubeconfig string) error {
	options := sched.externalOptions
	profiles := make([]schedulerapi.KubeSchedulerProfile, len(options.profiles))
	for i := range options.profiles {
		profiles[i] = *options.profiles[i].DeepCopy()
		if plugins := profiles[i].Plugins; plugins != nil {
			for _, set := range []*schedulerapi.PluginSet{
				&plugins.MultiPoint, &plugins.PreFilter, &plugins.Filter, &plugins.PostBind,
			} {
				sched.withoutInert(set)
			}
		}
	}
	internal := schedulerapi.KubeSchedulerConfiguration{
		Parallelism:              options.parallelism,
		PercentageOfNodesToScore: &options.percentageOfNodesToScore,
		// A configuration may not say 0, which some tests use to avoid the backoff queue.
		PodInitialBackoffSeconds: max(options.podInitialBackoffSeconds, 1),
		PodMaxBackoffSeconds:     max(options.podMaxBackoffSeconds, 1),
		Profiles:                 profiles,
		Extenders:                options.extenders,
	}
	if _, isReal := options.clock.(clock.RealClock); !isReal {
		// The test turns its own clock to end a long backoff; the program has another clock.
		internal.PodInitialBackoffSeconds = min(internal.PodInitialBackoffSeconds, fakeClockBackoffSeconds)
		internal.PodMaxBackoffSeconds = min(internal.PodMaxBackoffSeconds, fakeClockBackoffSeconds)
	}
	var text bytes.Buffer
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return fmt.Errorf("no serializer for %s", runtime.ContentTypeJSON)
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
	if err := encoder.Encode(&internal, &text); err != nil {
		return err
	}
	var document map[string]any
	decoder := json.NewDecoder(&text)
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return err
	}
	document["leaderElection"] = map[string]any{"leaderElect": false}
	document["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000}
	if options.parallelism <= 0 {
		delete(document, "parallelism")
	}
	written, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, written, 0o600)
}

// gateFlags returns the flags for the feature gates and the version which the test has set.
func gateFlags() []string {
	var flags []string
	version := utilfeature.DefaultMutableFeatureGate.EmulationVersion()
	effective := compatibility.DefaultKubeEffectiveVersionForTest()
	if version.LessThan(effective.BinaryVersion().SubtractMinor(versionsBack)) {
		// kube-scheduler cannot be told so either; what the API server does then is what counts.
		fmt.Fprintf(os.Stderr, "EXTERNAL-SCHEDULER with the gates of its own version, not %s\n", version)
		return nil
	}
	if !version.EqualTo(effective.EmulationVersion()) {
		flags = append(flags, fmt.Sprintf("--emulated-version=%d.%d", version.Major(), version.Minor()))
	}
	if gates := changedGates(); gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	return flags
}

// changedGates returns the feature gates which the test has set to another value than the default.
func changedGates() string {
	refused := map[string]bool{}
	for _, setting := range strings.Split(os.Getenv(gatesVariable), ",") {
		refused[setting] = true
	}
	var settings []string
	for feature, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		enabled := utilfeature.DefaultFeatureGate.Enabled(feature)
		if enabled == spec.Default || strings.HasPrefix(string(feature), "All") {
			continue
		}
		setting := fmt.Sprintf("%s=%t", feature, enabled)
		if refused[setting] {
			fmt.Fprintf(os.Stderr, "EXTERNAL-SCHEDULER without %s\n", setting)
			continue
		}
		settings = append(settings, setting)
	}
	sort.Strings(settings)
	return strings.Join(settings, ",")
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// ExternalPodState is what the scheduler says about a pod.
type ExternalPodState struct {
	Node        string `json:"node"`
	AssumedNode string `json:"assumedNode"`
	Queue       string `json:"queue"`
	Attempts    int    `json:"attempts"`
}

// IsPlaced says whether the pod is on a node, or is being bound to one.
func (state ExternalPodState) IsPlaced() bool { return state.Node != "" || state.AssumedNode != "" }

// ExternalPod asks the scheduler about a pod.
func (sched *Scheduler) ExternalPod(namespace, name string) (ExternalPodState, error) {
	var state ExternalPodState
	path := fmt.Sprintf("/mooring/v1/explain?pod=%s/%s&output=json", namespace, name)
	body, err := getExternal(sched.ExternalPort, path)
	if err != nil {
		return state, err
	}
	return state, json.Unmarshal(body, &state)
}

// ExternalEvents returns how many cluster events of each label the scheduler has handled.
func (sched *Scheduler) ExternalEvents() map[string]int {
	const prefix = `scheduler_event_handling_duration_seconds_count{event="`
	body, _ := getExternal(sched.ExternalPort, "/metrics")
	counts := map[string]int{}
	for _, line := range strings.Split(string(body), "\n") {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			if label, value, ok := strings.Cut(rest, `"} `); ok {
				count, _ := strconv.ParseFloat(value, 64)
				counts[label] = int(count)
			}
		}
	}
	return counts
}

// BatchCounter counts the pods that took a node from the result of an equal pod.
type BatchCounter interface{ TotalBatchedPods() int64 }

type externalBatches struct {
	port    int
	profile string
}

// ExternalBatches returns the counter of a profile.
func (sched *Scheduler) ExternalBatches(profile string) BatchCounter {
	if !IsExternal() {
		return sched.Profiles[profile].(BatchCounter)
	}
	return externalBatches{sched.ExternalPort, profile}
}

func (batches externalBatches) TotalBatchedPods() int64 {
	prefix := fmt.Sprintf(`scheduler_batch_attempts_total{profile=%q,result="hint_used"} `, batches.profile)
	body, _ := getExternal(batches.port, "/metrics")
	for _, line := range strings.Split(string(body), "\n") {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			count, _ := strconv.ParseFloat(value, 64)
			return int64(count)
		}
	}
	return 0
}

// getExternal returns the body of an answer with status 200.
func getExternal(port int, path string) ([]byte, error) {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	answer, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", port, path))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, err
}

func waitReady(ctx context.Context, port int, path string, ended <-chan struct{}) {
	deadline := time.Now().Add(readyWait)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		select {
		case <-ended:
			return
		default:
		}
		if _, err := getExternal(port, path); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Fprintf(os.Stderr, "EXTERNAL-SCHEDULER not ready after %s\n", readyWait)
}
