"""evalframe: an LLM evaluation is a dataframe.

``evalframe.run("suite.json", models=["mock/rule_based"]).leaderboard()``
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evalframe.adapters import Generation, ModelAdapter, TaskSpec
    from evalframe.adapters.callables import from_callable
    from evalframe.calibrating import CalibrationReport, calibration, reliability
    from evalframe.errors import EvalframeError
    from evalframe.evaluating import evaluate
    from evalframe.extracting import extract
    from evalframe.extractors.postprocess import post_process
    from evalframe.limits import Limits
    from evalframe.manifest.configs import label_set, regex, regex_last, take_first
    from evalframe.manifest.taskfile import TASK_SPEC_VERSION, validate_file, validate_files, validate_task
    from evalframe.metrics import metric, metric_alias, score
    from evalframe.models import replay
    from evalframe.pairs import pairwise
    from evalframe.passing import pass_at_k
    from evalframe.prompts import render
    from evalframe.result import Run
    from evalframe.runner import arun, load, resume, run
    from evalframe.slicing import slices
    from evalframe.sources import load_fixtures
    from evalframe.standings import leaderboard
    from evalframe.uniting import concat

# where each public name lives; it is imported when it is first used (PEP 562), so that `import evalframe` is instant
_HOMES = {
    "CalibrationReport": "calibrating",
    "EvalframeError": "errors",
    "Generation": "adapters",
    "Limits": "limits",
    "ModelAdapter": "adapters",
    "Run": "result",
    "TASK_SPEC_VERSION": "manifest.taskfile",
    "TaskSpec": "adapters",
    "arun": "runner",
    "calibration": "calibrating",
    "concat": "uniting",
    "evaluate": "evaluating",
    "extract": "extracting",
    "from_callable": "adapters.callables",
    "label_set": "manifest.configs",
    "leaderboard": "standings",
    "load": "runner",
    "load_fixtures": "sources",
    "metric": "metrics",
    "metric_alias": "metrics",
    "pairwise": "pairs",
    "pass_at_k": "passing",
    "post_process": "extractors.postprocess",
    "regex": "manifest.configs",
    "regex_last": "manifest.configs",
    "reliability": "calibrating",
    "render": "prompts",
    "replay": "models",
    "resume": "runner",
    "run": "runner",
    "score": "metrics",
    "slices": "slicing",
    "take_first": "manifest.configs",
    "validate_file": "manifest.taskfile",
    "validate_files": "manifest.taskfile",
    "validate_task": "manifest.taskfile",
}

__all__ = [
    "TASK_SPEC_VERSION",
    "CalibrationReport",
    "EvalframeError",
    "Generation",
    "Limits",
    "ModelAdapter",
    "Run",
    "TaskSpec",
    "arun",
    "calibration",
    "concat",
    "evaluate",
    "extract",
    "from_callable",
    "label_set",
    "leaderboard",
    "load",
    "load_fixtures",
    "metric",
    "metric_alias",
    "pairwise",
    "pass_at_k",
    "post_process",
    "regex",
    "regex_last",
    "reliability",
    "render",
    "replay",
    "resume",
    "run",
    "score",
    "slices",
    "take_first",
    "validate_file",
    "validate_files",
    "validate_task",
]


def __getattr__(name: str) -> Any:
    if home := _HOMES.get(name):
        return getattr(importlib.import_module(f"evalframe.{home}"), name)
    raise AttributeError(f"module 'evalframe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
