"""What a grader's ``ctx`` reaches: calls to the run's judge and embedding models, made as candidate calls are.

The same limiter an endpoint, retries, deadlines, result cache and ledger. Each call is committed to the journal of
judge calls before the grader sees its reply, so that a grader that is run again pays nothing for what it asked before.
Replies are plain dicts in the shape of OpenAI's Responses and Embeddings.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from evalframe.adapters import Generation, ModelAdapter, TaskSpec
from evalframe.errors import EvalframeError
from evalframe.generate.attempts import Caller
from evalframe.generate.cachekeys import canonical
from evalframe.generate.finished import Finished
from evalframe.generate.judgejournal import JudgeCall, JudgeJournal, Served
from evalframe.generate.ledger import Ledger
from evalframe.generate.memory import Memory
from evalframe.generate.progress import Progress
from evalframe.manifest.generation import GenerationSettings, parse_generation
from evalframe.sandbox.foreign import BridgeError

_TURNS = ("user",)
_SYSTEM = ("system", "developer")
WAIT_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeModel:
    """A model that graders may call.

    Attributes:
        caller: How it is called.
        settings: The generation settings of the run for it; a call's own go before.
        memory: Its replies in the result cache; None: not kept.
    """

    caller: Caller
    settings: GenerationSettings
    memory: Memory | None = None


class Bridge:
    """The calls of one call of ``grade`` or ``grade_batch``: ``bridge(verb, keywords) -> dict``.

    Args:
        switchboard: What all bridges of a run share.
        served: The candidate's call that is graded; of a batch its first.
    """

    def __init__(self, switchboard: Switchboard, served: Served) -> None:
        self._switchboard = switchboard
        self._served = served
        self._indices = count()

    def __call__(self, verb: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Make one call.

        Args:
            verb: ``responses_create`` or ``embeddings_create``.
            keywords: As the grader gave them: ``model``, ``input``, ``instructions``, generation settings.

        Raises:
            BridgeError: What is asked for is wrong, or the call failed; says what to do.
        """
        call_index = next(self._indices)
        if verb == "responses_create":
            return self._switchboard.respond(self._served, call_index, keywords)
        if verb == "embeddings_create":
            return self._switchboard.embed(self._served, call_index, keywords)
        raise BridgeError(f"ctx has no {verb!r}; it has responses_create and embeddings_create")


class Switchboard:
    """Connects the graders of a run with its models. Safe to use from several threads.

    Args:
        models: Those that may be called, by model id.
        judge, embedder: What ``auto`` means; None: nothing.
        journal: Where calls are committed.
        ledger: What calls cost; once its cap is reached no further call is made.
        progress: Counts them.
        concurrency: Calls in flight at most.
        stop: Once set, no further call begins.
    """

    def __init__(
        self,
        models: Mapping[str, JudgeModel],
        *,
        judge: str | None,
        embedder: str | None,
        journal: JudgeJournal,
        ledger: Ledger,
        progress: Progress,
        concurrency: int,
        stop: threading.Event | None = None,
    ) -> None:
        self.progress = progress
        self._models = models
        self._auto = {"judge_model": judge, "embedding_model": embedder}
        self._journal = journal
        self._ledger = ledger
        self._bound = threading.BoundedSemaphore(concurrency)
        self._stop = stop or threading.Event()
        self._numbers = count()  # tells calls apart that are under way

    def bridge_for(self, model_id: str, task_id: str, sample_index: int, repeat: int) -> Bridge:
        """Give the bridge of one call of a grader."""
        return Bridge(self, (model_id, task_id, sample_index, repeat))

    # what Caller needs of the run

    def wait(self, seconds: float) -> bool:
        """Wait; false as soon as no further attempt may begin."""
        return not self._stop.wait(seconds)

    def ended(self) -> bool:
        """Whether no further attempt may begin."""
        return self._stop.is_set()

    def acquire(self) -> None:
        """Take one of the places in flight."""
        self._bound.acquire()

    def release(self) -> None:
        """Give it back."""
        self._bound.release()

    def respond(self, served: Served, call_index: int, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``ctx.responses_create``."""
        asked = dict(keywords)
        model = self._model(asked.pop("model", "auto"), "judge_model")
        prompt, system = _prompt_of(asked.pop("input", None))
        instructions = asked.pop("instructions", None)
        if instructions is not None and not isinstance(instructions, str):
            raise BridgeError(f"instructions is a {type(instructions).__name__}, not text")
        texts = [text for text in (instructions, system) if text]
        settings = _settings(model.settings, {**asked, **({"instructions": "\n\n".join(texts)} if texts else {})})
        finished = self._made(model, served, call_index, prompt, settings, kind="judge")
        return _response(finished)

    def embed(self, served: Served, call_index: int, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``ctx.embeddings_create``."""
        asked = dict(keywords)
        model = self._model(asked.pop("model", "auto"), "embedding_model")
        given = asked.pop("input", None)
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
            raise BridgeError("input of embeddings_create is a text, or a list of texts that is not empty")
        if asked:
            raise BridgeError(f"embeddings_create has no {sorted(asked)[0]!r}; it takes model and input")
        adapter: Any = model.caller.adapter
        if not callable(getattr(adapter, "embed", None)):
            raise BridgeError(f"{adapter.model_id} makes no embeddings; name another embedding_model")
        caller = replace(model.caller, batch=False, ask=lambda tasks: [_embedding(adapter, tasks[0])])
        prompt = json.dumps(list(texts), ensure_ascii=False)
        asking = JudgeModel(caller=caller, settings=model.settings, memory=model.memory)
        finished = self._made(asking, served, call_index, prompt, model.settings, kind="embedding")
        vectors = json.loads(finished.output_text or "[]")
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return {"object": "list", "model": finished.model_id, "data": data, "usage": _usage(finished)}

    def _model(self, name: Any, auto: str) -> JudgeModel:
        known = self._auto[auto] if name == "auto" else name
        if known is None:
            raise BridgeError(f"the run has no {auto}; give it one: {auto}=…, or name a model of the run")
        if known not in self._models:
            raise BridgeError(f"{known!r} is no model of this run; it has {', '.join(sorted(self._models))}")
        return self._models[known]

    def _made(
        self,
        model: JudgeModel,
        served: Served,
        call_index: int,
        prompt: str,
        settings: GenerationSettings,
        *,
        kind: str,
    ) -> Finished:
        """Give a call that was made before, or make it; committed in either case."""
        caller = replace(model.caller, timeout_seconds=settings.timeout_seconds)
        task = TaskSpec(
            task_id=served[1], category=kind, prompt=prompt, sample_index=next(self._numbers),
            sample_id=f"{served[2]}", repeat=served[3], generation=settings.sent(),
        )  # fmt: skip
        request = _request(caller.adapter, kind, task)
        known = self._journal.find(served, call_index, request)
        if known is not None:
            return known
        if self._ledger.exhausted:
            raise BridgeError("max_cost_usd is reached, and no further call is made; raise it and resume")
        done = model.memory.recall(task, caller) if model.memory is not None else None
        if done is None:
            made = caller.call([task], self)
            if not made:
                raise BridgeError("the run was stopped before this call; resume it")
            done = made[0]
            if model.memory is not None:
                model.memory.keep(done)
        finished = replace(done.finished, task_id=served[1], sample_index=served[2], repeat=served[3])
        self._journal.record(JudgeCall(served, call_index, request, finished))
        self._ledger.add([finished])
        if finished.status != "completed":
            raise BridgeError(f"{finished.model_id}: {finished.error_type}: {finished.error_message}")
        return finished


def _settings(run: GenerationSettings, own: Mapping[str, Any]) -> GenerationSettings:
    """Put the settings of one call before those of the run."""
    try:
        given = parse_generation(own, where="responses_create")
    except EvalframeError as error:
        raise BridgeError(str(error)) from None
    update = {name: value for name in given.model_fields_set if (value := getattr(given, name)) is not None}
    return run.model_copy(update=update)


def _prompt_of(given: Any) -> tuple[str, str]:
    """Read ``input``: a text, or messages of which one is the user's; gives the prompt and the system text."""
    if isinstance(given, str):
        return given, ""
    if not isinstance(given, Sequence) or not given:
        raise BridgeError("input of responses_create is a text, or a list of messages that is not empty")
    turns: dict[str, list[str]] = {"user": [], "system": []}
    for place, message in enumerate(given):
        if not isinstance(message, Mapping) or "content" not in message:
            raise BridgeError(f'input[{place}] is no message; write {{"role": "user", "content": "…"}}')
        role = message.get("role", "user")
        if role not in (*_TURNS, *_SYSTEM):
            raise BridgeError(f"input[{place}] has the role {role!r}; a judge is asked one turn: user, and system")
        turns["user" if role in _TURNS else "system"].append(_text_of(message["content"], place))
    if len(turns["user"]) != 1:
        raise BridgeError(f"input has {len(turns['user'])} messages of the user; a judge is asked one turn: join them")
    return turns["user"][0], "\n\n".join(turns["system"])


def _text_of(content: Any, place: int) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else []
    if not parts or not all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts):
        raise BridgeError(f"the content of input[{place}] is no text and no list of texts")
    return "".join(part["text"] for part in parts)


def _request(adapter: ModelAdapter, kind: str, task: TaskSpec) -> bytes:
    asked = {"model": adapter.model_id, "kind": kind, "prompt": task.prompt, "generation": dict(task.generation)}
    return hashlib.blake2b(canonical(asked).encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _embedding(adapter: Any, task: TaskSpec) -> Generation:
    vectors = adapter.embed(json.loads(task.prompt), deadline=task.deadline)
    return Generation(text=json.dumps(vectors), reasoning="", finish_reason="stop")


def _response(finished: Finished) -> dict[str, Any]:
    """Write a reply as OpenAI's Responses does, as far as it is known."""
    output: list[dict[str, Any]] = []
    if finished.reasoning:
        summary = [{"type": "summary_text", "text": finished.reasoning}]
        output.append({"type": "reasoning", "summary": summary})
    content = [{"type": "output_text", "text": finished.output_text or "", "annotations": []}]
    output.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
    tool_calls = json.loads(finished.tool_calls) if finished.tool_calls else []
    output += [{"type": "function_call", **call} for call in tool_calls if isinstance(call, Mapping)]
    return {
        "id": finished.response_id,
        "object": "response",
        "status": "incomplete" if finished.finish_reason in ("length", "truncated_no_answer") else "completed",
        "model": finished.model_id,
        "output": output,
        "output_text": finished.output_text or "",
        "finish_reason": finished.finish_reason,
        "usage": _usage(finished),
    }


def _usage(finished: Finished) -> dict[str, Any]:
    known = finished.input_tokens, finished.output_tokens
    total = None if None in known else sum(n for n in known if n is not None)
    return {"input_tokens": known[0], "output_tokens": known[1], "total_tokens": total}
