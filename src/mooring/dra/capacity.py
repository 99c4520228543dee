"""The capacity of a device that a request consumes.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/consumable_capacity.go.
Differs: an amount equal to the default is valid in any spelling; upstream compares the spelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.dra.devices import Capacity, RequestPolicy
from mooring.objects.quantity import BINARY_SI, Quantity

#: Capacity name -> requested amount.
Requests = Mapping[str, Quantity]

#: Capacity name -> amount in billionths.
Amounts = Mapping[str, int]


def consumed_amount(capacity: Capacity, requested: Quantity | None) -> Quantity:
    """Returns what a request consumes of a capacity, rounded up as its policy says.

    Args:
        capacity: The capacity.
        requested: None = the request does not name this capacity.
    """
    policy = capacity.policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return policy.default
        return capacity.value
    if policy is None:
        return requested
    if policy.minimum is not None:
        return _in_range(requested, policy.minimum, policy.step)
    return next((value for value in policy.valid_values if requested <= value), requested)


def has_capacity(
    capacities: Mapping[str, Capacity], requests: Requests, used: Sequence[Amounts] = ()
) -> bool:
    """Returns whether a device has enough of each capacity for a request.

    Args:
        capacities: Those of the device.
        requests: What the request names; a capacity that the device lacks is not available.
        used: What others consume of the device already: in the cluster, and in this attempt.
    """
    if not requests.keys() <= capacities.keys():
        return False
    for name, capacity in capacities.items():
        requested = requests.get(name)
        if capacity.policy is None and not used:
            if requested is not None and requested.nanos > capacity.value.nanos:
                return False
            continue
        amount = consumed_amount(capacity, requested)
        if capacity.policy is not None and _violates(amount, capacity.policy):
            return False
        total = amount.nanos + sum(amounts.get(name, 0) for amounts in used)
        if total > capacity.value.nanos:
            return False
    return True


def _in_range(requested: Quantity, minimum: Quantity, step: Quantity | None) -> Quantity:
    if requested < minimum:
        return minimum
    if step is None or step.value() == 0:
        return requested
    low, size = minimum.value(), step.value()
    steps = -((low - requested.value()) // size)
    value = Quantity.of_value(low + size * steps)
    return Quantity(value.nanos, BINARY_SI)


def _violates(amount: Quantity, policy: RequestPolicy) -> bool:
    """Returns whether the policy does not allow the amount."""
    if policy.default is not None and amount == policy.default:
        return False
    if policy.has_range:
        if policy.maximum is not None and amount > policy.maximum:
            return True
        if policy.step is None or policy.step.value() == 0:
            return False
        low = policy.minimum.value() if policy.minimum is not None else 0
        return (amount.value() - low) % policy.step.value() != 0
    return bool(policy.valid_values) and amount not in policy.valid_values
