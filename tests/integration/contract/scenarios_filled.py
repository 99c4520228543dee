"""Objects in which every field has a value: all rules of a kind answer at once.

In one form no text is a valid name, in the other most are; so more rules answer.
"""

from __future__ import annotations

from mooring.apiserver.resources import RESOURCES, Resource, struct_of
from tests.integration.contract.api import Api
from tests.integration.contract.filled_objects import filled
from tests.integration.contract.scenario import Scenario, path, scenario

#: Kind -> why it is left out.
_LEFT_OUT = {
    "CustomResourceDefinition": "the fields of its old form hide those of the new one",
    "HorizontalPodAutoscaler": "upstream's errors of its metrics have the order of a Go map",
    "Lease": "the fields of coordinated election are stored without their gate",
    "Service": "what is wrong with its addresses hides even the rules of its metadata",
}


def _scenario_of(resource: Resource) -> Scenario:
    """Returns the scenario of one resource."""

    def every_field_has_a_value(api: Api, namespace: str) -> None:
        group = f"apis/{resource.group}" if resource.group else "api"
        root = f"{group}/{resource.version}"
        where = path(root, namespace if resource.namespaced else "", resource.name)
        for text_of in (_as_value, str.lower):
            obj = filled(struct_of(resource), text_of)
            obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
            api.post(where, obj, dryRun="All")

    group_name = resource.group.partition(".")[0]
    every_field_has_a_value.__name__ = "_of_".join(filter(None, (resource.name, group_name)))
    return every_field_has_a_value


def _as_value(name: str) -> str:
    return f"{name}Value"


for _resource in RESOURCES:
    if "update" in _resource.verbs and _resource.kind not in _LEFT_OUT:
        scenario(_scenario_of(_resource))
