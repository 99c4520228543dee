"""``bench kills`` with few kills: on the embedded API server, which keeps what was bound."""

from __future__ import annotations

import pytest

from bench.kills import main

pytestmark = pytest.mark.slow


def test_pods_are_bound_once_however_often_the_scheduler_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--count=6", "--seed=7"]) == 0
    assert "each bound once, no node overcommitted" in capsys.readouterr().out
