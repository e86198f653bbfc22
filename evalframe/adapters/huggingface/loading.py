"""Loading a local model: its tokenizer and configuration first, its weights when it is first called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evalframe.errors import AdapterError

_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth"}
_OTHERS = {".json", ".txt", ".model", ".jinja"}
_BLOCK, _BLOCKS = 4096, 256  # of each file of weights that are looked at
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(eq=False)
class Source:
    """Where a model comes from and where it runs; what it has is loaded when it is asked for.

    Attributes:
        name: A folder, or a name on the Hub.
        revision: Of a Hub model.
        device: As torch names it; None: the best there is.
        dtype: As torch names it, or ``auto``.
    """

    name: str
    revision: str | None = None
    device: str | None = None
    dtype: str = "auto"
    _model: Any = field(default=None, init=False, repr=False)

    @cached_property
    def config(self) -> Any:
        """The model's configuration."""
        from transformers import AutoConfig

        return self._load(AutoConfig)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        from transformers import AutoTokenizer

        return self._load(AutoTokenizer)

    @property
    def model(self) -> Any:
        """The model with its weights, ready to be called, without settings of its own for generating.

        Raises:
            AdapterError: It can not be loaded; that is not tried again.
        """
        if self._model is None:
            try:
                self._model = self._loaded()
            except AdapterError as error:
                self._model = error
        if isinstance(self._model, AdapterError):
            raise self._model
        return self._model

    def _loaded(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        dtype = self.dtype if self.dtype == "auto" else getattr(torch, self.dtype)
        with _no_bars():
            model = self._load(AutoModelForCausalLM, dtype=dtype)
            try:
                model = model.to(self.device or _best_device()).eval()
            except (RuntimeError, AssertionError) as error:
                raise AdapterError(
                    f"transformers/{self.name}: device {self.device!r} can not be used: {error}"
                ) from None
        model.generation_config = GenerationConfig()  # a temperature or a penalty that nobody asked for may be in it
        return model

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens that end a reply, of the tokenizer and of the model's settings for generating."""
        from transformers import GenerationConfig

        try:
            own = GenerationConfig.from_pretrained(self.name, revision=self.revision).eos_token_id
        except OSError:  # there is no such file
            own = getattr(self.config, "eos_token_id", None)
        found = {self.tokenizer.eos_token_id, *(own if isinstance(own, list) else [own])}
        return frozenset(token for token in found if token is not None)

    @cached_property
    def context(self) -> int | None:
        """How many tokens prompt and reply may have together; None where the configuration does not say."""
        config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        found = (getattr(config, name, None) for name in _CONTEXTS)
        return next((value for value in found if isinstance(value, int) and value > 0), None)

    @cached_property
    def start(self) -> list[int]:
        """The tokens that the tokenizer puts before any text."""
        plain = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        marked = self.tokenizer("a")["input_ids"]
        places = range(len(marked) - len(plain) + 1)
        return next((marked[:at] for at in places if marked[at : at + len(plain)] == plain), [])

    @cached_property
    def version(self) -> str:
        """The commit of a Hub model; of a folder a fingerprint of its files."""
        if Path(self.name).is_dir():
            return fingerprint(Path(self.name))
        return getattr(self.config, "_commit_hash", None) or self.revision or "main"

    def _load(self, kind: Any, **options: Any) -> Any:
        try:
            # code that comes with a model is never run
            return kind.from_pretrained(self.name, revision=self.revision, trust_remote_code=False, **options)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            first = str(error).strip().split("\n")[0]
            raise AdapterError(
                f"transformers/{self.name} can not be loaded: {type(error).__name__}: {first} -> name a folder that "
                "holds a model, or a model of the Hub; a private one needs HF_TOKEN"
            ) from None


def fingerprint(folder: Path) -> str:
    """Give a short text that changes with the model in a folder.

    All of the small files counts, and of each file of weights its size and 256 blocks spread over it: gigabytes are
    not read, and training changes next to all of them.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.iterdir()):
        if path.suffix not in _WEIGHTS | _OTHERS or not path.is_file():
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            if path.suffix in _OTHERS or size <= _BLOCK * _BLOCKS:
                digest.update(file.read())
                continue
            for block in range(_BLOCKS):
                file.seek(block * (size - _BLOCK) // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def _best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@contextmanager
def _no_bars() -> Iterator[None]:
    """Keep the library's bars away from the run's own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
