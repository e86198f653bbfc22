"""Raw user input becomes frozen records here and nowhere else: suites, generation settings, task files."""
