"""stdout and stderr that survive what shells do to them: a reader that went away, a closed stream, an old encoding."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast


class Forgiving:
    """A text stream whose reader may go away (``| head``): it wanted no more, which is no error of the command."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop what nobody reads."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what nobody reads."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _drop(self) -> None:
        # what is buffered would be tried again when Python ends, so that the end of the pipe is replaced
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def forgiving_streams() -> Iterator[None]:
    """Put ``Forgiving`` streams in the place of stdout and stderr, and flush them at the end."""
    with contextlib.ExitStack() as stack:
        out, err = (_prepared(stream, stack) for stream in (sys.stdout, sys.stderr))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            yield
        finally:
            for stream in (out, err):
                stream.flush()


def _prepared(stream: TextIO | None, stack: contextlib.ExitStack) -> TextIO:
    if stream is None:  # closed by the shell: >&-
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (the stack closes it)
        stack.enter_context(stream)
    if hasattr(stream, "reconfigure"):  # a terminal that is not UTF-8 gets escapes, never an error
        stream.reconfigure(errors="backslashreplace")
    return cast(TextIO, Forgiving(stream))
