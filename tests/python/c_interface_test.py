"""The module declares include/convoy.h as it is: every function, every struct with its fields in their order, every status."""
import ctypes
import re

import pytest
from conftest import ROOT

from convoy import _c, _errors

HEADER = ROOT / "include/convoy.h"
C_TYPES = {
    "size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "double": ctypes.c_double,
    "const char*": ctypes.c_char_p,
}


@pytest.fixture(scope="module")
def header():
    if not HEADER.exists():
        pytest.skip(f"no {HEADER}")
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)


def test_every_function_is_declared(header):
    named = set(re.findall(r"\b(convoy_\w+)\(", header)) - set(re.findall(r"typedef \w+ \(\*(convoy_\w+)\)", header))
    assert named == set(_c._CHECKED) | set(_c._PLAIN)
    for name, arguments in re.findall(r"convoy_status (convoy_\w+)\(([^)]*)\)", header):
        if name in _c._CHECKED:
            assert len(arguments.split(",")) == len(_c._CHECKED[name]), name


def test_every_struct_has_its_fields(header):
    callbacks = re.findall(r"typedef \w+ \(\*(convoy_\w+)\)", header)
    structs = dict(re.findall(r"typedef struct (convoy_\w+) \{(.*?)\} ", header, flags=re.DOTALL))
    ours = {value.__doc__: value for value in vars(_c).values()
            if isinstance(value, type) and issubclass(value, ctypes.Structure) and value.__doc__}
    assert set(structs) == set(ours)
    for name, body in structs.items():
        fields = re.findall(r"([\w ]+?[\w*]+(?: const\*)?)[ ]+(\w+)(\[\w+\])?;", body)
        assert [field for _, field, _ in fields] == [field for field, _ in ours[name]._fields_], name
        for (kind, field, many), (_, declared) in zip(fields, ours[name]._fields_):
            expected = C_TYPES.get(kind.strip())
            if expected is not None and not many:
                assert declared is expected, f"{name}.{field}: {kind}"
            elif not many:
                assert (kind.strip().endswith("*") or kind.strip() in callbacks) and ctypes.sizeof(declared) == 8, f"{name}.{field}: {kind}"


def test_every_status_is_an_exception(header):
    statuses = {int(number): name for name, number in re.findall(r"(CONVOY_\w+) = (\d+)", header.split("} convoy_status")[0])}
    assert set(_errors.BY_STATUS) == set(statuses) - {0}
    for number, kind in _errors.BY_STATUS.items():
        words = "".join(word.capitalize() for word in statuses[number].split("_")[1:])
        assert kind.__name__ == words and _c.library.convoy_status_name(number).decode() == statuses[number]
