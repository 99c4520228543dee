"""Profiles that may run, and such as may not: plugins at each point, or the error of the profile.

A profile enables plugins at points and in multiPoint, and disables some. There are plugins of a
registry, which has names of default plugins too, default plugins that do nothing, and plugins that
the caller adds. In two of three profiles something is wrong: an unknown name, a name twice, a
plugin at a point that it lacks, no plugin or two that sort the queue, none that binds, an added
plugin with the name of another one. The plugins of each point in their order, the weights, and the
error with path and value are those of plain rules.

Source: pkg/scheduler/framework/runtime/framework.go (NewFramework, expandMultiPointPlugins);
docs/reference/configuration.md; docs/reference/cli.md (``--plugin``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.config import DEFAULT_PLUGINS, GATED_PLUGINS
from mooring.config.types import PluginConfig, PluginEntry, Plugins, PluginSet
from mooring.config.types import Profile as ProfileConfig
from mooring.errors import ConfigError
from mooring.framework import Framework
from mooring.framework.runtime.registry import Registry, build
from tests.faults.parts.contract_model import SIMILAR_PLUGIN, Refusal, suggestions

PROFILES: Final = 25
#: Point -> how a file names it, and the methods of plugins there.
POINTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "pre_enqueue": ("preEnqueue", ("pre_enqueue",)),
    "queue_sort": ("queueSort", ("less",)),
    "pre_filter": ("preFilter", ("pre_filter",)),
    "filter": ("filter", ("filter",)),
    "post_filter": ("postFilter", ("post_filter",)),
    "pre_score": ("preScore", ("pre_score",)),
    "score": ("score", ("score", "normalize")),
    "reserve": ("reserve", ("reserve", "unreserve")),
    "permit": ("permit", ("permit",)),
    "pre_bind": ("preBind", ("pre_bind", "pre_bind_pre_flight")),
    "bind": ("bind", ("bind",)),
    "post_bind": ("postBind", ("post_bind",)),
}
#: Default plugins with the points where a profile may have them.
DEFAULTS: Final = {
    "TaintToleration": ("filter", "pre_score", "score"),
    "NodeName": ("filter",),
    "DefaultPreemption": ("pre_enqueue", "post_filter"),
    "VolumeBinding": ("pre_filter", "filter", "pre_score", "score", "reserve", "pre_bind"),
    "GangScheduling": ("pre_enqueue", "permit"),
}
#: That one only is in no release of the scheduler without a feature gate.
GATED: Final = "GangScheduling"
OWN: Final = ("Alpha", "Beta", "Gamma")
SORTER, BINDER = "Sorter", "Binder"
SAME_NAME: Final = "another plugin has this name"
#: The arguments of plugins of a profile.
ARGS: Final = {"Alpha": {"depth": 3}, "TaintToleration": {"depth": 5}}


class Entry(NamedTuple):
    """A plugin in a list, with its weight."""

    name: str
    weight: int = 0


class DrawnProfile:
    """A profile, and the plugins there are.

    Attributes:
        name: Of the scheduler.
        percentage: Of the nodes that are scored.
        points: Plugin -> the points whose methods it has.
        made: The names that the registry creates.
        planned: The names of default plugins that do nothing.
        added: The names of the plugins of the caller; some may be there twice.
        listed: Point -> the plugins that it enables.
        multi: Those of multiPoint.
        disabled: Point -> the names that it disables.
    """

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.name, self.percentage = rng.choice(("one", None)), rng.choice((None, 0, 40))
        defaults = [name for name in DEFAULTS if name != GATED]
        made = [*OWN, *(name for name in defaults if rng.random() < 0.5)]
        self.points = {name: self._points_of(name) for name in made}
        # A default plugin runs where the scheduler says, whatever methods it has.
        for name in made:
            if name in DEFAULTS and rng.random() < 0.3:
                self.points[name] = (*self.points[name], "permit")
        self.points |= {SORTER: ("queue_sort",), BINDER: ("bind",)}
        self.planned = [name for name in DEFAULTS if name not in made]
        self.added = [name for name in OWN if rng.random() < 0.25]
        self.made = [name for name in (*made, SORTER, BINDER) if name not in self.added]
        names = [*self.points, *(name for name in self.planned if rng.random() < 0.5)]
        rng.shuffle(names)
        self.multi = [
            Entry(name, rng.choice((0, 1, 4)))
            for name in names
            if name in (SORTER, BINDER) or rng.random() < 0.6
        ]
        self.listed: dict[str, list[Entry]] = {point: [] for point in POINTS}
        self.disabled: dict[str, list[str]] = {point: [] for point in POINTS}
        for point in POINTS:
            self.listed[point] = [
                Entry(name, rng.choice((0, 2, 5)) if point == "score" else 0)
                for name in names
                if self.implements(name, point) and rng.random() < 0.3
            ]
            rng.shuffle(self.listed[point])
            if point not in ("queue_sort", "bind") and rng.random() < 0.2:
                self.disabled[point] = [rng.choice(("*", *names))]
        for point, name in (("queue_sort", SORTER), ("bind", BINDER)):
            if rng.random() < 0.2:
                self.disabled[point] = ["*"]
                self.listed[point] = [Entry(name)]
        for _ in range(rng.choice((0, 1, 1, 2))):
            rng.choice(WRONGS)(self, rng)

    def _points_of(self, name: str) -> tuple[str, ...]:
        points = DEFAULTS.get(name, [it for it in POINTS if it not in ("queue_sort", "bind")])
        drawn = tuple(point for point in points if self._rng.random() < 0.6)
        return drawn or (points[0],)

    # -- the rules --------------------------------------------------------------------------------

    def implements(self, name: str, point: str) -> bool:
        """Returns whether a profile may have a plugin at a point."""
        return point in (DEFAULTS[name] if name in DEFAULTS else self.points.get(name, ()))

    def refusals(self) -> Iterator[Refusal]:
        """Yields all that the profile may be refused for; it is refused for one of them."""
        names = [*self.made, *self.planned]
        for number, name in enumerate(self.added):
            if name in names or name in self.added[:number]:
                yield Refusal(SAME_NAME, "--plugin", name)
        near_names = [*{*DEFAULT_PLUGINS, *GATED_PLUGINS, *self.made}]
        lists = {"multiPoint": self.multi}
        lists |= {POINTS[point][0]: entries for point, entries in self.listed.items()}
        unknown = [
            (f"plugins.{path}.enabled[{number}].name", entry.name)
            for path, entries in lists.items()
            for number, entry in enumerate(entries)
            if entry.name not in (*names, *self.added)
        ]
        for path, name in unknown:
            for near in suggestions(name, near_names, SIMILAR_PLUGIN):
                yield Refusal("unknown plugin", path, name, near)
        for point in POINTS:
            yield from self._wrong_entries(point)
        sorters = self.order("queue_sort")
        if len(sorters) != 1:
            problem = "exactly one queueSort plugin must be enabled"
            yield Refusal(problem, "plugins.queueSort", sorters)
        if not self.order("bind"):
            yield Refusal("at least one bind plugin must be enabled", "plugins.bind")

    def _wrong_entries(self, point: str) -> Iterator[Refusal]:
        camel = POINTS[point][0]
        interface = camel[0].upper() + camel[1:] + "Plugin"
        listed = [entry.name for entry in self.listed[point]]
        for number, name in enumerate(listed):
            path = f"plugins.{camel}.enabled[{number}]"
            if not self.implements(name, point):
                yield Refusal(f'plugin "{name}" does not extend {interface} plugin', path)
            elif name in listed[:number]:
                yield Refusal(f'plugin "{name}" already registered as "{interface}"', path)
        multi = [entry.name for entry in self.multi if entry.name not in listed]
        for name, count in Counter(multi).items():
            is_off = {name, "*"} & set(self.disabled[point])
            if count > 1 and self.implements(name, point) and not is_off:
                problem = f'plugin "{name}" already registered as "{interface}"'
                yield Refusal(problem, "plugins.multiPoint.enabled")

    def order(self, point: str) -> list[str]:
        """Returns the plugins that run at a point, in order."""
        listed = [entry.name for entry in self.listed[point]]
        off = self.disabled[point]
        multi = [
            entry.name
            for entry in self.multi
            if self.implements(entry.name, point) and not {entry.name, "*"} & set(off)
        ]
        order = [name for name in listed if name in multi]
        order += [name for name in dict.fromkeys(multi) if name not in listed]
        order += [name for name in listed if name not in multi]
        order = [name for name in order if point in self.points.get(name, ())]
        configured = {entry.name for entries in self.listed.values() for entry in entries}
        configured |= {entry.name for entry in self.multi}
        added = [
            name
            for name in self.added
            if name not in configured and point in self.points.get(name, ())
        ]
        return [*added, *order] if point == "bind" else [*order, *added]

    def weight(self, name: str) -> int:
        """Returns the weight of a plugin that scores."""
        entries = [entry for entry in self.listed["score"] if entry.name == name]
        entries = entries or [entry for entry in self.multi if entry.name == name]
        return (entries[0].weight or 1) if entries else 1

    # -- the configuration ------------------------------------------------------------------------

    def build(self, plugins: dict[str, Any], handle: Any, created: dict[str, Any]) -> Framework:
        """Returns the framework; ``created`` gets what each plugin was created with."""

        def factory(name: str) -> Any:
            def create(args: Any, of_plugin: Any) -> Any:
                assert of_plugin is handle
                assert name not in created, f"{name} is created twice"
                created[name] = args
                return plugins[name]

            return create

        sets = {
            point: PluginSet(
                enabled=_entries(self.listed[point]),
                disabled=tuple(PluginEntry(name=name) for name in self.disabled[point]),
            )
            for point in POINTS
        }
        enabled = Plugins(**sets, multi_point=PluginSet(enabled=_entries(self.multi)))
        profile = ProfileConfig(
            scheduler_name=self.name,
            plugins=enabled,
            plugin_config=tuple(PluginConfig(name=name, args=args) for name, args in ARGS.items()),
        )
        return build(
            profile,
            Registry({name: factory(name) for name in self.made}),
            handle,
            clock=VirtualClock(),
            extra=[plugins.get(name) or _plugin(name, ("filter",)) for name in self.added],
            percentage_of_nodes_to_score=self.percentage,
        )


def _entries(entries: list[Entry]) -> tuple[PluginEntry, ...]:
    return tuple(PluginEntry(name=entry.name, weight=entry.weight) for entry in entries)


# -- what is wrong with a profile -----------------------------------------------------------------


def _unknown(profile: DrawnProfile, rng: Rng) -> None:
    name = rng.choice(("Alhpa", "NodeNam", "TaintTolerations", "Zzz", "Gangscheduling"))
    lists = [profile.multi, profile.listed["filter"], profile.listed["permit"]]
    rng.choice(lists).append(Entry(name))


def _twice(profile: DrawnProfile, rng: Rng) -> None:
    lists = [it for it in (profile.multi, *profile.listed.values()) if it]
    entries = rng.choice((profile.multi, rng.choice(lists)))
    entries.insert(rng.randint(0, len(entries)), rng.choice(entries))


def _at_other_point(profile: DrawnProfile, rng: Rng) -> None:
    point, name = rng.choice(list(POINTS)), rng.choice([*profile.points, *profile.planned])
    profile.listed[point].append(Entry(name))


def _other_sorters(profile: DrawnProfile, rng: Rng) -> None:
    name = rng.choice(OWN)
    profile.points[name] = (*profile.points[name], "queue_sort")
    profile.listed["queue_sort"].append(Entry(name))


def _no_sorter(profile: DrawnProfile, rng: Rng) -> None:
    del rng
    profile.multi = [entry for entry in profile.multi if entry.name != SORTER]
    profile.listed["queue_sort"].clear()


def _no_binder(profile: DrawnProfile, rng: Rng) -> None:
    profile.listed["bind"].clear()
    profile.disabled["bind"] = [rng.choice(("*", BINDER, SORTER))]


def _namesake(profile: DrawnProfile, rng: Rng) -> None:
    """Adds a plugin with the name of another one: of the registry, a default one, or an added."""
    profile.added.append(rng.choice([*profile.made, *profile.planned, *profile.added]))


def _added_binder(profile: DrawnProfile, rng: Rng) -> None:
    """Lets a plugin bind, too; this is not wrong."""
    name = rng.choice(OWN)
    profile.points[name] = (*profile.points[name], "bind")


WRONGS: Final = (
    _unknown, _twice, _at_other_point, _other_sorters, _no_sorter, _no_binder, _namesake,
    _namesake, _added_binder,
)  # fmt: skip


# -- the run --------------------------------------------------------------------------------------


def _method(name: str) -> Any:
    parameters = {
        "pre_enqueue": "pod",
        "less": "a, b",
        "pre_filter": "cycle",
        "post_filter": "cycle, diagnosis",
        "normalize": "cycle, scores, nodes",
    }.get(name, "cycle, it")
    scope: dict[str, Any] = {}
    prefix = "async " if name in ("pre_bind", "bind") else ""
    exec(f"{prefix}def method(self, {parameters}): ...", scope)
    return scope["method"]


METHODS: Final = {
    method: _method(method) for _, methods in POINTS.values() for method in methods
}  # fmt: skip


def _plugin(name: str, points: tuple[str, ...]) -> Any:
    methods = [method for point in points for method in POINTS[point][1]]
    return type(name, (), {"name": name, **{it: METHODS[it] for it in methods}})()


class ProfilesRun:
    """One run.

    Attributes:
        problems: Differences to the rules.
        paths: How often a profile was right, or refused for what.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = seeded_random(seed)

    def run(self) -> None:
        """Builds all profiles, until one differs."""
        for _ in range(PROFILES):
            self._build(DrawnProfile(self._rng))
            if self.problems:
                return

    def _build(self, profile: DrawnProfile) -> None:
        plugins = {name: _plugin(name, points) for name, points in profile.points.items()}
        handle, created = object(), dict[str, Any]()
        expected = list(profile.refusals())
        try:
            framework = profile.build(plugins, handle, created)
        except ConfigError as error:
            refusal = Refusal(error.problem, error.path, error.value, error.suggestion)
            self.paths[error.problem[:16]] += 1
            if refusal not in expected:
                self.problems.append(f"{refusal}, not one of {expected}")
            return
        self.paths["built"] += 1
        if expected:
            self.problems.append(f"a profile is built, not {expected}")
            return
        self._check(profile, framework, plugins)
        if wrong := {name: args for name, args in created.items() if args != ARGS.get(name)}:
            self.problems.append(f"plugins are created with {wrong}")

    def _check(self, profile: DrawnProfile, framework: Framework, plugins: dict[str, Any]) -> None:
        """Compares the plugins at each point, and their weights."""
        for point, (_, methods) in POINTS.items():
            order = profile.order(point)
            for method in methods:
                running = framework.plugins(method)
                if [plugin.name for plugin in running] != order:
                    self.problems.append(f"{method}: {running}, not {order}")
                elif any(plugin is not plugins[plugin.name] for plugin in running):
                    self.problems.append(f"{method}: other objects than {order}")
        facts = framework.profile.scheduler_name, framework.profile.percentage_of_nodes_to_score
        if facts != (profile.name or "", profile.percentage):
            self.problems.append(f"{facts}, not {profile.name}, {profile.percentage}")
        for name in profile.order("score"):
            weight = framework.weight(name)
            if weight != profile.weight(name):
                self.problems.append(f"{name}: weight {weight}, not {profile.weight(name)}")


def run_profiles(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a profile is refused for no reason, for a wrong one, or not at all, or its
            plugins run elsewhere.
    """
    run = ProfilesRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
