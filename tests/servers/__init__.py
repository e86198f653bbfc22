"""Servers that tests talk to: real processes on loopback."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SECONDS = 60.0  # until a server that does not answer fails the test


class ScriptedServer:
    """The scripted server as a process of its own; a context manager.

    Attributes:
        url: Of the OpenAI-shaped APIs, ``http://127.0.0.1:PORT/v1``; Anthropic's is there too.
        root: Without ``/v1``; Google's API is at ``root + "/v1beta"``. Any other path before an API's own serves too.
    """

    def __init__(self, **script: Any) -> None:
        command = [sys.executable, "-m", "tests.servers.scripted", "--script", json.dumps(script)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1].decode())
        self.port = int(line)
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"

    def script(self, **script: Any) -> None:
        """Set the whole script (``behaviour.Script``); what is not given has its default. Counts of prompts stay.

        A rule is ``{"match": regex, "steps": [step, …]}``, its n-th request of a model with a prompt gets the n-th
        step; a step has the keys ``behaviour.STEP``.
        """
        self._control("script", script)

    def stats(self) -> dict[str, Any]:
        """Count: ``requests``, ``by_path``, ``by_prompt``, ``sent`` (statuses, resets, connections lost),
        ``in_flight``, ``peak_in_flight``, ``connections``, ``open_connections``, ``cpu_seconds``.
        """
        found: dict[str, Any] = self._control("stats")
        return found

    def recorded(self) -> list[dict[str, Any]]:
        """Give each request: ``method``, ``path``, ``headers`` (lower case), ``body``, ``prompt``, ``model``,
        ``attempt`` (from 1, of the model's prompt), ``arrived`` (seconds of a clock), ``connection``.
        """
        found: list[dict[str, Any]] = self._control("recorded")
        return found

    def reset(self) -> None:
        """Forget the script and the counts."""
        self._control("reset")

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=SECONDS)  # its input ends

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _control(self, verb: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("POST", f"/_control/{verb}", json.dumps(body))
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != 200:
            raise ValueError(answer["error"])
        return answer
