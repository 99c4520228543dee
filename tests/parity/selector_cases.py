"""Random CEL selectors of devices, typed by the declarations of functions.

A selector is built from its result down: a literal, an attribute, a macro, or a call of any
function that returns the type. Few parts have another type than they should. The compiler under
test says which functions there are; what they do, upstream says. Not called are the functions of
authorizers, which no selector can have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Overload
from mooring.cel.library import registry
from mooring.cel.types import Type, TypeKind

#: The variables in scope: name and type.
Scope = tuple[tuple[str, Type], ...]

_SIMPLE: Final = (
    *(types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES, types.DURATION),
    *(types.TIMESTAMP, types.QUANTITY, types.SEMVER, types.URL, types.IP, types.CIDR),
)
#: The most usual types are drawn more often.
_DRAWN: Final = (
    *_SIMPLE,
    *(types.BOOL, types.INT, types.STRING) * 3,
    *(types.STRING, types.DOUBLE, types.DOUBLE),
)
_STRINGS: Final = (
    *('""', '"a"', '"abc"', '"AbC"', '"gpu"', '"GPU-1"', '"H100"', '"a,b,c"', '"1"', '"-7"'),
    *('"1.5"', '"true"', '"1h30m"', '"2024-02-29T12:30:00Z"', '"1Gi"', '"100m"', '"-1.5k"'),
    *('"1.2.3"', '"v1.2.3"', '"1.2"', '"1.2.3-rc.1+b"', '"0.0.0"', '"01.2.3"', '"12.8.0"'),
    *('"10.0.0.1"', '"::1"', '"fe80::1"', '"::ffff:1.2.3.4"', '"10.0.0.0/8"', '"2001:db8::/32"'),
    *('"https://u:p@h.com:80/p?q=1&r=2#f"', '"/path"', '"x y"', '"h\\u00e9\\u00e9"', '"\\n\\t"'),
    *('"\\\\d+"', '"[a-c]+"', '"(a|b)*c?"', '"("', '"%s"', '"%d%%"', '"%.2f"', '"%x"'),
    *('"dns1123Label"', '"\\U0001F600x"', "r'\\d'", "'''a\nb'''", '"\\x41\\101"', '"Hopper"'),
    '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"',
)
_LITERALS: Final[Mapping[Type, Sequence[str]]] = {
    types.BOOL: ("true", "false"),
    types.NULL: ("null",),
    types.INT: (
        *("0", "1", "2", "3", "-1", "7", "16", "64", "100", "0x1F", "-0x8", "1000000"),
        *("9223372036854775807", "-9223372036854775808"),
    ),
    types.UINT: ("0u", "1u", "2u", "100u", "0x10u", "18446744073709551615u"),
    types.DOUBLE: (
        *("0.0", "1.0", "-1.5", "2.5", "1e300", ".5", "1e-7", "3.14", "100.0", "1e19", "-0.0"),
        *("9007199254740993.0", "123456789.123"),
    ),
    types.STRING: _STRINGS,
    types.BYTES: ("b''", "b'abc'", "b'\\xff'", 'b"\\u00e9"', "b'0'"),
    types.DURATION: tuple(
        f'duration("{text}")' for text in ("1h", "-1.5s", "1ns", "2540400h", "0", "1h30m5.25s")
    ),
    types.TIMESTAMP: (
        *("timestamp(0)", "timestamp(1700000000)", 'timestamp("2024-02-29T12:30:00Z")'),
        *('timestamp("0001-01-01T00:00:00Z")', 'timestamp("9999-12-31T23:59:59.999999999Z")'),
        'timestamp("2023-06-01T00:00:00+05:30")',
    ),
    types.QUANTITY: tuple(
        f'quantity("{text}")'
        for text in (
            *("1Gi", "0", "-1.5", "100m", "1e3", "80Gi", "0.1", "1n", "12345678901234567890"),
        )
    ),
    types.SEMVER: (
        *('semver("1.2.3")', 'semver("12.8.0")', 'semver("1.0.0-rc.1+b5")', 'semver("0.0.0")'),
        *('semver("v1.2", true)', 'semver("9.0.0")'),
    ),
    types.URL: (
        *('url("https://u:p@h.com:80/p?q=1&r=2")', 'url("/p/q")', 'url("http://h")'),
        'url("https://[::1]:8080/a%20b")',
    ),
    types.IP: tuple(
        f'ip("{text}")'
        for text in ("10.0.0.1", "::1", "fe80::1", "224.0.0.1", "127.0.0.1", "0.0.0.0")
    ),
    types.CIDR: tuple(
        f'cidr("{text}")'
        for text in ("10.0.0.0/8", "2001:db8::/32", "10.1.2.3/16", "0.0.0.0/0", "127.0.0.1/32")
    ),
}
_TYPE_NAMES: Final = (
    *("int", "string", "bool", "type", "list", "map", "double", "uint", "bytes", "null_type"),
    *("timestamp", "google.protobuf.Duration", "net.IP"),
)
#: Domains, attributes and capacities of the devices of ``data/cel-random.jsonl.gz``, and others.
_DOMAINS: Final = (
    *('"gpu.nvidia.com"', '"gpu.intel.com"', '"gpu.example.com"', '"dra.net"', '"none"'),
    *('"nic.example.com"', '"resource.kubernetes.io"', "device.driver"),
)
_ATTRIBUTES: Final[Mapping[Type, Sequence[str]]] = {
    types.STRING: (
        *("architecture", "brand", "pcieBusID", "productName", "pcieRoot", "type", "uuid"),
        *("family", "model", "ifName", "ipv4", "kind", "profile"),
    ),
    types.INT: ("index", "minor", "mtu", "numaNode", "speed"),
    types.BOOL: ("sriov", "rdma", "virtual"),
    types.SEMVER: ("cudaComputeCapability", "cudaDriverVersion", "driverVersion"),
}
_CAPACITIES: Final = ("memory", "multiprocessors", "millicores", "bandwidth", "slots", "nothing")
_SIGNS: Final = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||")
_OPERATORS: Final = {
    **{f"_{sign}_": sign for sign in _SIGNS},
    "@in": "in",
}


def random_selector(rng: Random) -> str:
    """Returns a selector: mostly one that compiles."""
    return _Selectors(rng).expression(types.BOOL, rng.choice((2, 3, 3, 4, 5)), ())


class _Selectors:
    """Draws expressions."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._n_variables = 0
        self._overloads = [
            (function.name, overload)
            for function in registry().functions()
            for overload in function.overloads
            if not overload.args or "authorization" not in overload.args[0].name
        ]

    def expression(self, result_type: Type, depth: int, scope: Scope) -> str:
        """Returns an expression of a type, at most so deep."""
        rng = self._rng
        if rng.random() < 0.012 or result_type.is_dyn:
            result_type = self._type(depth)
        names = [name for name, entry in scope if entry.text == result_type.text]
        if names and rng.random() < 0.45:
            return rng.choice(names)
        if depth <= 0 or rng.random() < 0.12:
            return self._leaf(result_type, scope)
        chance = rng.random()
        if chance < 0.24:
            return self._wrapped(result_type, depth - 1, scope)
        if chance < 0.4:
            macro = self._macro(result_type, depth - 1, scope)
            if macro:
                return macro
        return self._call(result_type, depth - 1, scope) or self._leaf(result_type, scope)

    def _type(self, depth: int = 1) -> Type:
        chance = self._rng.random() if depth > 0 else 1.0
        if chance < 0.12:
            return types.list_of(self._type(0))
        if chance < 0.18:
            keys = (types.STRING, types.STRING, types.INT, types.BOOL, types.UINT)
            return types.map_of(self._rng.choice(keys), self._type(0))
        if chance < 0.22:
            return types.optional_of(self._type(0))
        return self._rng.choice(_DRAWN)

    def _variable(self) -> str:
        self._n_variables += 1
        number = str(self._n_variables % 3) if self._rng.random() < 0.5 else ""
        return self._rng.choice("xyvik") + number

    # ------------------------------------------------------------ what has any type

    def _wrapped(self, result_type: Type, depth: int, scope: Scope) -> str:
        """Returns a choice, ``dyn``, ``cel.bind``, an entry of a list, or what an optional has."""

        def part() -> str:
            return self.expression(result_type, depth, scope)

        form = self._rng.randrange(5)
        if form == 0:
            return f"({self.expression(types.BOOL, depth, scope)} ? {part()} : {part()})"
        if form == 1:
            return f"dyn({part()})"
        if form == 2:
            name, bound = self._variable(), self._type()
            value = self.expression(bound, depth, scope)
            result = self.expression(result_type, depth, (*scope, (name, bound)))
            return f"cel.bind({name}, {value}, {result})"
        if form == 3:
            index = self._rng.choice(("0", "0", "1", self.expression(types.INT, depth - 1, scope)))
            return f"{self._literal(types.list_of(result_type), depth, scope)}[{index}]"
        return f"{self._optional(result_type, depth, scope)}.orValue({part()})"

    def _optional(self, content: Type, depth: int, scope: Scope) -> str:
        form = self._rng.randrange(8 if depth > 0 else 6)
        if form <= 1:
            name = ("optional.of", "optional.ofNonZeroValue")[form]
            return f"{name}({self.expression(content, depth, scope)})"
        if form == 2:
            values = self._literal(types.list_of(content), depth, scope)
            return f"{values}[?{self.expression(types.INT, depth - 1, scope)}]"
        if form == 3 and content in _ATTRIBUTES:
            names = _ATTRIBUTES[content]
            domain = self._rng.choice(_DOMAINS)
            return f"device.attributes[{domain}].?{self._rng.choice(names)}"
        if form == 4:
            key = self._rng.choice((".?a", ".?b", f"[?{self._rng.choice(_STRINGS)}]"))
            return f'{{"a": {self.expression(content, depth - 1, scope)}}}{key}'
        if form == 6:
            name, bound = self._variable(), self._type(0)
            result = self.expression(content, depth - 1, (*scope, (name, bound)))
            return f"{self._optional(bound, depth - 1, scope)}.optMap({name}, {result})"
        if form == 7:
            options = [self._optional(content, depth - 1, scope) for _ in range(2)]
            return f"{options[0]}.or({options[1]})"
        return "optional.none()"

    # ------------------------------------------------------------ leaves

    def _leaf(self, result_type: Type, scope: Scope) -> str:
        rng = self._rng
        domain = rng.choice(_DOMAINS)
        if result_type in _ATTRIBUTES and rng.random() < 0.35:
            return f"device.attributes[{domain}].{rng.choice(_ATTRIBUTES[result_type])}"
        if result_type is types.QUANTITY and rng.random() < 0.4:
            return f"device.capacity[{domain}].{rng.choice(_CAPACITIES)}"
        if result_type is types.STRING and rng.random() < 0.1:
            return "device.driver"
        if result_type is types.BOOL and rng.random() < 0.2:
            name = rng.choice(_ATTRIBUTES[rng.choice(list(_ATTRIBUTES))])
            forms = (
                "device.allowMultipleAllocations",
                f'"{name}" in device.attributes[{domain}]',
                f"has(device.attributes[{domain}].{name})",
                f"{domain} in device.{rng.choice(('attributes', 'capacity'))}",
            )
            return rng.choice(forms)
        return self._literal(result_type, 1, scope)

    def _literal(self, result_type: Type, depth: int, scope: Scope) -> str:
        rng = self._rng
        count = rng.choice((0, 1, 1, 2, 3))
        if result_type.kind is TypeKind.LIST:
            element = result_type.params[0]
            elements = [self.expression(element, depth - 1, scope) for _ in range(count)]
            if rng.random() < 0.06:
                elements.append(f"?{self._optional(element, depth - 1, scope)}")
            return f"[{', '.join(elements)}]"
        if result_type.kind is TypeKind.MAP:
            key, value = result_type.params
            entries = [
                f"{self.expression(key, 0, scope)}: {self.expression(value, depth - 1, scope)}"
                for _ in range(min(count, 2))
            ]
            return f"{{{', '.join(entries)}}}"
        if result_type.is_optional and result_type.params:
            return self._optional(result_type.params[0], depth - 1, scope)
        if result_type.kind is TypeKind.TYPE:
            other = f"type({self.expression(self._type(), depth - 1, scope)})"
            return rng.choice((*_TYPE_NAMES, other))
        if result_type is types.NAMED_FORMAT:
            return "format.dns1123Label()"
        return rng.choice(_LITERALS.get(result_type, ("null",)))

    # ------------------------------------------------------------ macros and calls

    def _macro(self, result_type: Type, depth: int, scope: Scope) -> str:
        """Returns a macro that has the type, or ""."""
        rng, element = self._rng, self._type(0)
        if rng.random() < 0.25:
            element, domain = types.STRING, rng.choice(_DOMAINS)
            visited = rng.choice(
                (f"device.attributes[{domain}]", "device.attributes", f"device.capacity[{domain}]")
            )
        else:
            visited = self.expression(types.list_of(element), depth, scope)
        first, second = self._variable(), self._variable()
        one = (*scope, (first, element))
        two = (*scope, (first, types.INT), (second, element))

        def condition(inner: Scope) -> str:
            return self.expression(types.BOOL, depth, inner)

        if result_type is types.BOOL:
            name = rng.choice(("all", "exists", "exists_one", "existsOne"))
            if rng.random() < 0.75:
                return f"{visited}.{name}({first}, {condition(one)})"
            return f"{visited}.{name}({first}, {second}, {condition(two)})"
        if result_type.kind is TypeKind.LIST:
            content = result_type.params[0]
            own = (*scope, (first, content))
            form = rng.randrange(5)
            if form == 0:
                return f"{visited}.map({first}, {self.expression(content, depth, one)})"
            if form == 1:
                value = self.expression(content, depth, one)
                return f"{visited}.map({first}, {condition(one)}, {value})"
            if form == 2:
                value = self.expression(content, depth, two)
                return f"{visited}.transformList({first}, {second}, {value})"
            values = self.expression(result_type, depth, scope)
            if form == 3:
                return f"{values}.filter({first}, {condition(own)})"
            ordered = rng.choice((types.INT, types.STRING, types.BOOL, types.DOUBLE))
            return f"{values}.sortBy({first}, {self.expression(ordered, depth, own)})"
        if result_type.kind is TypeKind.MAP:
            value = self.expression(result_type.params[1], depth, two)
            if rng.random() < 0.6:
                return f"{visited}.transformMap({first}, {second}, {value})"
            entry = f"{{{self.expression(result_type.params[0], depth, two)}: {value}}}"
            return f"{visited}.transformMapEntry({first}, {second}, {entry})"
        return ""

    def _call(self, result_type: Type, depth: int, scope: Scope) -> str:
        """Returns a call that has the type, or ""."""
        fitting: dict[str, list[Overload]] = {}
        for name, overload in self._overloads:
            if _can_be(overload.result, result_type):
                fitting.setdefault(name, []).append(overload)
        if not fitting:
            return ""
        name = self._rng.choice(sorted(fitting))
        overload = self._rng.choice(fitting[name])
        bound: dict[str, Type] = {}
        _bind(overload.result, result_type, bound)
        args = [
            self.expression(self._instance(argument, bound), depth, scope)
            for argument in overload.args
        ]
        if name in _OPERATORS:
            return f"({args[0]} {_OPERATORS[name]} {args[1]})"
        forms = {
            "_?_:_": "({0} ? {1} : {2})",
            "!_": "!({0})",
            "-_": "-({0})",
            "_[_]": "{0}[{1}]",
            "_[?_]": "{0}[?{1}]",
        }
        if name in forms:
            return forms[name].format(*args)
        if name[0] in "@_":
            return ""
        if overload.is_method:
            return f"{args[0]}.{name}({', '.join(args[1:])})"
        return f"{name}({', '.join(args)})"

    def _instance(self, declared: Type, bound: dict[str, Type]) -> Type:
        """Returns a declared type with its parameters replaced; unbound ones are drawn."""
        if declared.kind is TypeKind.PARAM:
            if declared.name not in bound:
                bound[declared.name] = self._type(0)
            return bound[declared.name]
        if not declared.params:
            return declared
        params = tuple([self._instance(param, bound) for param in declared.params])
        return Type(declared.kind, declared.name, params)


def _can_be(declared: Type, result_type: Type) -> bool:
    """Returns whether a result can be of a type."""
    if declared.kind is TypeKind.PARAM:
        return True
    if declared.is_dyn or (declared.kind, declared.name) != (result_type.kind, result_type.name):
        return False
    pairs = zip(declared.params, result_type.params, strict=False)
    return all(_can_be(param, part) for param, part in pairs)


def _bind(declared: Type, result_type: Type, bound: dict[str, Type]) -> None:
    """Finds what the parameters of a declared type stand for."""
    if declared.kind is TypeKind.PARAM:
        bound.setdefault(declared.name, result_type)
    for param, part in zip(declared.params, result_type.params, strict=False):
        _bind(param, part, bound)
