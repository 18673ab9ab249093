"""Runs when Python starts under `convoy exec`: PyTorch's own depthwise convolutions, which no cuDNN sees, are seen (docs/pytorch.md).

It is in front of PYTHONPATH, and the wheel's convoy_exec.pth runs it, too; the first counts. Where torch is imported, aten's entries of
theirs get a kernel that calls the one they had. At its first call it asks convoy.torch._hook; a process that convolves nothing by them
imports nothing of Convoy. The sitecustomize that would run without this one runs. Nothing is raised here, and any Python can read this
file.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ENTRIES = ("_conv_depthwise2d", "conv_depthwise3d")


def tell_of(what, state):
    """Leaves a line for `convoy exec`."""
    try:
        with open(os.path.join(os.environ["CONVOY_SEEN"], str(os.getpid())), "a") as file:
            file.write("%s\t%s\n" % (what, str(state).replace("\n", " ")))
    except Exception:  # `convoy exec` has ended before its program's children
        pass


def tell(state):
    """"on", or why PyTorch's convolutions are not seen."""
    tell_of("hook", state)


def load():
    """convoy.torch._hook: of the program's own Convoy, else of the one whose command this is."""
    import importlib.util
    spec = importlib.util.find_spec("convoy")
    if spec is not None and not os.path.exists(os.path.join(os.path.dirname(spec.origin or ""), "torch", "_hook.py")):
        raise ImportError("the program has another package named convoy: %s" % (spec.origin or spec.name))
    root = os.path.dirname(os.path.dirname(HERE))
    if spec is None:
        sys.path.append(root)
    try:
        import convoy.torch._hook as hook
    finally:
        if spec is None:
            sys.path.remove(root)
    return hook


class Kernel(object):
    """In place of the kernel that an entry of aten has."""

    hook = None  # False: it could not be loaded
    lock = None

    def __init__(self, own, name):
        self.own, self.name = own, name

    @staticmethod
    def start():
        """Once, whichever threads come first. They go on when it is done, so that the backward pass of what they compute is seen."""
        with Kernel.lock:
            if Kernel.hook is not None:
                return
            try:
                hook = load()
                hook.start(library)
            except Exception as error:
                hook = False
                tell("%s: %s" % (type(error).__name__, error))
            Kernel.hook = hook

    def __call__(self, keys, *arguments):
        if Kernel.hook is None:
            Kernel.start()
        if Kernel.hook is False:
            return self.own.call_boxed(keys, *arguments)
        return Kernel.hook.forward(self.own, self.name, keys, *arguments)


def install(torch, key="CUDA"):
    """Puts the kernels in; says so."""
    global library
    found = [name for name in ENTRIES if torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, key)]
    if not found:
        tell("on")  # PyTorch without CUDA has no such kernels
        return
    if not hasattr(torch.library, "get_kernel"):
        tell("torch %s has no torch.library.get_kernel" % torch.__version__)
        return
    import atexit
    import threading
    import warnings
    Kernel.lock = threading.Lock()
    atexit.register(record_generated, os.getpid())
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced
        for name in found:
            library.impl(name, Kernel(torch.library.get_kernel("aten::" + name, key), name), key, with_keyset=True)
    tell("on")


def lay_channels_last(torch, devices=("cuda",)):
    """Where a model is moved to a GPU, as if the program had written model.to(memory_format=torch.channels_last) behind it: cuDNN's results lie as
    the weights do, and what follows keeps that. (Weights that are no plain parameters, of FSDP or not initialised yet, stay as they are.)"""
    import atexit
    formats, apply, laid = {4: torch.channels_last, 5: torch.channels_last_3d}, torch.nn.Module._apply, set()

    def apply_and_lay(self, *arguments, **named):
        done = apply(self, *arguments, **named)
        for weight in self._parameters.values():
            if type(weight) is torch.nn.Parameter and weight.device.type in devices and weight.dim() in formats:
                weight.data = weight.data.contiguous(memory_format=formats[weight.dim()])
                laid.add(id(weight))
        return done

    torch.nn.Module._apply = apply_and_lay
    process = os.getpid()
    atexit.register(lambda: laid and process == os.getpid() and tell_of("channels-last", len(laid)))


def generated(code):
    """What a file of Inductor's runs in place of aten's convolutions: names, one a call. A kernel of its own is a template (tem); what else
    bears the name of a convolution (poi, red) adds its bias."""
    import re
    found, of_convolution = [], False
    for line in code.splitlines():
        if "Original ATen: [" in line:
            of_convolution = "aten.convolution" in line
        call = re.search(r"(?:extern_kernels\.(\w+)|(triton_tem_\w+)\.run)\(", line)
        if of_convolution and call and call.group(1) != "convolution":
            found.append(call.group(2) or "extern_kernels." + call.group(1))
    return found


def record_generated(process):
    """At the end of `process`, not of its forks: what torch.compile made of convolutions that never reach aten, for `convoy exec --record`."""
    file, codecache = os.environ.get("CONVOY_RECORD"), sys.modules.get("torch._inductor.codecache")
    if not file or codecache is None or process != os.getpid():
        return
    import json
    try:
        counts = {}
        for module in list(getattr(codecache.PyCodeCache, "modules", [])):
            with open(module.__file__) as source:
                for name in generated(source.read()):
                    counts[name] = counts.get(name, 0) + 1
        torch = sys.modules["torch"]
        lines = [{"convoy_record": 1, "pid": os.getpid(), "program": " ".join(getattr(sys, "orig_argv", sys.argv)),
                  "cudnn": torch.backends.cudnn.version() or 0, "torch": torch.__version__, "hook": True}]
        lines += [{"operations": name, "reason": "torch.compile made it of a convolution", "calls": count} for name, count in sorted(counts.items())]
        if counts:
            with open("%s.%d.torch" % (file, os.getpid()), "a") as part:
                part.write("".join(json.dumps(line) + "\n" for line in lines))
    except Exception as error:
        tell("%s: %s" % (type(error).__name__, error))


class Finder(object):
    """Finds what the others find; install() is called when torch has been imported."""

    is_convoys = True  # of whichever file
    looking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.looking:
            return None
        import importlib.util
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        loader = getattr(spec, "loader", None)
        run = getattr(loader, "exec_module", None)
        if run is None:
            return spec

        def exec_module(module):
            run(module)
            try:
                if "channels-last" in os.environ["CONVOY_PYTHON_HOOK"].split(","):
                    lay_channels_last(module)
                install(module)
            except Exception as error:
                tell("%s: %s" % (type(error).__name__, error))

        try:
            loader.exec_module = exec_module
        except Exception as error:
            tell("%s: %s" % (type(error).__name__, error))
        return spec


def go_on():
    """Runs the sitecustomize that this one stands in front of."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != HERE]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        if mine is not None:
            sys.modules.setdefault("sitecustomize", mine)


if os.environ.get("CONVOY_PYTHON_HOOK") and os.environ.get("CONVOY_EXEC") != "off" and sys.version_info >= (3, 9):
    if not any(getattr(finder, "is_convoys", False) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
if __name__ == "sitecustomize":
    go_on()
