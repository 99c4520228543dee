"""Ten more subtle bugs of two parts, written before it was tried what detects them.

How many are detected is in docs/concepts/faults.md.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.replica import Replica
from mooring.client.leader_election import Elector
from mooring.plugins.volume_binding.bind_volumes import PodVolumes
from mooring.scheduler import binding_cycle, preemption
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.status_writer import StatusWriter
from mooring.state.nominator import Nominator
from tests.faults.planted import PlantedBug

LAST_BUGS: Final = [
    PlantedBug(
        "unknown_is_unwritten",
        "A nomination before a binding counts as not written if there was no answer",
        StatusWriter,
        "nominate",
        "return isinstance(error, OutcomeUnknown)",
        "return False",
    ),
    PlantedBug(
        "assumed_is_nominated",
        "A pod that is assumed on a node stays nominated",
        Scheduler,
        "_prepare_binding_cycle",
        "self._cache.nominator.remove(pod.uid)",
        "pass",
        "crowd",
    ),
    PlantedBug(
        "namesake_of_victim",
        "A new pod of the name of the last victim gates the preemptor",
        preemption,
        "_is_terminating",
        "if live is None or live.metadata.uid != uid:",
        "if live is None:",
        "crowd",
    ),
    PlantedBug(
        "last_of_namesake",
        "The last version of a deleted pod may be that of another pod of its name",
        Replica,
        "_remove",
        "last=event.obj if is_same else None",
        "last=event.obj",
    ),
    PlantedBug(
        "wait_from_due_time",
        "A wait that the server asks for at a verification begins when the pod was due",
        BindVerifier,
        "_check",
        "self._clock.monotonic_s() + requested_wait_s(error)",
        "binding.check_at_s + requested_wait_s(error)",
    ),
    PlantedBug(
        "claim_reverted_twice",
        "An assumed claim is reverted once more, after a later attempt has assumed it",
        PodVolumes,
        "revert",
        "            provision.is_assumed = False",
        "            pass",
        "volume",
    ),
    PlantedBug(
        "node_of_nobody",
        "A node without nominated pods stays among those that some pod is nominated to",
        Nominator,
        "remove",
        "if not pods:",
        "if False:",
        "crowd",
    ),
    PlantedBug(
        "preempted_waits_for_event",
        "A pod that is preempted in Permit waits for an event, as if it were rejected",
        binding_cycle,
        "wait_on_permit",
        "if status.code is Code.ERROR:",
        "if False:",
        "crowd",
    ),
    PlantedBug(
        "created_is_counted",
        "A series whose event exists already counts as written, without its count",
        Recorder,
        "_try",
        "raise _AlreadyCreated(str(error)) from error",
        "return True",
    ),
    PlantedBug(
        "overtaken_goes_on",
        "A leader that sees another holder goes on until its deadline",
        Elector,
        "keep",
        "if remaining_s <= 0 or self.leader != self.identity:",
        "if remaining_s <= 0:",
        "lease",
    ),
]
