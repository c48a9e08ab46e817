"""How large classes, functions and the list of constants may get: what is larger has to be divided or simplified."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import rowsolve

SOURCE = Path(rowsolve.__file__).parent
TREES = {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
COMPILED = {"kernels", "compiled"}  # their classes are the arguments of compiled loops
MOST_METHODS, MOST_FIELDS, MOST_LINES, MOST_CONSTANTS = 15, 12, 40, 150
COMPLEX, MOST_COMPLEX = 12, 5  # McCabe's complexity, and how many functions may have more
FOREIGN = {"writeable", "CACHE_DIR", "compile", "_cache", "state"}  # of objects of numpy and Numba
Function = ast.FunctionDef | ast.AsyncFunctionDef


def nodes(kind):
    """Yield the path of the file and each node of a kind."""
    for path, tree in TREES.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kind))


def targets(node):
    """Yield what an assignment sets, names of tuples one by one."""
    pending = list(node.targets) if isinstance(node, ast.Assign) else [node.target]
    while pending:
        target = pending.pop()
        if isinstance(target, ast.Tuple | ast.List):
            pending += target.elts
        else:
            yield target.value if isinstance(target, ast.Starred) else target


def attributes_set(tree):
    """Yield the attributes that are assigned anywhere in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            yield from (target for target in targets(node) if isinstance(target, ast.Attribute))


def is_own(attribute):
    """Return whether the attribute is one of the object whose method sets it."""
    return isinstance(attribute.value, ast.Name) and attribute.value.id in {"self", "cls"}


def fields_of(node):
    """Return the fields of a class: what is annotated in its body, and what its methods set."""
    annotated = (part for part in node.body if isinstance(part, ast.AnnAssign))
    declared = {part.target.id for part in annotated if "ClassVar" not in ast.unparse(part.annotation)}
    return declared | {attribute.attr for attribute in attributes_set(node) if is_own(attribute)}


def complexity_of(function):
    """Return the number of branches and logical operators of a function, plus one."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp | ast.Assert | ast.ExceptHandler | ast.Lambda | ast.match_case):
            count += 1
        elif isinstance(node, ast.For | ast.While):
            count += 1 + bool(node.orelse)
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
    return count


def is_number(node):
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def constants():
    """Yield the path, name and text of each numeric constant of a module."""
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                (target,) = node.targets if isinstance(node, ast.Assign) else [node.target]
                together = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=True) if together else [(target, node.value)]
                yield from ((path, name.id, ast.unparse(value)) for name, value in pairs if is_number(value))


def test_classes__have_few_methods_and_fields():
    for path, node in nodes(ast.ClassDef):
        if path.parts[0] not in COMPILED:
            methods, fields = sum(isinstance(part, Function) for part in node.body), fields_of(node)
            assert methods <= MOST_METHODS, f"{path}: {node.name} has {methods} methods"
            assert len(fields) <= MOST_FIELDS, f"{path}: {node.name} has the fields {sorted(fields)}"


def test_functions__fit_on_a_screen():
    for path, function in nodes(Function):
        body = function.body[ast.get_docstring(function) is not None :] or function.body
        assert body[-1].end_lineno - body[0].lineno < MOST_LINES, f"{path}: {function.name}"


def test_functions__have_few_branches():
    found = [f"{path}: {node.name}" for path, node in nodes(Function) if complexity_of(node) > COMPLEX]
    assert len(found) <= MOST_COMPLEX, found


def test_constants__are_few_and_the_same_name_has_one_value():
    values = defaultdict(set)
    for _, name, value in constants():
        values[name].add(value)
    assert sum(1 for _ in constants()) < MOST_CONSTANTS
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


def test_attributes__are_set_in_the_room_of_their_class_only():
    rooms = defaultdict(set)
    for path, node in nodes(ast.ClassDef):
        rooms[path.parts[0]] |= fields_of(node)
    for path, tree in TREES.items():
        for attribute in attributes_set(tree):
            if not is_own(attribute) and attribute.attr not in FOREIGN:
                assert attribute.attr in rooms[path.parts[0]], f"{path}:{attribute.lineno}: {ast.unparse(attribute)}"
