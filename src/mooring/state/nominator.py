"""Which pending pods wait for room on which node: a preemptor holds its place here.

Filters run twice on a node where pods of the same or a higher priority are nominated: once as if
those pods were there, and once as things are.
"""

from __future__ import annotations

from mooring.state.tables.pods import PodInfo


class Nominator:
    """Pod UID -> node name, and node name -> pods in order of nomination.

    Source: pkg/scheduler/backend/queue/nominator.go.
    """

    __slots__ = ("_node_of", "_pods_on")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, PodInfo]] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """``info`` waits for room on ``node_name``, and nowhere else any more."""
        self.remove(info.uid)
        self._node_of[info.uid] = node_name
        self._pods_on.setdefault(node_name, {})[info.uid] = info

    def remove(self, uid: str) -> None:
        """The pod waits no longer: it is bound, deleted, or gave up. Unknown pods are fine."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._pods_on[node_name]
        del pods[uid]
        if not pods:
            del self._pods_on[node_name]

    def remove_by_key(self, key: str) -> None:
        """As ``remove``, of the pod called ``namespace/name``. Complexity: O(nominations)."""
        for pods in list(self._pods_on.values()):
            for info in list(pods.values()):
                if info.key == key:
                    self.remove(info.uid)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """A pending pod has a newer version.

        The API server may tell of a version from before a nomination that so far stands only in
        memory: if neither version names a node, the nomination in memory stays.
        """
        held = self._node_of.get(old.uid, "")
        named_before, named_now = old.status.nominated_node_name, new.status.nominated_node_name
        target = named_now or ("" if named_before else held)
        self.remove(old.uid)
        if target:
            self.nominate(new, target)

    def node_of(self, uid: str) -> str:
        """Returns the node that the pod is nominated to, "" if none."""
        return self._node_of.get(uid, "")

    def pods_on(self, node_name: str) -> list[PodInfo]:
        """Returns the pods nominated to the node, in order of nomination."""
        return list(self._pods_on.get(node_name, {}).values())

    def node_names(self) -> list[str]:
        """Returns the nodes that some pod is nominated to."""
        return list(self._pods_on)
