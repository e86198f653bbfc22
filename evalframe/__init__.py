"""evalframe: an LLM evaluation is a dataframe."""

__version__ = "0.1.0"
