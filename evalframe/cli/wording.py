"""Messages that name Python's options, said in the words of a shell."""

from __future__ import annotations

import re

_WORDS = [
    (re.compile(pattern), flag)
    for pattern, flag in (
        (r"allow_unsandboxed=True \(--allow-unsandboxed\)", "--allow-unsandboxed"),
        (r"\ballow_(bad_tasks|unsandboxed)=True", lambda found: f"--allow-{found[1].replace('_', '-')}"),
        (r"\bskip_failed_tasks=True", "--skip-failed-tasks"),
        (
            r"(?:pass )?\blimits=Limits\((\w+)=([^)]*)\)",
            lambda found: f"{'give ' * found[0].startswith('pass')}--limit {found[1]}={found[2]}",
        ),
        (r'\bmodels=\("one of the first run", "one of the second"\)', "--models A=B"),
        (r"\bfiles=\{'([^']+)': '?PATH'?\}", r"--files \1=PATH"),
        (r"\brun\.rescore\((extract|manifest)=…\)", r"evalframe rescore RUN --\1 …"),
        (r"\brun\.rescore\(metrics=…\)", "evalframe rescore RUN --metric …"),
        (r"\b(?:run\.)?rescore\(graders=…\)", "evalframe rescore RUN --grader …"),
        (r"\bcache=False", "--no-cache"),
        (r"\bcache=PATH", "--cache-path FILE"),
        (r'\bcache="refresh"', "--refresh-cache"),
        (r'\b(prompt|targets)="([^"]*)"', r"--\1 '\2'"),
        (r"\bprices=\{'([^']+)': \(([\d.]+), ([\d.]+)\)\}", r"--price '\1=\2,\3'"),
        (r"\bmax_cost_usd=(?=[\d.])", "--max-cost-usd "),
        (r'as in \["exact_match"\]', "as in --metric exact_match"),
        (r"\b(prompt|metric|manifest)=(?![^\s,;:)])", r"--\1"),
    )
]


def in_shell_words(text: str) -> str:
    """Say a message in the words of a shell; what has no flag stays as it is.

    >>> in_shell_words("data of your own goes with prompt=")
    'data of your own goes with --prompt'
    >>> in_shell_words("pass limits=Limits(concurrency=64) to go higher")
    'give --limit concurrency=64 to go higher'
    """
    for pattern, flag in _WORDS:
        text = pattern.sub(flag, text)
    return text
