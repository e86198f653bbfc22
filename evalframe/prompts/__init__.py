"""Prompts: from RECORDS and a task to ROWS, the prompts and targets that a run works with.

``templates.py`` knows the placeholders; ``paths.py`` which paths the records have; ``needs.py`` what a task needs of
its data; ``fewshot.py`` chooses and writes the examples; ``sampleids.py`` names the samples; ``assemble.py`` puts ROWS
together; ``again.py`` does what is done anew when a run is re-scored.
"""

from evalframe.prompts.again import with_definitions
from evalframe.prompts.assemble import render, suite_rows, task_rows
from evalframe.prompts.fewshot import FewShotWarning
from evalframe.prompts.needs import NeededPaths, fewshot_paths, needed_paths
from evalframe.prompts.paths import known_paths
from evalframe.prompts.templates import MissingFieldWarning

__all__ = [
    "FewShotWarning", "MissingFieldWarning", "NeededPaths", "fewshot_paths", "known_paths", "needed_paths", "render",
    "suite_rows", "task_rows", "with_definitions",
]  # fmt: skip
