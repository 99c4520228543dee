"""The extenders of a configuration together: their transports, informers, metrics and end."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from mooring.client import Client, InProcessTransport
from mooring.clock import VirtualClock, seeded_random
from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.errors import ConfigError
from mooring.extenders import Extenders
from tests.helpers.certificates import authority, sign
from tests.helpers.memory_network import OK, MemoryNetwork
from tests.helpers.running_scheduler import virtually

CA = authority()


async def refuse(*_: object) -> tuple[int, dict[str, str], bytes]:
    raise AssertionError("the API server is not asked")


def extenders(*configs: Extender, **options: Any) -> Extenders:
    rng = seeded_random(0)
    client = Client(InProcessTransport(refuse), rng=rng)
    more: dict[str, Any] = {"clock": VirtualClock(), "rng": rng, "sleep": asyncio.sleep}
    return Extenders(configs, client, **more, **options)


@pytest.mark.parametrize(
    ("configs", "kinds"),
    [
        ([], []),
        ([{"filter_verb": "f"}], ["Node", "Pod"]),
        ([{"prioritize_verb": "p"}], ["Node", "Pod"]),
        ([{"bind_verb": "b"}], ["Pod"]),
        ([{"preempt_verb": "p"}], ["Pod"]),
        ([{"filter_verb": "f", "node_cache_capable": True}], ["Pod"]),
        ([{"bind_verb": "b"}, {"filter_verb": "f"}], ["Node", "Pod"]),
        ([{"bind_verb": "b"}, {"filter_verb": "f", "node_cache_capable": True}], ["Pod"]),
    ],
)
def test_nodes_are_watched_if_an_extender_is_sent_whole_ones(
    configs: list[dict[str, Any]], kinds: list[str]
) -> None:
    all_extenders = extenders(*(Extender(url_prefix="http://one", **parts) for parts in configs))
    assert [informer.kind.name for informer in all_extenders.informers] == kinds
    assert len(all_extenders.asked) == len(configs)


@virtually
async def test_each_extender_has_its_url_timeout_and_server_name(tmp_path: Path) -> None:
    network = MemoryNetwork(OK, addresses={"one": ["10.0.0.1"], "two": ["10.0.0.2"]})
    certificate, key = sign(CA, "ours").write(tmp_path, "our")
    tls = ExtenderTLSConfig(
        server_name="other",
        ca_data=b64encode(CA.pem).decode(),
        cert_file=certificate,
        key_file=key,
    )
    all_extenders = extenders(
        Extender(url_prefix="http://one", filter_verb="f"),
        Extender(url_prefix="https://two", filter_verb="f", enable_https=True, tls_config=tls),
    )
    first, second = all_extenders._posts
    assert await first("f", b"", 100) == b"ok"
    assert await second("f", b"", 100) == b"ok"
    assert [(it.host, it.server_hostname) for it in network.opened] == [
        ("10.0.0.1", None),
        ("10.0.0.2", "other"),
    ]
    # The files of its certificate are read for each connection.
    os.unlink(certificate)
    network.links[1].hang_up()
    with pytest.raises(Exception, match="No such file or directory"):
        await second("f", b"", 100)
    await all_extenders.close()


@virtually
async def test_the_connections_to_all_extenders_are_closed() -> None:
    network = MemoryNetwork(OK, addresses={"one": ["10.0.0.1"], "two": ["10.0.0.2"]})
    all_extenders = extenders(Extender(url_prefix="http://one"), Extender(url_prefix="http://two"))
    for post in all_extenders._posts:
        await post("f", b"", 100)
    assert [link.is_aborted for link in network.links] == [False, False]
    await all_extenders.close()
    assert [link.is_aborted for link in network.links] == [True, True]


@virtually
async def test_a_call_has_the_configured_timeout() -> None:
    MemoryNetwork(addresses={"one": ["10.0.0.1"]})
    [post] = extenders(Extender(url_prefix="http://one", http_timeout_s=2.0))._posts
    with pytest.raises(Exception, match="no answer in 2 s"):
        await post("f", b"", 100)


def test_an_error_names_the_extender_by_its_number() -> None:
    tls = ExtenderTLSConfig(ca_file="/nowhere")
    configs = [Extender(url_prefix="http://one"), Extender(url_prefix="http://two", tls_config=tls)]
    with pytest.raises(ConfigError) as caught:
        extenders(*configs)
    assert caught.value.path == "extenders[1].tlsConfig.caFile"


def test_another_transport_is_made_from_the_configuration() -> None:
    made: list[str] = []

    def factory(config: Extender) -> Any:
        made.append(config.url_prefix)
        return refuse

    # Its certificate is not read: that is a matter of the transport.
    tls = ExtenderTLSConfig(ca_file="/nowhere")
    configs = [Extender(url_prefix="http://one", tls_config=tls), Extender(url_prefix="http://two")]
    all_extenders = extenders(*configs, transport_factory=factory)
    assert made == ["http://one", "http://two"]
    assert [it.name for it in all_extenders.asked] == made


def test_all_share_the_metrics_and_each_verb_has_its_series_before_a_call() -> None:
    config = Extender(
        url_prefix="http://me:pw@one", filter_verb="f", bind_verb="b", prioritize_verb="p"
    )
    two = Extender(url_prefix="http://two", preempt_verb="x")
    text = generate_latest(extenders(config, two).metrics.registry).decode()
    counted = [
        line.partition("{")[2].partition("}")[0]
        for line in text.splitlines()
        if line.startswith("scheduler_extender_call_errors_total{")
    ]
    assert counted == [
        'extender="http://me:***@one",verb="filter"',
        'extender="http://me:***@one",verb="prioritize"',
        'extender="http://me:***@one",verb="bind"',
        'extender="http://two",verb="preempt"',
    ]
