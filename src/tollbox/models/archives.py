"""Checks of an archive (`.pt2` or TorchScript) before torch reads it.

torch evaluates parts of an exported program as Python: shape expressions (`sympy.sympify`), guards
(`exec`), the source code that it generates from names, and targets that it looks up in `torch`,
where `torch.os.system` is one. Some constants are pickles, and some archives hold native libraries.

1. torch receives a copy with the entries listed here only, since its zip reader and Python's may
   disagree about a file. Each entry has passed its CRC check; torch does not check CRCs.
2. Expressions and guards are parsed, never evaluated, and may only contain what torch writes.
3. All other text of a program is a plain name. Metadata for people is left out.
4. A node's target is an operator of a tensor library, or simple arithmetic. Operators that open
   files are refused.

These checks are a second line of defence: only files that the user trusts come this far.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import zipfile
from typing import Any

import torch
from torch import Tensor

from ..core.validation import shown

PROGRAMS = re.compile(
    r"archive_(format|version)|byteorder|version|\.data/\w+|models/model\.json"
    r"|data/(weights/(weight_\d+|model_weights_config\.json|model\.pt)"
    r"|constants/(tensor_\d+|model_constants_config\.json|model\.pt)|sample_inputs/model\.pt)"
    r"|serialized_(exported_program\.json|(state_dict|constants|example_inputs)\.pt)"
)
"""Entries of an exported program that are copied. The last line is the format of torch 2.4."""
LEFT_OUT = re.compile(r"extra(_files)?/.*")
EXPANSION = 50
"""Largest ratio between the size of an archive's content and the size of its file."""

PLAIN = re.compile(r"[\w.:+/-]*", re.ASCII)
NAMES = frozenset({"name", "as_name", "forward_arg_names"})
"""Keys whose values become names in source code."""
TARGETS = re.compile(
    r"torch\.ops\.(aten|prims|quantized|quantized_decomposed|torchvision)\.(?!(save|from_file)\.)"
    r"\w+\.\w+"
    r"|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast|cond|while_loop)"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_"
    r"|or_|not_)|math\.(trunc|floor|ceil|sqrt)|torch\.sym_(float|int|max|min|not|ite|sum|sqrt)",
    re.ASCII,
)
FILES = re.compile(rb"\b(torch|aten)\s*\.\s*(save|from_file)\b")
"""TorchScript that opens files."""

FUNCTIONS = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Abs|Mod|floor|ceiling|And|Or|Not|Eq|Ne"
    r"|Lt|Le|Gt|Ge|Equality|Unequality|LessThan|StrictLessThan|GreaterThan|StrictGreaterThan"
    r"|FloorDiv|ModularIndexing|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift"
    r"|RShift|PowByNatural|FloatPow|FloatTrueDiv|IntTrueDiv|TruncToFloat|TruncToInt|RoundToInt"
    r"|RoundDecimal|ToFloat|Identity|max|min|abs"
    r"|math\.(trunc|floor|ceil|sqrt)|torch\.sym_(float|int|max|min|not|ite|sum)"
)
TENSOR = re.compile(r"L(\[('\w+'|\d+)\])+\.(size|stride|storage_offset)", re.ASCII)
"""Methods of an input tensor, in guards."""
SYMBOLS = re.compile(r"[a-z]+\d+|true|false|oo|int_oo|inf", re.ASCII)
TEXTS = {"Symbol": re.compile(r"[A-Za-z_]\w*", re.ASCII), "Float": re.compile(r"[\d.e+-]+")}
"""Functions that take text, and the text that they take."""
OPERATIONS = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop),
    *(ast.boolop, ast.cmpop, ast.Load),
)


class UnsafeArchive(Exception):
    """An archive with content that torch could run as code."""


def checked_copy(file: str, program: bool) -> io.BytesIO:
    """Return the checked content of an archive: an exported program, or else TorchScript."""
    copy = io.BytesIO()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w") as checked:
        members = {info.filename: info for info in archive.infolist()}
        total = sum(info.file_size for info in members.values())
        if total > EXPANSION * os.path.getsize(file):
            raise UnsafeArchive(f"it expands to {total:,} bytes")
        for name in members:
            short = name if PROGRAMS.fullmatch(name) else name.partition("/")[2]
            if program and LEFT_OUT.fullmatch(short):
                continue
            if program and not PROGRAMS.fullmatch(short):
                raise UnsafeArchive(f"it has an entry {name!r}")
            content = archive.read(name)  # raises BadZipFile if the CRC is wrong
            if program and short.endswith(".json"):
                content = json.dumps(_checked(json.loads(content))).encode()
            if program and re.search(r"(sample|example)_inputs", short) and content:
                _check_inputs(torch.load(io.BytesIO(content), weights_only=True))
            if not program and FILES.search(content) and short.startswith("code/"):
                raise UnsafeArchive(f"its code {name!r} opens files")
            checked.writestr(name, content)
    copy.seek(0)
    return copy


def _checked(value: Any, key: str = "") -> Any:
    """Return a part of a program's JSON without its metadata; raise UnsafeArchive if it is code."""
    if isinstance(value, dict):
        if key == "metadata":
            return {}
        for name in value:
            _require(PLAIN.fullmatch(name) or key == "range_constraints", key, name)
        return {name: _checked(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_checked(each, key) for each in value]
    if not isinstance(value, str):
        return value
    if key in ("expr_str", "guards_code"):
        _check_expression(value)
    elif key == "as_string":  # such as the message of an assertion; quotes could end a literal
        return re.sub(r"[^\w .,;()<>=*/+-]", "?", value, flags=re.ASCII)
    elif key in ("in_spec", "out_spec"):
        _check_spec(json.loads(value))
    elif key in ("target", "as_operator"):
        _require(TARGETS.fullmatch(value), key, value)
    elif key == "path_name":  # anything else is unpickled
        _require(re.fullmatch(r"(weight|tensor)_\d+", value), key, value)
    else:
        _require(PLAIN.fullmatch(value), key, value)
        _require(key not in NAMES or value.isidentifier() or not value, key, value)
    return value


def _check_inputs(value: Any) -> None:
    """Check the example inputs, whose names become part of the guards: one tensor, or by name."""
    right = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict)
    each = [*value[0], *value[1].values()] if right else []
    right = bool(each) and all(isinstance(tensor, Tensor) for tensor in each)
    _require(right and all(map(str.isidentifier, value[1])), "example inputs", shown(value))


def _check_spec(value: Any) -> None:
    """Check a tree of containers; torch imports modules for default dicts and enums."""
    if isinstance(value, dict):
        _require(value.keys() <= {"type", "context", "children_spec"}, "spec", str(list(value)))
        _require(value.get("type") != "collections.defaultdict", "spec", "defaultdict")
        if isinstance(context := value.get("context"), str):
            value = {**value, "context": json.loads(context)}
            _require(not isinstance(value["context"], dict), "spec", context)
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        _check_spec(each)
    _require(not isinstance(value, str) or PLAIN.fullmatch(value), "spec", str(value))


def _check_expression(text: str) -> None:
    """Raise UnsafeArchive unless a text is arithmetic on symbols, or on the shape of an input."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnsafeArchive(f"it has the expression {text[:60]!r}") from None
    _require(not re.search(r"[\"\\\n\r#]", text), "expression", text)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        children = list(ast.iter_child_nodes(node))
        match node:
            case ast.Call(ast.Name(function), [ast.Constant(str(given)), *_]) if function in TEXTS:
                _require(TEXTS[function].fullmatch(given), "expression", text)
                children = [*node.args[1:], *(each.value for each in node.keywords)]
            case ast.Call(function, arguments, keywords):
                called = ast.unparse(function)
                known = FUNCTIONS.fullmatch(called) or TENSOR.fullmatch(called)
                _require(known, "expression", text)
                children = [*arguments, *(each.value for each in keywords)]
            case ast.Subscript(ast.Call(), ast.Constant(int())) | ast.Constant(
                bool() | int() | float()
            ):
                pass
            case ast.Name(name):
                _require(SYMBOLS.fullmatch(name), "expression", text)
            case _:
                _require(isinstance(node, OPERATIONS), "expression", text)
        pending += children


def _require(ok: object, what: str, text: str) -> None:
    if not ok:
        raise UnsafeArchive(f"it has the {what} {text[:60]!r}")
