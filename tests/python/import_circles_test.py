"""No file of the package needs another that needs it, not even from within a function; types alone may (TYPE_CHECKING)."""

import ast
import pathlib

import convoy

PACKAGE = pathlib.Path(convoy.__file__).parent


def imported(path, modules):
    """The package's files that a file imports when it is loaded or later."""
    tree = ast.parse(path.read_text())
    types_only = {inner for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
                  for inner in ast.walk(node)}
    names = set()
    for node in ast.walk(tree):
        if node in types_only:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (parts & modules) or {node.module}
    return names & modules


def test_no_circle():
    files = {".".join(("convoy", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
             for path in PACKAGE.rglob("*.py")}
    assert len(files) > 20
    left = {name: imported(path, set(files)) for name, path in files.items()}
    while left:
        free = {name for name, needs in left.items() if not needs & left.keys()}
        assert free, f"these need each other: {left}"
        left = {name: needs for name, needs in left.items() if name not in free}
