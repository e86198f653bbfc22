"""Python text in a manifest: whether it compiles and defines the function that will be called. It is never run here."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalframe.errors import Fault

# the functions of each contract, first found wins, and how many arguments they are called with
Functions = Mapping[str, tuple[int, int]]
GRADE: dict[str, Functions] = {"sample": {"grade": (2, 3)}, "batch": {"grade_batch": (1, 2)}}
TRANSFORM: dict[str, Functions] = {
    "row": dict.fromkeys(("transform_row", "transform", "process_doc"), (1, 1)),
    "batch": dict.fromkeys(("transform_batch", "process_docs"), (1, 1)),
}
_Def = ast.FunctionDef | ast.AsyncFunctionDef


def defined_functions(source: Any) -> set[str]:
    """Give the names that a Python text binds at its top level; none where it is no text or does not parse."""
    try:
        return set(_bound(_parse(source).body)) if isinstance(source, str) else set()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def source_faults(source: str, where: str, functions: Functions, *, others: Mapping[str, Functions]) -> Iterator[Fault]:
    """Check a Python text.

    Args:
        source: The text.
        where: Its path in the manifest.
        functions: The names, one of which must be defined at the top level, with the least and the most positional
            arguments that it is called with.
        others: The same for all contracts, for the advice where the function is another contract's.
    """
    if not source.strip():
        yield Fault(where, "empty", "the text is empty", f"define {_one_of(functions)}")
        return
    try:
        tree = _parse(source)
        bound = _bound(tree.body)
    except SyntaxError as error:
        line = f"line {error.lineno}" + (f", column {error.offset}" if error.offset else "")
        text = f": {error.text.strip()[:60]}" if error.text and error.text.strip() else ""
        yield Fault(where, "bad_python", f"{line}: {error.msg}{text}", f"mend line {error.lineno} of the text")
        return
    except (ValueError, RecursionError, MemoryError) as error:
        yield Fault(where, "bad_python", f"does not compile: {error}", "simplify the text")
        return
    if "*" in bound:  # a star import may bring any name
        return
    found = next((name for name in functions if name in bound), None)
    if found is None:
        there = ", ".join(name for name, node in bound.items() if isinstance(node, _Def)) or "none"
        detail = f"does not define {_one_of(functions)}; functions that it defines: {there}"
        yield Fault(where, "missing_function", detail, _rename(bound, functions, others))
        return
    yield from _signature_faults(bound[found], where, functions[found])


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes and the like: the author's business
        tree = ast.parse(source)
        # compiling finds what parsing does not (return outside a function); nothing is executed
        compile(source, "<manifest>", "exec", dont_inherit=True)
    return tree


def _bound(body: Sequence[ast.stmt]) -> dict[str, ast.stmt]:
    """Names bound at the top level, branches included; a star import as ``*``."""
    names: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, _Def | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0]: node for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {one.id: node for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        for inner in ("body", "orelse", "finalbody", "handlers"):
            if not isinstance(node, _Def | ast.ClassDef) and isinstance(block := getattr(node, inner, None), list):
                for part in block:
                    names |= _bound(part.body if isinstance(part, ast.ExceptHandler) else [part])
    return names


def _signature_faults(node: ast.stmt, where: str, count: tuple[int, int]) -> Iterator[Fault]:
    if isinstance(node, ast.AsyncFunctionDef):
        detail = f"line {node.lineno}: {node.name} is async"
        yield Fault(where, "bad_function", detail, f"write a plain function: def {node.name}(...)")
    if not isinstance(node, _Def) or node.decorator_list:
        return
    arguments = node.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    required = positional - len(arguments.defaults)
    keyword = [arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default]
    least, most = count
    takes_enough = positional >= least or arguments.vararg is not None
    if keyword or not takes_enough or required > most:
        calls = f"{least}" if least == most else f"{least} or {most}"
        takes = f"needs the keyword argument {keyword[0]}" if keyword else f"takes {positional}"
        detail = f"line {node.lineno}: {node.name} {takes}; it is called with {calls} positional arguments"
        yield Fault(where, "bad_function", detail, _shape_of(node.name))


def _shape_of(name: str) -> str:
    shapes = {
        "grade": "write def grade(sample, item) or def grade(sample, item, ctx)",
        "grade_batch": "write def grade_batch(samples) or def grade_batch(samples, ctx)",
        "transform_batch": "write def transform_batch(rows)",
        "process_docs": "write def process_docs(rows)",
    }
    return shapes.get(name, f"write def {name}(row)")


def _rename(bound: Mapping[str, ast.stmt], functions: Functions, others: Mapping[str, Functions]) -> str:
    for contract, names in others.items():
        if set(bound) & set(names) and not set(functions) & set(names):
            return f'set "contract": "{contract}", or define {_one_of(functions)}'
    return f"name the function {_one_of(functions)}"


def _one_of(names: Functions) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
