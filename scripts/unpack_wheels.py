"""Unpacks from downloaded wheels what the build needs: unpack_wheels.py WHEELS PREFIX.

oneDNN's wheels hold include/ and lib/ under <name>.data/data; of onnx only the schema is taken, of NVIDIA's only the
headers, into PREFIX/cuda/include. The licences of what ends up in Convoy's files go to PREFIX/licenses.
"""
import pathlib
import re
import shutil
import sys
import zipfile

LICENCES = {
    re.compile(r"onnx-[^/]+\.dist-info/licenses/(LICENSE)"): "onnx",
    re.compile(r"onednn_cpu_gomp-[^/]+\.data/data/share/doc/onednn/(LICENSE|THIRD-PARTY-PROGRAMS)"): "onednn",
}
NVIDIA_HEADER = re.compile(r"nvidia/[^/]+/include/(.+)")

wheels, prefix = map(pathlib.Path, sys.argv[1:])


def place_of(name):
    """Where a file of a wheel goes; None: it is not needed."""
    for pattern, package in LICENCES.items():
        if found := pattern.fullmatch(name):
            return prefix / "licenses" / package / found[1]
    if ".data/data/" in name:
        return prefix / name.split(".data/data/", 1)[1]
    if name == "onnx/onnx.proto":
        return prefix / name
    if header := NVIDIA_HEADER.fullmatch(name):
        return prefix / "cuda/include" / header[1]
    return None


for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            target = place_of(info.filename)
            if target is None or info.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, open(target, "wb") as sink:
                shutil.copyfileobj(source, sink)

# The wheel holds the library three times, under its name and what should be links to it.
library = next((prefix / "lib").glob("libdnnl.so.*.*"))
for name in (library.name.rsplit(".", 1)[0], "libdnnl.so"):
    link = prefix / "lib" / name
    link.unlink(missing_ok=True)
    link.symlink_to(library.name)
