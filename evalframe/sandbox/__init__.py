"""Foreign Python, run in processes of its own: generated code with its tests, graders, preprocessors, slow regexes."""
