"""A server whose settings a person changes: says what to change, waits, and looks whether it was done."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from runner.config import Scalar, SweepConfig
from runner.engines.address import server_root
from runner.engines.catalogue import KINDS
from runner.engines.proof import Identity, compare, who_answers
from runner.engines.readiness import wait_until_ready
from runner.engines.running import Running, User, api_key, metrics_url_of
from runner.engines.start_line import setting_fragment
from runner.engines.told import contradiction
from runner.errors import SettingFailed, SettingSkipped

_LOOK_S = 0.2


class HandSetServer:
    """The server of one sweep. It is never started nor ended by us."""

    def __init__(self, config: SweepConfig, user: User) -> None:
        self._config = config
        self._user = user
        self._running: Running | None = None
        self._setting: dict[str, Scalar] | None = None  # what the user was asked for last and said is done
        self._trouble: str | None = None  # why the user's last continue did not do

    async def apply(self, setting: Mapping[str, Scalar]) -> Running:
        """Returns when the user has said that the setting is in force and the server answers.

        A server that does not answer is told, and waited for. When the user would rather leave the cell out, raises
        SettingSkipped, or SettingFailed if it was tried before, with what was wrong then.
        """
        if self._running and self._setting == setting:
            return replace(self._running, started_new=False)
        self._running = None
        notes = await self._changed(setting)
        self._setting = dict(setting)
        url = str(self._config.backend.url)
        self._running = Running(url, metrics_url_of(self._config, url), None, None, True, notes)
        return self._running

    async def _changed(self, setting: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Notes for the cells of this setting: what the user went on with against the server's word."""
        text = instruction(self._config, setting, self._setting)
        before = await who_answers(self._config) if self._setting is not None else Identity(False)
        objected, self._trouble = False, None
        self._user.ask(setting, text)
        try:
            while True:
                await self._until_continued()
                try:
                    await self._until_ready()
                except SettingFailed as failure:
                    self._trouble = str(failure)
                    self._user.ask(setting, f"Not yet: {failure}. {text}")
                    continue
                wrong = await contradiction(self._config, setting) or await self._unchanged(before)
                if wrong is None:
                    return ()
                if objected:
                    return (f"{wrong}; the user went on all the same",)
                objected, self._trouble = True, wrong
                self._user.ask(setting, f"Not yet: {wrong}. {text} To measure it all the same, continue once more.")
        finally:
            self._user.thank()

    async def _until_continued(self) -> None:
        while not self._user.continued():
            self._unless_skipped()
            await asyncio.sleep(_LOOK_S)

    async def _until_ready(self) -> None:
        """A server that loads is waited for; one that does not answer at all is not there yet (SettingFailed)."""
        backend = self._config.backend
        root, limit_s = server_root(str(backend.url)), self._config.control.ready_timeout_s
        ready = asyncio.ensure_future(wait_until_ready(root, KINDS[backend.kind], api_key(self._config), limit_s))
        try:
            while not (await asyncio.wait({ready}, timeout=_LOOK_S))[0]:
                self._unless_skipped()
            ready.result()
        finally:
            ready.cancel()

    def _unless_skipped(self) -> None:
        if not self._user.skipped():
            return
        if self._trouble:
            raise SettingFailed("not_ready", f"given up by the user: {self._trouble}")
        raise SettingSkipped("skipped by the user")

    async def _unchanged(self, before: Identity) -> str | None:
        """A server that is still the same process as for the setting before was not restarted with this one."""
        if compare(before, await who_answers(self._config)) != "old":
            return None
        return "the server has not been restarted since the setting before"


def instruction(config: SweepConfig, setting: Mapping[str, Scalar], before: Mapping[str, Scalar] | None) -> str:
    """What the user must do: only what differs from the setting before, the whole fragment of the start line."""
    known = before or {}
    changes = [f"{k} to {_shown(v)}" for k, v in setting.items() if k not in known or known[k] != v]
    listed = " and ".join([", ".join(changes[:-1]), changes[-1]] if len(changes) > 1 else changes)
    fragment = setting_fragment(config.backend.kind, setting)
    where = server_root(str(config.backend.url))
    if fragment:
        return f"Set {listed} on the server at {where} and restart it with {fragment}."
    return f"Set {listed} on the server at {where} and restart it."


def _shown(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
