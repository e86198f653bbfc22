"""Prompts: from RECORDS and a task to ROWS, the prompts and targets that a run works with.

``templates.py`` knows the placeholders; ``paths.py`` which paths the records have; ``fewshot.py`` chooses and writes
the examples; ``sampleids.py`` names the samples; ``assemble.py`` puts ROWS together.
"""
