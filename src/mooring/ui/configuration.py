"""The scheduler's configuration, as the page edits it: shown, checked, applied, and tried out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mooring.config import (
    KubeSchedulerConfiguration,
    default_configuration,
    loads,
    located,
    to_document,
)
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.yaml_text import yaml_text
from mooring.simulation.offline import check_profiles
from mooring.ui.board_error import BoardError
from mooring.ui.cluster_copy import SchedulerSettings
from mooring.ui.what_if import Request, WhatIf, WhatIfStatus

#: A configuration is applied when the caches of the new scheduler have synced.
SYNC_S_MAX: Final = 30.0


class ConfigurationText(msgspec.Struct, rename="camel"):
    """The configuration in effect.

    Attributes:
        text: As YAML, complete with all defaults or as it was written in the page.
        plugins: Further plugins, as ``module:attribute``; they are the same in every configuration.
    """

    text: str
    plugins: tuple[str, ...]


class LineError(msgspec.Struct, rename="camel"):
    """An error of a configuration.

    Attributes:
        line: Its line, from 1; None = it belongs to no line.
        path: Its field; "" = the whole text.
        message: The problem.
    """

    line: int | None
    path: str
    message: str


class Checked(msgspec.Struct, rename="camel"):
    """A configuration that was checked: it can be used if there are no errors.

    Attributes:
        errors: All errors.
        message: What was done, in words.
    """

    errors: list[LineError]
    message: str = ""


class ConfigurationEditor:
    """Checks and applies configurations.

    Attributes:
        what_if: Decides pods under another configuration.

    Args:
        settings: Those of the scheduler that runs.
        reconfigure: Replaces the scheduler; returns when its caches have synced.
        export: Returns the objects of the cluster as one JSON list.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        reconfigure: Callable[[KubeSchedulerConfiguration], Awaitable[None]],
        export: Callable[[], Awaitable[bytes]],
    ) -> None:
        self.settings = settings
        self.what_if = WhatIf()
        self._reconfigure = reconfigure
        self._export = export
        self._text = self._in_effect()
        self._turn = asyncio.Lock()

    def document(self) -> ConfigurationText:
        """Returns the configuration in effect."""
        return ConfigurationText(self._text, tuple(self.settings.plugins))

    def check(self, text: str) -> Checked:
        """Returns the errors of a configuration, those of plugins and their arguments included."""
        config = self._read(text)
        if isinstance(config, Checked):
            return config
        count = len(config.profiles)
        names = ", ".join(profile.scheduler_name or "" for profile in config.profiles)
        return Checked([], f"valid: {count} profile{'' if count == 1 else 's'}, {names}")

    async def apply(self, text: str) -> Checked:
        """Replaces the scheduler by one with this configuration, if it has no errors.

        Raises:
            BoardError: the new scheduler has not synced its caches in time; it goes on to try.
        """
        async with self._turn:
            config = self._read(text)
            if isinstance(config, Checked):
                return config
            try:
                async with asyncio.timeout(SYNC_S_MAX):
                    await self._reconfigure(config)
            except ConfigError as error:
                return Checked(_line_errors(located(error, text)))
            except TimeoutError:
                problem = f"its caches have not synced in {SYNC_S_MAX:.0f} s yet"
                raise BoardError(f"the configuration is in effect, but {problem}", 504) from None
            self.settings = self.settings._replace(config=config)
            self._text = text
            return Checked([], "applied: the scheduler runs with this configuration")

    async def begin_what_if(self, text: str, scope: str) -> WhatIfStatus | Checked:
        """Begins to decide pods under a configuration, if it has no errors.

        Args:
            text: The configuration.
            scope: One of ``what_if.SCOPES``.
        """
        config = self._read(text)
        if isinstance(config, Checked):
            return config
        settings = self.settings
        request = Request(
            before=self._in_effect(),
            after=text,
            scope=scope,
            plugins=tuple(settings.plugins),
            seed=settings.seed,
            gates=dict(settings.gates),
        )
        await self.what_if.begin(request, await self._export())
        return self.what_if.status()

    def _in_effect(self) -> str:
        """Returns the complete configuration as YAML that is read back as the same."""
        return yaml_text(to_document(self.settings.config or default_configuration()))

    def _read(self, text: str) -> KubeSchedulerConfiguration | Checked:
        try:
            config = loads(text)
            check_profiles(config, self.settings.plugins)
        except ConfigError as error:
            return Checked(_line_errors(located(error, text)))
        return config


def _line_errors(error: ConfigError) -> list[LineError]:
    errors = error.errors if isinstance(error, ConfigErrors) else (error,)
    return [LineError(item.line, item.path or "", _message(item)) for item in errors]


def _message(error: ConfigError) -> str:
    """Returns the text of an error without its line and path, which have columns of their own."""
    return str(
        ConfigError(error.problem, value=error.value, suggestion=error.suggestion, file=error.file)
    )
