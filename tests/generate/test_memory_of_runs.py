"""What calls of one run take from the result cache: what was there when it began, and nothing of its own."""

from __future__ import annotations

from itertools import count

import pytest

from evalframe.adapters.callables import from_callable
from evalframe.generate.cache import ResultCache
from evalframe.generate.threads import GenerateOptions, generate


@pytest.mark.parametrize("parallel", [True, False])
def test_two_samples_with_one_prompt_are_both_asked_and_a_second_run_asks_none(
    make_rows, new_journal, tmp_path, parallel
) -> None:
    rows, numbers = make_rows({"a": 6}, prompt="the same"), count()
    model = from_callable("m", lambda prompt: str(next(numbers)), model_version="1")
    seen = []
    for _ in range(2):
        journal = new_journal()
        with ResultCache.open(tmp_path / "replies.sqlite") as cache:
            generate(rows, adapters=[model], journal=journal, options=GenerateOptions(cache=cache, parallel=parallel))
        seen.append(journal.generations().select("cached", "output_text").rows())
    first, second = seen
    assert sorted(text for _, text in first) == list("012345")
    assert not any(cached for cached, _ in first)
    assert [cached for cached, _ in second] == [True] * 6
    assert len({text for _, text in second}) == 1  # one request, one reply
    assert next(numbers) == 6
