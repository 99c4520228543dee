"""A server of resource claims, as plain as can be: for runs of single parts.

It knows resourceVersions, UIDs, finalizers and the subresource ``status``, and refuses what the
validation of the API server refuses. A client that follows the rules of claims is never refused as
invalid: ``invalid`` counts those writes.

Source: pkg/apis/resource/validation/validation.go (ValidateResourceClaimStatusUpdate).
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from mooring.client import Request
from mooring.client.transport.transport import Response, Stream
from mooring.objects.resource import FINALIZER
from tests.faults.parts.pod_server import error

PREFIX: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/"

#: A claim as it is stored, in API form.
Stored = dict[str, Any]


def users_of(claim: Stored) -> list[str]:
    """Returns the UIDs of the pods that a claim is reserved for."""
    return [user["uid"] for user in claim["status"].get("reservedFor") or ()]


CONFLICT: Final = 409
#: A write of one version is refused so often at most: the first answers may be lost, or come to a
#: request that is not waited for any longer.
CONFLICTS_MAX: Final = 3


class ClaimServer:
    """A transport that answers at once.

    Args:
        on_change: Called with the version before and after each change, in order; None = did not
            exist, is gone.

    Attributes:
        claims: Name -> claim.
        invalid: The writes that validation has refused.
        writer: The request of a scheduler that is being handled; None = others write.
        attempt_of: Returns the number of the attempt at the pod of a UID.
    """

    def __init__(self, on_change: Callable[[Stored | None, Stored | None], None]) -> None:
        self.claims: dict[str, Stored] = {}
        self.invalid: list[str] = []
        self.writer: Request | None = None
        self.attempt_of: Callable[[str], int] = lambda _: 0
        #: What identifies a write -> how often it was refused with Conflict.
        self._conflicts: Counter[tuple[Any, ...]] = Counter()
        self._on_change = on_change
        self._count = 0

    # -- others -----------------------------------------------------------------------------------

    def create(self, name: str, devices: int) -> None:
        """Creates a claim of some devices, unless there is one of the name."""
        if name in self.claims:
            return
        self._count += 1
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}
        metadata = {"name": name, "namespace": "default", "uid": f"{name}-{self._count}"}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        identity = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        self.store(identity | {"metadata": metadata, "spec": spec, "status": {}})

    def delete(self, name: str) -> None:
        """Deletes a claim, once it has no finalizer."""
        claim = self.copy_of(name)
        if claim is not None and "deletionTimestamp" not in claim["metadata"]:
            claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.store(claim)

    def copy_of(self, name: str) -> Stored | None:
        """Returns a copy of a claim, which may be changed and stored."""
        return copy.deepcopy(self.claims.get(name))

    def store(self, claim: Stored) -> None:
        """Stores a claim in a new version, or removes it if nothing holds it any more."""
        name = claim["metadata"]["name"]
        before = self.claims.get(name)
        self._count += 1
        claim["metadata"]["resourceVersion"] = str(self._count)
        is_gone = "deletionTimestamp" in claim["metadata"]
        if is_gone and not claim["metadata"].get("finalizers"):
            self.claims.pop(name, None)
            self._on_change(before, None)
            return
        self.claims[name] = claim
        self._on_change(before, claim)

    def uid_at(self, path: str) -> str:
        """Returns the UID of the claim at a path; "" = there is none."""
        claim = self.claims.get(path.removeprefix(PREFIX).partition("/")[0])
        uid: str = claim["metadata"]["uid"] if claim is not None else ""
        return uid

    # -- the transport ----------------------------------------------------------------------------

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Is not called."""
        raise AssertionError(f"{request.path} is no stream, idle {idle_s}")

    async def close(self) -> None:
        """Has nothing to close."""

    async def request(self, request: Request) -> Response:
        """Answers a read, a write of a claim or its status, or a patch of its users."""
        name, _, subresource = request.path.removeprefix(PREFIX).partition("/")
        stored = self.copy_of(name)
        if stored is None:
            return error(404, "NotFound")
        if request.method == "GET":
            return Response(200, {}, json.dumps(stored).encode())
        body = json.loads(request.body)
        self.writer = request
        try:
            if request.method == "PATCH":
                response = self._patch(stored, body)
            else:
                response = self._put(stored, body, subresource)
        finally:
            self.writer = None
        if response.status == CONFLICT:
            self._note_conflict(request, body)
        return response

    def _note_conflict(self, request: Request, body: Stored) -> None:
        """Notes a write of a version that was changed; it must not be sent again and again.

        Another attempt may send it once more, and so may a deallocation: they are decided anew,
        from what is known then.
        """
        if not body.get("status"):
            return
        metadata = body["metadata"]
        user = json.dumps(body["status"], sort_keys=True)
        version = metadata.get("resourceVersion")
        attempts = tuple(self.attempt_of(uid) for uid in users_of(body))
        key = request.method, request.path, metadata["uid"], version, user, attempts
        self._conflicts[key] += 1
        if self._conflicts[key] > CONFLICTS_MAX:
            self.invalid.append(f"{request.path}: version {key[3]} is outdated, and sent again")

    def _patch(self, stored: Stored, body: Stored) -> Response:
        """Removes users from the claim; UID and version are preconditions."""
        version = stored["metadata"]["resourceVersion"]
        if body["metadata"]["uid"] != stored["metadata"]["uid"]:
            return error(409, "Conflict")
        if body["metadata"].get("resourceVersion", version) != version:
            return error(409, "Conflict")
        removed = {user["uid"] for user in body["status"]["reservedFor"] if "$patch" in user}
        users = [u for u in stored["status"].get("reservedFor") or () if u["uid"] not in removed]
        if len(users) < len(users_of(stored)):
            stored["status"]["reservedFor"] = users
            self.store(stored)
        return Response(200, {}, json.dumps(stored).encode())

    def _put(self, stored: Stored, body: Stored, subresource: str) -> Response:
        metadata = body["metadata"]
        for field in ("uid", "resourceVersion"):
            if metadata[field] != stored["metadata"][field]:
                return error(409, "Conflict")
        new = copy.deepcopy(stored)
        if subresource:
            new["status"] = body.get("status", {})
            problem = _problem(stored, new)
        else:
            # Deletion is the server's; the rest is the client's.
            deletion = {"deletionTimestamp": stored["metadata"].get("deletionTimestamp")}
            new["metadata"] = metadata | {key: it for key, it in deletion.items() if it}
            problem = "" if new["spec"] == body["spec"] else "the spec is immutable"
            added = set(metadata.get("finalizers", ())) - set(
                stored["metadata"].get("finalizers", ())
            )
            if deletion["deletionTimestamp"] and added:
                problem = "no finalizer can be added to a claim that is being deleted"
        if problem:
            self.invalid.append(f"{stored['metadata']['name']}: {problem}")
            return error(422, "Invalid")
        self.store(new)
        return Response(200, {}, json.dumps(new).encode())


def _problem(old: Stored, new: Stored) -> str:
    """Returns what the validation of a status refuses."""
    before, after = old["status"].get("allocation"), new["status"].get("allocation")
    users = users_of(new)
    if before and after and before != after:
        return "an allocation is immutable"
    if users and not after:
        return "a claim that is not allocated has no users"
    if len(set(users)) < len(users):
        return "a pod is twice among the users"
    if set(users) - set(users_of(old)) and "deletionTimestamp" in old["metadata"]:
        return "no user can be added to a claim that is being deleted"
    if after and FINALIZER not in new["metadata"].get("finalizers", ()):
        return "an allocated claim has no finalizer"
    return ""
