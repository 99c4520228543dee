"""Nominations: the node that each preemptor waits for.

On a node with nominated pods of the same or a higher priority, filters run twice: with those pods
added to the node, and without them.
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
        """Nominates the pod to ``node_name``, and removes its previous nomination."""
        self.remove(info.uid)
        self._node_of[info.uid] = node_name
        self._pods_on.setdefault(node_name, {})[info.uid] = info

    def remove(self, uid: str) -> None:
        """Removes the pod's nomination. Unknown pods are ignored."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._pods_on[node_name]
        del pods[uid]
        if not pods:
            del self._pods_on[node_name]

    def remove_by_key(self, key: str) -> None:
        """Removes the nomination of the pod ``namespace/name``. Complexity: O(nominations)."""
        for pods in list(self._pods_on.values()):
            for info in list(pods.values()):
                if info.key == key:
                    self.remove(info.uid)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Updates the nomination for a newer version of a pending pod.

        The API server may send a version from before a nomination that exists only in memory: if
        neither version names a node, the nomination in memory is kept.
        """
        nominated = self._node_of.get(old.uid, "")
        named_before, named_now = old.status.nominated_node_name, new.status.nominated_node_name
        target = named_now or ("" if named_before else nominated)
        self.remove(old.uid)
        if target:
            self.nominate(new, target)

    def node_of(self, uid: str) -> str:
        """Returns the node that the pod is nominated to, "" if none."""
        return self._node_of.get(uid, "")

    def pods_on(self, node_name: str) -> list[PodInfo]:
        """Returns the pods nominated to the node, in order of nomination."""
        return list(self._pods_on.get(node_name, {}).values())

    def pods(self) -> list[tuple[PodInfo, str]]:
        """Returns all nominated pods with their nodes."""
        return [(info, name) for name, pods in self._pods_on.items() for info in pods.values()]

    def node_names(self) -> list[str]:
        """Returns the nodes that some pod is nominated to."""
        return list(self._pods_on)
