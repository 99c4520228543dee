"""Two equal real clusters, the same 200 pods: mooring does what kube-scheduler does, word by word.

kube-controller-manager binds and provisions the volumes; both schedulers are system:kube-scheduler.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mooring.client import Client
from tests.integration.decisions import Fate, Onlooker, pods, prepare
from tests.integration.equal_clusters import on_both

CONTROLLERS = ("--enable-hostpath-provisioner", "--pvclaimbinder-sync-period=1s")

#: Where the test provisioner makes its volumes.
PROVISIONED = Path("/tmp/hostpath_pv")


async def fates(client: Client) -> list[Fate]:
    """Returns what becomes of the pods."""
    await prepare(client)
    return await Onlooker(client).fates()


@pytest.mark.usefixtures("programs")
def test_the_same_pods_meet_the_same_fates() -> None:
    try:
        theirs, ours = on_both(fates, controller_manager_arguments=CONTROLLERS)
    finally:
        shutil.rmtree(PROVISIONED, ignore_errors=True)
    assert len(theirs) == len(pods())
    assert ours == theirs
    # It is worth something only if every kind of outcome occurs.
    assert sum(bool(fate.node) for fate in theirs) > 150
    assert sum(bool(fate.victims) for fate in theirs) >= 5
    assert len({fate.message for fate in theirs}) >= 8
