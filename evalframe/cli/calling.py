"""How models are called, as a command line says it: rates, money, the result cache, what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evalframe.cli.arguments import json_or_text

Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="openai/NAME, openai-compatible/NAME@URL, anthropic/NAME, google/NAME, mock/rule_based, replay/FILE, … or "
        "a JSON object; repeatable.",
    ),
]
Price = Annotated[
    list[str] | None,
    typer.Option(
        "--price", help="Dollars per million tokens, in and out (and cached in); repeatable.", metavar="MODEL=IN,OUT"
    ),
]
CachePath = Annotated[
    Path | None, typer.Option("--cache-path", help="File of the result cache; default: the user's.", metavar="FILE")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost-usd", help="No call begins once so much is spent.", metavar="DOLLARS")
]
RequestsPerMinute = Annotated[float | None, typer.Option(help="Of each model, at most.", metavar="N")]
TokensPerMinute = Annotated[float | None, typer.Option(help="Of each model, at most.", metavar="N")]
MaxRateLimitWait = Annotated[
    float, typer.Option("--max-rate-limit-wait-seconds", help="That one call waits in all.", metavar="SECONDS")
]
Preflight = Annotated[
    bool, typer.Option("--preflight/--no-preflight", help="Make each model's first call alone: a wrong key costs one.")
]
RequestType = Annotated[str, typer.Option(help="generate, or loglikelihood: the likeliest choice.", metavar="WORD")]
LoglikelihoodNorm = Annotated[
    str | None, typer.Option(help="bytes: choices are compared by log-probability a byte.", metavar="WORD")
]
Confidence = Annotated[
    str | None,
    typer.Option(help="adapter, logprobs, agreement, or JSON with pattern and scale.", metavar="WORD"),
]
JudgeModel = Annotated[
    str | None, typer.Option(help="What ctx.responses_create of graders calls: as --model.", metavar="MODEL")
]
EmbeddingModel = Annotated[
    str | None, typer.Option(help="What ctx.embeddings_create of graders calls: as --model.", metavar="MODEL")
]


def models_of(given: Sequence[str]) -> list[Any]:
    """Read ``--model``: names, or JSON objects that hold one."""
    return [json_or_text(one, "--model") for one in given]


def model_of(text: str | None, option: str) -> Any:
    """Read the option of one model: a name, or a JSON object that holds one."""
    return None if text is None else json_or_text(text, option)


def confidence_of(text: str | None) -> Any:
    """Read ``--confidence``."""
    return None if text is None else json_or_text(text, "--confidence")


def cache_of(cache: bool, refresh: bool, path: Path | None) -> bool | str:
    """Read ``--cache``, ``--refresh-cache`` and ``--cache-path``: one way to use the result cache."""
    from evalframe.errors import OptionError

    chosen = [flag for flag, is_given in {
        "--no-cache": not cache, "--refresh-cache": refresh, "--cache-path": path is not None,
    }.items() if is_given]  # fmt: skip
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(chosen)} are two ways to use the result cache; give one of them")
    if path is not None:
        return str(path)
    return "refresh" if refresh else cache


def prices_of(given: Sequence[str] | None) -> dict[str, list[float]] | None:
    """Read ``--price``: MODEL=IN,OUT or MODEL=IN,OUT,CACHED; a model's id may itself have an equals sign.

    >>> prices_of(["openai/gpt-5-mini=0.25,2"])
    {'openai/gpt-5-mini': [0.25, 2.0]}
    """
    from evalframe.errors import OptionError

    prices: dict[str, list[float]] = {}
    for text in given or ():
        name, _, numbers = text.rpartition("=")
        try:
            price = [float(number) for number in numbers.split(",")]
        except ValueError:
            price = []
        if not name or not 2 <= len(price) <= 3:
            raise OptionError(f"--price {text}: write MODEL=IN,OUT, as in openai/gpt-5-mini=0.25,2 (dollars)")
        if name in prices:
            raise OptionError(f"--price {text}: {name} stands twice; give it once")
        prices[name] = price
    return prices or None
