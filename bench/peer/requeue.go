package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
)

// With -requeue, the pods are tried once with the whole scheduler: its queue, event handlers and
// queueing hints. Then objects change, one after another, and each time a line says which pods
// wait to be tried again ("queued") and which do not ("parked").
//
// There is no watch: an informer is a store, and its handlers are called when the store has changed. So a
// change is dealt with when the call returns, and nothing has to be waited for.

type change struct {
	Role   string          `json:"role"`
	Verb   string          `json:"verb"`
	Object json.RawMessage `json:"object"`
}

type parked struct {
	Queued []string `json:"queued"`
	Parked []string `json:"parked"`
}

// directInformer is an informer that never runs.
type directInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// synced is the registration of a handler that has nothing to wait for.
type synced struct {
	cache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

func (d *directInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	d.handlers = append(d.handlers, handler)
	made, err := d.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	return synced{made}, err
}

func (d *directInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return d.AddEventHandler(handler)
}

func (d *directInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return d.AddEventHandler(handler)
}

func (d *directInformer) HasSynced() bool { return true }

func (d *directInformer) apply(verb string, object any) error {
	store := d.GetIndexer()
	old, exists, err := store.Get(object)
	if err != nil {
		return err
	}
	switch {
	case verb == "add" && !exists:
		err = store.Add(object)
	case verb == "update" && exists:
		err = store.Update(object)
	case verb == "delete" && exists:
		err = store.Delete(object)
	default:
		err = fmt.Errorf("cannot %s: exists is %v", verb, exists)
	}
	if err != nil {
		return err
	}
	for _, handler := range d.handlers {
		switch verb {
		case "add":
			handler.OnAdd(object, false)
		case "update":
			handler.OnUpdate(old, object)
		default:
			handler.OnDelete(old)
		}
	}
	return nil
}

type requeuer struct {
	*scheduler.Scheduler
	informers map[reflect.Type]*directInformer
}

func newRequeuer(ctx context.Context, config []byte) (*requeuer, error) {
	client := fake.NewSimpleClientset()
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) {
		return true, &v1.Pod{}, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	made := &requeuer{informers: map[reflect.Type]*directInformer{}}
	for _, object := range []kruntime.Object{
		&v1.Pod{}, &v1.Node{}, &v1.Namespace{}, &v1.Service{}, &v1.PersistentVolume{},
		&v1.PersistentVolumeClaim{}, &policyv1.PodDisruptionBudget{}, &storagev1.StorageClass{},
		&storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{},
		&storagev1.VolumeAttachment{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{},
		&resourcev1.DeviceClass{}, &v1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
	} {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		real := cache.NewSharedIndexInformer(&cache.ListWatch{}, object, 0, indexers)
		direct := &directInformer{SharedIndexInformer: real}
		factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return direct
		})
		made.informers[reflect.TypeOf(object)] = direct
	}
	all := int32(100)
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(decoded(config).Profiles...),
		scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(&all))
	made.Scheduler = sched
	return made, err
}

func (r *requeuer) apply(verb string, raw []byte) error {
	object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return err
	}
	informer := r.informers[reflect.TypeOf(object)]
	if informer == nil {
		return fmt.Errorf("nothing follows %T", object)
	}
	if err := informer.apply(verb, object); err != nil {
		return fmt.Errorf("%w: %s", err, raw)
	}
	return nil
}

// try makes an attempt for each pod that waits for one. None may get a node.
func (r *requeuer) try(ctx context.Context) {
	for len(r.SchedulingQueue.PodsInActiveQ()) > 0 {
		r.ScheduleOne(ctx)
	}
}

func (r *requeuer) parked() parked {
	found := parked{Queued: []string{}, Parked: []string{}}
	for _, pod := range append(r.SchedulingQueue.PodsInActiveQ(), r.SchedulingQueue.PodsInBackoffQ()...) {
		found.Queued = append(found.Queued, pod.Namespace+"/"+pod.Name)
	}
	for _, pod := range r.SchedulingQueue.UnschedulablePods() {
		found.Parked = append(found.Parked, pod.Namespace+"/"+pod.Name)
	}
	sort.Strings(found.Queued)
	sort.Strings(found.Parked)
	return found
}

// requeue reads "config", then "object" (the cluster and its pods), then "change" with a verb.
func requeue(ctx context.Context) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	var made *requeuer
	var config []byte
	tried := false
	ready := func() error {
		if made != nil {
			return nil
		}
		var err error
		made, err = newRequeuer(ctx, config)
		return err
	}
	begin := func() error {
		if err := ready(); err != nil || tried {
			return err
		}
		tried = true
		made.try(ctx)
		return out.Encode(made.parked())
	}
	for lines.Scan() {
		var each change
		if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
			return err
		}
		var err error
		switch each.Role {
		case "config":
			config = each.Object
		case "object":
			if err = ready(); err == nil {
				err = made.apply("add", each.Object)
			}
		case "change":
			if err = begin(); err == nil {
				err = made.apply(each.Verb, each.Object)
			}
			if err == nil {
				err = out.Encode(made.parked())
			}
		}
		if err != nil {
			return err
		}
	}
	if err := begin(); err != nil {
		return err
	}
	return lines.Err()
}
