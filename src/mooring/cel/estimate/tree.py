"""Estimates the cost of a checked tree.

Source: cel-go v0.26.0, checker/cost.go (coster).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mooring.cel.estimate.calls import CallEstimate, Operand, library_estimate
from mooring.cel.estimate.paths import (
    EMPTY,
    INDICES,
    ITEMS,
    KEYS,
    VALUES,
    DeclaredSize,
    Path,
    of_variable,
)
from mooring.cel.estimate.ranges import MAX, ONE, UNKNOWN, ZERO, Range, fixed
from mooring.cel.estimate.standard import standard_estimate
from mooring.cel.syntax.tree import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    MessageLiteral,
    Node,
    Select,
)
from mooring.cel.types import DYN, Type, TypeKind

_LIST_COST: Final = fixed(10)
_MAP_COST: Final = fixed(30)
_MESSAGE_COST: Final = fixed(40)
_ACCUMULATORS: Final = ("__result__", "@result")
_SCALARS: Final = frozenset(
    {
        *(TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT),
        *(TypeKind.TIMESTAMP, TypeKind.UINT),
    }
)
#: Operands whose selections cost one.
_SELECTABLE: Final = frozenset({TypeKind.MAP, TypeKind.STRUCT, TypeKind.PARAM})


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of keys and values of a list or a map."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a loop or a binding: its path and its sizes."""

    path: Path
    size: Range | None
    entries: _Entries | None = None


def estimate_cost(root: Node, declared_size: DeclaredSize) -> Range:
    """Returns the least and the greatest cost of an expression that was checked.

    Args:
        root: The checked tree.
        declared_size: Returns the sizes of variables and of what is below them.
    """
    return _Estimator(declared_size).cost(root)


class _Sizes:
    """Paths and sizes of nodes, and the variables in scope."""

    def __init__(self, declared_size: DeclaredSize) -> None:
        self._declared_size = declared_size
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._variables: dict[str, list[_Variable]] = {}

    def variable(self, name: str) -> _Variable | None:
        stack = self._variables.get(name)
        return stack[-1] if stack else None

    def push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def pop(self, name: str) -> None:
        self._variables[name].pop()

    def path(self, node: Node) -> Path:
        name = _name(node)
        if name is not None:
            variable = self.variable(name)
            if variable is not None:
                return variable.path
        return self._paths.get(node.id, EMPTY)

    def set_path(self, node: Node, path: Path) -> None:
        self._paths[node.id] = path

    def size(self, node: Node) -> Range | None:
        """Returns the size of a node if something is known of it."""
        computed = self._sizes.get(node.id) or _literal_size(node)
        if computed is not None:
            return computed
        declared = self._declared_size(self.path(node))
        if declared is not None:
            self._sizes[node.id] = declared
            return declared
        if _is_scalar(_type(node)):
            return ONE
        name = _name(node)
        variable = None if name is None else self.variable(name)
        return None if variable is None else variable.size

    def set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._sizes[node.id] = size

    def entries(self, node: Node) -> _Entries | None:
        computed = self._entries.get(node.id)
        if computed is not None:
            return computed
        name = _name(node)
        variable = None if name is None else self.variable(name)
        return None if variable is None else variable.entries

    def set_entries(self, node: Node, entries: _Entries | None) -> None:
        if entries is not None:
            self._entries[node.id] = entries

    def copy(self, target: Node, source: Node) -> None:
        self.set_size(target, self.size(source))
        self.set_entries(target, self.entries(source))

    def operand(self, node: Node) -> Operand:
        path = self.path(node)
        if len(path) and path.parts[0] in _ACCUMULATORS:
            path = EMPTY
        return Operand(node, _type(node), path, self.size(node), self._declared_size)


class _Estimator:
    """One pass over the tree, in the order of evaluation."""

    def __init__(self, declared_size: DeclaredSize) -> None:
        self._sizes = _Sizes(declared_size)

    def cost(self, node: Node) -> Range:
        """Returns the cost of a node with everything below it."""
        name = _name(node)
        if name is not None:
            return self._name_cost(node, name)
        match node:
            case Select():
                return self._select_cost(node)
            case Call():
                return self._call_cost(node)
            case ListLiteral():
                return self._list_cost(node)
            case MapLiteral():
                return self._map_cost(node)
            case MessageLiteral():
                return self._sum([field.value for field in node.fields]).plus(_MESSAGE_COST)
            case Comprehension():
                return self._bind_cost(node) if _is_bind(node) else self._loop_cost(node)
        return ZERO

    def _sum(self, nodes: list[Node]) -> Range:
        total = ZERO
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _size(self, node: Node) -> Range:
        return self._sizes.size(node) or UNKNOWN

    def _name_cost(self, node: Node, name: str) -> Range:
        variable = self._sizes.variable(name)
        self._sizes.set_path(node, of_variable(name) if variable is None else variable.path)
        return ONE

    def _select_cost(self, node: Select) -> Range:
        total = self.cost(node.operand)
        if node.is_test:
            return total
        if _type(node.operand).kind in _SELECTABLE:
            total = total.plus(ONE)
        self._sizes.set_path(node, self._sizes.path(node.operand).with_part(node.field))
        return total

    # ------------------------------------------------------------ literals

    def _list_cost(self, node: ListLiteral) -> Range:
        total, value = ZERO, Range(MAX if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            value = value.union(self._size(element))
        self._sizes.set_entries(node, _Entries(is_list=True, key=ONE, value=value))
        return total.plus(_LIST_COST)

    def _map_cost(self, node: MapLiteral) -> Range:
        total = ZERO
        key = value = Range(MAX if node.entries else 0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key = key.union(self._size(entry.key))
            value = value.union(self._size(entry.value))
        self._sizes.set_entries(node, _Entries(is_list=False, key=key, value=value))
        return total.plus(_MAP_COST)

    # ------------------------------------------------------------ calls

    def _call_cost(self, node: Call) -> Range:
        if node.function == "dyn":
            total = self.cost(node.args[0]).plus(ONE)
            self._sizes.copy(node, node.args[0])
            return total
        costs: list[Range] = []
        args: list[Operand] = []
        for arg in node.args:
            costs.append(self.cost(arg))
            args.append(self._sizes.operand(arg))
        if not node.overloads:
            return ZERO
        total, target = ZERO, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._sizes.operand(node.target)
        call_cost, size = Range(MAX, 0), None
        for overload in node.overloads:
            estimate = self._estimate(node, overload, target, args, costs)
            call_cost = call_cost.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            size = self._index(node, overload, size)
            if size is None:
                size = self._sizes.size(node)
        self._sizes.set_size(node, size)
        return total.plus(call_cost)

    def _index(self, node: Call, overload: str, size: Range | None) -> Range | None:
        """Keeps the path of an indexing; returns the size of its result."""
        part = {"index_list": ITEMS, "index_map": VALUES}.get(overload)
        if part is None:
            return size
        container = node.args[0]
        entries = self._sizes.entries(container)
        self._sizes.set_path(node, self._sizes.path(container).with_part(part))
        return None if entries is None else entries.value

    def _estimate(
        self,
        node: Call,
        overload: str,
        target: Operand | None,
        args: list[Operand],
        costs: list[Range],
    ) -> CallEstimate:
        """Returns the cost of a call with its arguments."""
        estimate = library_estimate(node.function, overload, target, args)
        if estimate is None and overload in ("logical_or", "logical_and"):
            return CallEstimate(Range(costs[0].least, costs[0].plus(costs[1]).most))
        if estimate is None and overload == "conditional":
            self._join_entries(node, node.args[1], node.args[2])
            size = self._size(node.args[1]).union(self._size(node.args[2]))
            return CallEstimate(costs[0].plus(costs[1].union(costs[2])), size)
        if estimate is None:
            if overload in ("add_string", "add_bytes", "add_list"):
                self._join_entries(node, node.args[0], node.args[1])
            estimate = standard_estimate(overload, target, args)
        total = estimate.cost
        for cost in costs:
            total = total.plus(cost)
        return CallEstimate(total, estimate.size)

    def _join_entries(self, node: Call, first: Node, second: Node) -> None:
        left, right = self._sizes.entries(first), self._sizes.entries(second)
        if left is not None and right is not None:
            self._sizes.set_entries(node, left.union(right))

    # ------------------------------------------------------------ loops

    def _bind_cost(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self._push_accumulator(node)
        total = total.plus(self.cost(node.result))
        self._sizes.pop(node.accu_var)
        self._sizes.copy(node, node.result)
        return total

    def _loop_cost(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self._push_accumulator(node)
        self._push_loop_variables(node)
        step = self.cost(node.condition)
        step = self.cost(node.step).plus(step)
        self._sizes.pop(node.iter_var)
        if node.iter_var2:
            self._sizes.pop(node.iter_var2)
        total = total.plus(self.cost(node.result))
        self._sizes.pop(node.accu_var)
        count = self._size(node.iter_range)
        if isinstance(node.accu_init, Literal):
            self._sizes.set_size(node, self._sizes.size(node.accu_init))
        elif isinstance(node.accu_init, ListLiteral | MapLiteral):
            self._sizes.set_size(node, count)
            self._sizes.set_entries(node, self._sizes.entries(node.step))
        return total.plus(count.times(step))

    def _push_accumulator(self, node: Comprehension) -> None:
        sizes, first = self._sizes, node.accu_init
        variable = _Variable(sizes.path(first), sizes.size(first), sizes.entries(first))
        sizes.push(node.accu_var, variable)

    def _push_loop_variables(self, node: Comprehension) -> None:
        entries = self._sizes.entries(node.iter_range)
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        is_list = _type(node.iter_range).kind is TypeKind.LIST
        if entries is not None:
            is_list = entries.is_list
        path = self._sizes.path(node.iter_range)
        if node.iter_var2:
            first = path.with_part(INDICES if is_list else KEYS)
            self._sizes.push(node.iter_var, _Variable(first, key))
            path = self._sizes.path(node.iter_range)
            second = path.with_part(ITEMS if is_list else VALUES)
            self._sizes.push(node.iter_var2, _Variable(second, value))
        elif is_list:
            self._sizes.push(node.iter_var, _Variable(path.with_part(ITEMS), value))
        else:
            self._sizes.push(node.iter_var, _Variable(path.with_part(KEYS), key))


def _name(node: Node) -> str | None:
    """Returns the name that a node stands for, None if it is no name."""
    if isinstance(node, Ident):
        return node.name
    return (node.ident or None) if isinstance(node, Select) else None


def _type(node: Node) -> Type:
    return DYN if node.type is None else node.type


def _literal_size(node: Node) -> Range | None:
    match node:
        case Literal(value=str() | bytes()):
            return fixed(len(node.value))
        case Literal():
            return ONE
        case ListLiteral():
            return fixed(len(node.elements))
        case MapLiteral():
            return fixed(len(node.entries))
    return None


def _is_scalar(entry: Type) -> bool:
    """Returns whether values of a type have a fixed size."""
    while entry.is_optional and entry.params:
        entry = entry.params[0]
    return entry.kind in _SCALARS


def _is_bind(node: Comprehension) -> bool:
    """Returns whether a loop is an expanded ``cel.bind``."""
    return (
        isinstance(node.iter_range, ListLiteral)
        and not node.iter_range.elements
        and isinstance(node.condition, Literal)
        and node.condition.value is False
        and node.accu_var != _ACCUMULATORS[0]
    )
