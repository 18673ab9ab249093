"""Unpacks from downloaded wheels what the build needs: unpack_wheels.py WHEELS PREFIX.

oneDNN's wheels hold include/ and lib/ under <name>.data/data; of onnx only the schema is taken, of NVIDIA's only the
headers, into PREFIX/cuda/include.
"""
import pathlib
import re
import shutil
import sys
import zipfile

NVIDIA_HEADER = re.compile(r"nvidia/[^/]+/include/(.+)")

wheels, prefix = map(pathlib.Path, sys.argv[1:])
for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if ".data/data/" in info.filename:
                target = prefix / info.filename.split(".data/data/", 1)[1]
            elif info.filename == "onnx/onnx.proto":
                target = prefix / info.filename
            elif header := NVIDIA_HEADER.fullmatch(info.filename):
                target = prefix / "cuda/include" / header[1]
            else:
                continue
            if info.is_dir():
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
