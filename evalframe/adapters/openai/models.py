"""The adapters: a model behind an API that also embeds, and one whose API scores the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalframe.adapters import CallFailed, ContinuationScore, Generation
from evalframe.adapters.openai import embeddings, likelihoods, replies
from evalframe.adapters.remote import RemoteModel

MOST_PROMPTS = 32  # scored in one request


class OpenAIModel(RemoteModel):
    """A model behind one of OpenAI's APIs, at OpenAI or elsewhere."""

    __slots__ = ()

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> list[list[float]]:
        """Give the vector of each text; no text, no call.

        Args:
            texts: Any number of them; ``embeddings.MOST_TEXTS`` go out together.
            deadline: ``time.monotonic()`` by which all are back. None: no limit.

        Raises:
            CallFailed: There is no whole reply.
        """
        vectors: list[list[float]] = []
        for part in _parts(texts, embeddings.MOST_TEXTS):
            document = self.ask(embeddings.PATH, embeddings.embedding_body(self.model, part), deadline=deadline)
            vectors += embeddings.read_embeddings(document, len(part))
        return vectors


@dataclass(eq=False, repr=False, slots=True, kw_only=True)
class ScoringModel(OpenAIModel):
    """A model behind legacy completions.

    Attributes:
        one_by_one: The server has refused several prompts in one request.
    """

    one_by_one: bool = field(init=False, default=False)

    def loglikelihood(
        self, contexts: Sequence[str], continuations: Sequence[str], *, deadline: float | None = None
    ) -> list[ContinuationScore]:
        """Score each continuation after its context.

        Args:
            contexts: One for each continuation.
            continuations: Each with the blank in front of it, where there is to be one.
            deadline: ``time.monotonic()`` by which all are back. None: no limit.

        Raises:
            CallFailed: There is no whole reply, or the server does not score the tokens of a prompt.
        """
        scores: list[ContinuationScore] = []
        for pairs in _parts(list(zip(contexts, continuations, strict=True)), MOST_PROMPTS):
            if self.one_by_one:
                scores += [self._scores([pair], deadline)[0] for pair in pairs]
                continue
            try:
                scores += self._scores(pairs, deadline)
            except CallFailed as error:
                if error.error_type != "bad_request" or len(pairs) == 1:
                    raise
                # what is wrong with a pair alone is said of it here; else it was the list
                scores += [self._scores([pair], deadline)[0] for pair in pairs]
                self.one_by_one = True
        return scores

    def _scores(self, pairs: Sequence[tuple[str, str]], deadline: float | None) -> list[ContinuationScore]:
        contexts, continuations = [list(part) for part in zip(*pairs, strict=True)]
        body = self._mended(likelihoods.scoring_body(self.model, contexts, continuations))
        reply = self.send(self.api.path(self.model), body, deadline=deadline)
        document = self.opened(reply)
        first, *others = likelihoods.read_scores(document, contexts, continuations)
        told = Generation(text="", **replies.about(document), raw=reply.body)
        return [replace(first, told=told), *others]

    def _mended(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Drop and rename what the user said that this server does not take."""
        return {self.rename.get(key, key): value for key, value in body.items() if key not in self.drop}


def _parts(values: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), most):
        yield values[start : start + most]
