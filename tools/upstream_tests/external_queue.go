package queueing

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/pkg/scheduler"
	testutils "k8s.io/kubernetes/test/integration/util"
)

// This file is added to a copy of k8s.io/kubernetes/test/integration/scheduler/queueing (see
// prepare.py). A test there makes each attempt by itself, and looks into the queue of the Go
// scheduler. Here mooring runs, and a pod was requeued if another attempt was made.

const (
	// How long a pod that must not be requeued is watched.
	quietWait = 1500 * time.Millisecond
	pollEvery = 50 * time.Millisecond
)

func runExternal(t *testing.T, tt *CoreResourceEnqueueTestCase, testCtx *testutils.TestContext) {
	t.Helper()
	if tt.EnableNodeDeclaredFeatures {
		t.Skip("does not apply: the test compiles in a Go feature of nodes")
	}
	if tt.EnableGangScheduling {
		t.Skip("does not apply: alpha gates GenericWorkload and GangScheduling")
	}
	ctx, scheduler := testCtx.Ctx, testCtx.Scheduler
	scheduler.Go(ctx)
	gated := tt.ExpectedInitialRejectingPhase == rejectingPhasePreEnqueue
	attempts := map[string]int{}
	wantQueue, wantAttempts := "unschedulable", 1
	if gated {
		wantQueue, wantAttempts = "gated", 0
	}
	last := ""
	err := wait.PollUntilContextTimeout(ctx, pollEvery, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		for _, pod := range tt.Pods {
			state, err := scheduler.ExternalPod(testCtx.NS.Name, pod.Name)
			last = pod.Name + ": " + state.Queue
			if err != nil || state.Queue != wantQueue || state.Attempts < wantAttempts {
				return false, nil
			}
			attempts[pod.Name] = state.Attempts
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("Not all pods were rejected; the last one was %s", last)
	}

	before := scheduler.ExternalEvents()
	wantEvents, err := tt.TriggerFn(testCtx)
	if err != nil {
		if strings.Contains(err.Error(), "not found in the scheduling queue") {
			t.Skip("does not apply: the test looks into the queue")
		}
		t.Fatalf("Failed to trigger the event: %v", err)
	}
	last = ""
	err = wait.PollUntilContextTimeout(ctx, pollEvery, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		now := scheduler.ExternalEvents()
		for event, count := range wantEvents {
			// Pods that are scheduled by now make events of their own: there may be more.
			if uint64(now[event.Label()]-before[event.Label()]) < count {
				last = event.Label()
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Errorf("The event %s was not handled as often as expected; all: %v", last, scheduler.ExternalEvents())
	}

	var requeued, bound sets.Set[string]
	look := func(context.Context) (bool, error) {
		requeued, bound = sets.New[string](), sets.New[string]()
		for _, pod := range tt.Pods {
			state, err := scheduler.ExternalPod(testCtx.NS.Name, pod.Name)
			if err == nil && (state.IsPlaced() || state.Attempts > attempts[pod.Name]) {
				requeued.Insert(pod.Name)
			}
			if err == nil && state.IsPlaced() {
				bound.Insert(pod.Name)
			}
		}
		return requeued.IsSuperset(tt.WantRequeuedPods), nil
	}
	err = wait.PollUntilContextTimeout(ctx, pollEvery, wait.ForeverTestTimeout, true, look)
	if err == nil {
		time.Sleep(quietWait)
		_, _ = look(ctx)
	}
	if more := requeued.Difference(tt.WantRequeuedPods); more.Len() > 0 && bound.Intersection(tt.WantRequeuedPods).Len() > 0 {
		// A pod that was bound meanwhile is an event, too; the test makes no second attempts.
		t.Logf("also requeued, after %v were bound: %v", bound.UnsortedList(), more.UnsortedList())
		requeued = requeued.Difference(more)
	}
	if !requeued.Equal(tt.WantRequeuedPods) {
		t.Fatalf("Expect pods %v to be requeued, but %v are", tt.WantRequeuedPods.UnsortedList(), requeued.UnsortedList())
	}
}

func isExternal() bool { return scheduler.IsExternal() }
