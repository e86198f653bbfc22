"""A local model as an adapter: real batches, log-likelihoods, nothing sent anywhere."""

from __future__ import annotations

import hashlib
import json
import math
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalframe.adapters import CallFailed, ContinuationScore, Generation, Sending, TaskSpec
from evalframe.adapters.huggingface.settings import choosing_of, sending
from evalframe.errors import AdapterError

if TYPE_CHECKING:
    from evalframe.adapters.huggingface.decoding import Row
    from evalframe.adapters.huggingface.loading import Source


@dataclass(eq=False, kw_only=True)
class LocalModel:
    """A model of Hugging Face transformers.

    The likeliest token is taken each time, unless the settings ask to sample: ``do_sample``, a ``temperature`` over 0,
    or ``top_p``, ``top_k`` or ``min_p`` (at temperature 1 where none is given). What is drawn depends on seed, task,
    sample and repeat alone. Settings that the model's own files have for generating are not used. Without
    ``max_output_tokens`` a reply may fill the model's context.

    Attributes:
        model_id: Its name in every frame.
        source: Where it comes from and where it runs.
        batch_size: Calls in one pass.
        chosen_api: ``chat`` or ``completions``; None: ``chat`` where the tokenizer has a template.
        seed: Of what is sampled.
        given_version: What the user says of it; None: the Hub's commit, or a fingerprint of the files.
    """

    model_id: str
    source: Source
    batch_size: int
    chosen_api: str | None = None
    seed: int = 0
    given_version: str | None = None
    max_workers: int = 1  # a second one would only wait for the first
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def model_version(self) -> str:
        """What is called, for the result cache and the frames."""
        return self.given_version or self.source.version

    @property
    def api(self) -> str:
        """``chat`` or ``completions``."""
        return self.chosen_api or ("chat" if self.source.tokenizer.chat_template else "completions")

    def check(self, settings: Mapping[str, Any]) -> None:
        """Load what is small, and refuse settings that contradict each other.

        Raises:
            AdapterError: It can not be loaded or called so; says what to do.
        """
        if self.api == "chat" and not self.source.tokenizer.chat_template:
            raise AdapterError(f'{self.model_id}: the tokenizer has no chat template; use "api": "completions"')
        if settings.get("do_sample") and settings.get("temperature") == 0:
            raise AdapterError(f"{self.model_id}: do_sample at temperature 0 is no sampling; leave one of the two out")
        if self.source.context is None and settings.get("max_output_tokens") is None:
            raise AdapterError(f"{self.model_id}: its context is not known; give max_output_tokens in generation")

    def sending(self, settings: Mapping[str, Any]) -> Sending:
        """Say what becomes of generation settings; the names are those of transformers."""
        return sending(settings, chat=self.api == "chat")

    def identity(self, prompt: str, task: TaskSpec) -> dict[str, Any]:
        """Give all that can change the answer, but for the device's arithmetic."""
        body = {"prompt": prompt, **self.sending(task.generation).sent}
        if body["do_sample"]:
            body["seed"] = _seed(self.seed, task)
        return {
            "adapter": "transformers", "base_url": None, "api": self.api, "model": self.source.name,
            "model_version": self.model_version, "applied_here": {}, "dtype": self.source.dtype, "body": body,
        }  # fmt: skip

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Answer one prompt."""
        (reply,) = self.generate_batch([prompt], [task])
        if isinstance(reply, CallFailed):
            raise reply
        return reply

    def generate_batch(self, prompts: Sequence[str], tasks: Sequence[TaskSpec]) -> list[Generation | CallFailed]:
        """Answer several prompts in one pass; a prompt that is too long, or a time-out, fails by itself."""
        from evalframe.adapters.huggingface.decoding import Row, write

        found: list[Row | CallFailed] = []
        for prompt, task in zip(prompts, tasks, strict=True):
            try:
                draws = random.Random(_seed(self.seed, task))
                found.append(Row(self._tokens(prompt, task.generation), draws, task.deadline))
            except CallFailed as error:
                found.append(error)
        rows = [row for row in found if isinstance(row, Row)]
        choosing = choosing_of(tasks[0].generation)  # settings are those of a model, not of a call
        if rows:
            with self._alone(min((row.deadline for row in rows if row.deadline is not None), default=None)):
                write(self.source, rows, choosing)
        return [self._reply(one, choosing.stop) if isinstance(one, Row) else one for one in found]

    def loglikelihood(
        self, contexts: Sequence[str], continuations: Sequence[str], *, deadline: float | None = None
    ) -> list[ContinuationScore]:
        """Score continuations after bare contexts, without a chat template."""
        from evalframe.adapters.huggingface.likelihood import score

        pairs = list(zip(contexts, continuations, strict=True))
        with self._alone(deadline):
            return score(self.source, pairs, batch_size=self.batch_size, deadline=deadline)

    def _tokens(self, prompt: str, settings: Mapping[str, Any]) -> list[int]:
        tokenizer = self.source.tokenizer
        if self.api == "chat":
            instructions = settings.get("instructions")
            messages = [] if instructions is None else [{"role": "system", "content": instructions}]
            text = tokenizer.apply_chat_template(
                [*messages, {"role": "user", "content": prompt}],
                tokenize=False, add_generation_prompt=True, **(settings.get("chat_template_kwargs") or {}),
            )  # fmt: skip
            tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            tokens = [*self.source.start, *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
        if not tokens:
            raise CallFailed("bad_request", "the prompt has no token; write something")
        if self.source.context is not None and len(tokens) >= self.source.context:
            raise CallFailed(
                "bad_request", f"the prompt has {len(tokens)} tokens; the model takes {self.source.context}"
            )
        return list(tokens)

    def _reply(self, row: Row, stop: tuple[str, ...]) -> Generation | CallFailed:
        from evalframe.adapters.huggingface.decoding import decode

        if row.ended == "timeout":
            return CallFailed("timeout", f"no end after {len(row.tokens)} tokens")
        written = row.tokens[:-1] if row.tokens[-1] in self.source.ends else row.tokens
        text = whole = decode(self.source, written)
        if places := [place for one in stop if (place := whole.find(one)) >= 0]:
            text = whole[: min(places)]
        count = len(written)
        while count and text != whole and decode(self.source, written[: count - 1]).startswith(text):
            count -= 1  # a token of the stop alone is none of the reply
        return Generation(
            text=text,
            token_nll=0.0 - math.fsum(row.logprobs[:count]) if count else None,
            token_count=count or None,
            finish_reason=row.ended,
            input_tokens=len(row.prompt),
            output_tokens=len(row.tokens),
            model_version=self.model_version,
        )

    @contextmanager
    def _alone(self, deadline: float | None) -> Iterator[None]:
        """Hold the model: two passes at once would take twice the memory and no less time."""
        if not self._lock.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            raise CallFailed("timeout", "the model was busy with other calls")
        try:
            yield
        finally:
            self._lock.release()


def _seed(seed: int, task: TaskSpec) -> int:
    key = json.dumps([seed, task.task_id, task.sample_index, task.repeat]).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
