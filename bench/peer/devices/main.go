// Allocates devices with the allocators of k8s.io/dynamic-resource-allocation, with feature gates
// switched off.
//
// It reads cases, a line of JSON each (tests/parity/data/README.md), and writes for each set of
// gates the answers of the allocator that kube-scheduler would choose. The stable allocator visits
// pools in random order, so each case is repeated, with slices in random order; all different
// answers are written. Nothing is written where the only answer is that of the default gates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sort"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	repetitions = 24
	share       = "00000000-0000-0000-0000-000000000000"
)

var gateSets = [][]string{
	{},
	{"DRAPartitionableDevices"},
	{"DRADeviceTaints"},
	{"DRAConsumableCapacity"},
	{"DRADeviceBindingConditions"},
	{"DRAConsumableCapacity", "DRADeviceBindingConditions"},
	{"DRAPartitionableDevices", "DRADeviceTaints", "DRAConsumableCapacity", "DRADeviceBindingConditions"},
}

type consumed struct {
	Device   [3]string                                        `json:"device"`
	Capacity map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
}

type testCase struct {
	Name            string                       `json:"name"`
	Node            *v1.Node                     `json:"node"`
	Classes         []*resourceapi.DeviceClass   `json:"classes"`
	Slices          []*resourceapi.ResourceSlice `json:"slices"`
	Claims          []*resourceapi.ResourceClaim `json:"claims"`
	Allocated       [][3]string                  `json:"allocated"`
	AllocatedShared [][4]string                  `json:"allocated_shared"`
	Consumed        []consumed                   `json:"consumed"`
}

type answer struct {
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error,omitempty"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

func state(c *testCase, consumable bool) structured.AllocatedState {
	s := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, d := range c.Allocated {
		s.AllocatedDevices.Insert(structured.MakeDeviceID(d[0], d[1], d[2]))
	}
	for _, d := range c.AllocatedShared {
		id := structured.MakeDeviceID(d[0], d[1], d[2])
		if !consumable {
			s.AllocatedDevices.Insert(id)
			continue
		}
		shareID := types.UID(d[3])
		s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &shareID))
	}
	for _, entry := range c.Consumed {
		if consumable {
			id := structured.MakeDeviceID(entry.Device[0], entry.Device[1], entry.Device[2])
			s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, entry.Capacity))
		}
	}
	return s
}

func allocate(c *testCase, off sets.Set[string]) (a answer) {
	consumable := !off.Has("DRAConsumableCapacity")
	features := structured.Features{
		AdminAccess:            true,
		PrioritizedList:        true,
		PartitionableDevices:   !off.Has("DRAPartitionableDevices"),
		DeviceTaints:           !off.Has("DRADeviceTaints"),
		DeviceBindingAndStatus: !off.Has("DRADeviceBindingConditions"),
		ConsumableCapacity:     consumable,
	}
	slices := make([]*resourceapi.ResourceSlice, len(c.Slices))
	for to, from := range rand.Perm(len(slices)) {
		slices[to] = c.Slices[from]
	}
	ctx := context.Background()
	cache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: consumable})
	allocator, err := structured.NewAllocator(ctx, features, state(c, consumable), classes(c.Classes), slices, cache)
	if err == nil {
		a.Results, err = allocator.Allocate(ctx, c.Node, c.Claims)
	}
	if err != nil {
		return answer{Error: errors.Unwrap(fmt.Errorf("%w", err)).Error()}
	}
	for _, result := range a.Results {
		for i := range result.Devices.Results {
			if result.Devices.Results[i].ShareID != nil {
				shareID := types.UID(share)
				result.Devices.Results[i].ShareID = &shareID
			}
		}
	}
	return a
}

// answers are the different answers, as JSON, sorted.
func answers(c *testCase, gates []string, times int) []string {
	found := sets.New[string]()
	for range times {
		text, err := json.Marshal(allocate(c, sets.New(gates...)))
		if err != nil {
			panic(err)
		}
		found.Insert(string(text))
	}
	list := found.UnsortedList()
	sort.Strings(list)
	return list
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var c testCase
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		standard := answers(&c, nil, 1)[0]
		for _, gates := range gateSets[1:] {
			different := answers(&c, gates, repetitions)
			if len(different) == 1 && different[0] == standard {
				continue
			}
			raw := make([]json.RawMessage, len(different))
			for i, text := range different {
				raw[i] = json.RawMessage(text)
			}
			line, err := json.Marshal(map[string]any{"name": c.Name, "off": gates, "answers": raw})
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(out, string(line))
		}
	}
}
