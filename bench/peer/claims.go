package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// Resource claims are written as on an API server: with rising resource versions and names made
// from generateName, which the fake client does not do. Devices with binding conditions are
// reported as ready at once.

var claimsResource = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}

// firstVersion is above the resource versions of all objects read.
const firstVersion = 1000

var versions = firstVersion

// claimWrites are the writes of one attempt.
type claimWrites struct {
	keys    []string
	deleted []string
	mapping any
}

func (w *claimWrites) notePatch(patch []byte) {
	var pod struct {
		Status struct {
			ExtendedResourceClaimStatus any `json:"extendedResourceClaimStatus"`
		} `json:"status"`
	}
	if json.Unmarshal(patch, &pod) == nil && pod.Status.ExtendedResourceClaimStatus != nil {
		w.mapping = pod.Status.ExtendedResourceClaimStatus
	}
}

// describe adds the writes to the effects of a step, when the scheduler knows all of them.
func (w *claimWrites) describe(p *peer, to *effects) {
	written := map[string]bool{}
	gone := map[string]bool{}
	for _, key := range w.deleted {
		gone[key] = true
		to.Deleted = append(to.Deleted, "resourceclaims "+key)
	}
	for _, key := range w.keys {
		if written[key] || gone[key] {
			continue
		}
		written[key] = true
		claim := p.claim(key)
		claim.APIVersion, claim.Kind = "resource.k8s.io/v1", "ResourceClaim"
		to.Updated = append(to.Updated, claim)
	}
	to.ExtendedResourceClaimStatus = w.mapping
	p.awaitDevices()
}

func (p *peer) claim(key string) *resourceapi.ResourceClaim {
	for _, known := range p.allClaims() {
		if known.Namespace+"/"+known.Name == key {
			return known.DeepCopy()
		}
	}
	panic("no claim " + key)
}

func (p *peer) allClaims() []*resourceapi.ResourceClaim {
	known, err := p.Profiles["default-scheduler"].SharedDRAManager().ResourceClaims().List()
	if err != nil {
		panic(err)
	}
	return known
}

// awaitDevices waits until the devices in use are those of the claims.
func (p *peer) awaitDevices() {
	tracker := p.Profiles["default-scheduler"].SharedDRAManager().ResourceClaims()
	until("the devices in use are those of the claims", func() bool {
		whole, shares := map[string]bool{}, map[string]bool{}
		for _, claim := range p.allClaims() {
			if claim.Status.Allocation == nil {
				continue
			}
			for _, each := range claim.Status.Allocation.Devices.Results {
				name := each.Driver + "/" + each.Pool + "/" + each.Device
				switch {
				case each.AdminAccess != nil && *each.AdminAccess:
				case each.ShareID != nil:
					shares[name+"/"+string(*each.ShareID)] = true
				default:
					whole[name] = true
				}
			}
		}
		state, err := tracker.GatherAllocatedState()
		return err == nil && len(state.AllocatedDevices) == len(whole) &&
			len(state.AllocatedSharedDeviceIDs) == len(shares)
	})
}

// storeClaims makes the fake client store claims.
func (p *peer) storeClaims() {
	tracker := p.client.Tracker()
	store := func(claim *resourceapi.ResourceClaim, write func() error) (bool, kruntime.Object, error) {
		versions++
		claim.ResourceVersion = strconv.Itoa(versions)
		if err := write(); err != nil {
			return true, nil, err
		}
		key := claim.Namespace + "/" + claim.Name
		p.claims.keys = append(p.claims.keys, key)
		p.awaitVersion(key, claim.ResourceVersion)
		return true, claim.DeepCopy(), nil
	}
	p.client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		claim := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim)
		claim.Name = fmt.Sprintf("%s%d", claim.GenerateName, versions)
		claim.UID = types.UID("uid-" + claim.Name)
		return store(claim, func() error { return tracker.Create(claimsResource, claim, claim.Namespace) })
	})
	p.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
		if action.GetSubresource() == "status" {
			makeReady(claim)
		}
		return store(claim, func() error { return tracker.Update(claimsResource, claim, claim.Namespace) })
	})
	p.client.PrependReactor("delete", "resourceclaims", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		gone := action.(clienttesting.DeleteAction)
		p.claims.deleted = append(p.claims.deleted, gone.GetNamespace()+"/"+gone.GetName())
		if err := tracker.Delete(claimsResource, gone.GetNamespace(), gone.GetName()); err != nil {
			return true, nil, err
		}
		until("the informer learns of the deletion", func() bool {
			for _, known := range p.allClaims() {
				if known.Namespace == gone.GetNamespace() && known.Name == gone.GetName() {
					return false
				}
			}
			return true
		})
		return true, nil, nil
	})
}

// makeReady reports every binding condition of devices that have no entry yet.
func makeReady(claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	known := map[string]bool{}
	for _, each := range claim.Status.Devices {
		known[each.Driver+"/"+each.Pool+"/"+each.Device] = true
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		name := result.Driver + "/" + result.Pool + "/" + result.Device
		if len(result.BindingConditions) == 0 || known[name] {
			continue
		}
		known[name] = true
		ready := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		for _, condition := range result.BindingConditions {
			ready.Conditions = append(ready.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
		}
		claim.Status.Devices = append(claim.Status.Devices, ready)
	}
}

// awaitVersion waits until the scheduler's informer has a version of a claim.
func (p *peer) awaitVersion(key, version string) {
	wanted, err := strconv.Atoi(version)
	if err != nil {
		panic(err)
	}
	until("the informer learns of "+key, func() bool {
		for _, known := range p.allClaims() {
			if known.Namespace+"/"+known.Name != key {
				continue
			}
			has, err := strconv.Atoi(known.ResourceVersion)
			return err == nil && has >= wanted
		}
		return false
	})
}

func until(what string, holds func() bool) {
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			panic("not so after 10 s: " + what)
		}
	}
}
