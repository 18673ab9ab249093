"""The part of convoy.h that bench/gpu needs, for Python: plans by name, executions on pointers."""
import ctypes


class Options(ctypes.Structure):
    """convoy_options"""
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("engines", ctypes.c_char_p), ("rules", ctypes.c_char_p),
                ("fallback", ctypes.c_int32), ("deterministic_only", ctypes.c_int32), ("workspace_limit", ctypes.c_int64),
                ("budget_seconds", ctypes.c_double), ("database", ctypes.c_char_p), ("device", ctypes.c_char_p),
                ("target_sms", ctypes.c_int32)]


class Arguments(ctypes.Structure):
    """convoy_arguments"""
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_void_p) for name in (
        "x", "w", "y", "out", "bias", "z", "slopes", "scales", "workspace")] + [
        ("workspace_bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("x_zero_point", ctypes.c_void_p), ("w_zero_points", ctypes.c_void_p)]


class Convoy:
    """A loaded libconvoy.so. What fails raises RuntimeError with the library's sentence."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.convoy_error.restype = ctypes.c_char_p
        self.library.convoy_problem_text.restype = ctypes.c_char_p
        self.library.convoy_plan_workspace_bytes.restype = ctypes.c_size_t

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.convoy_error().decode())

    def problem(self, text):
        handle = ctypes.c_void_p()
        self.check(self.library.convoy_problem_create(text.encode(), ctypes.byref(handle)))
        return handle

    def text(self, problem):
        return self.library.convoy_problem_text(problem).decode()

    def plan(self, problem, candidate, device):
        options, handle = Options(size=ctypes.sizeof(Options), workspace_limit=-1, device=device.encode()), ctypes.c_void_p()
        self.check(self.library.convoy_plan_create(problem, candidate.encode(), ctypes.byref(options), None, ctypes.byref(handle)))
        return handle

    def workspace_bytes(self, plan):
        return self.library.convoy_plan_workspace_bytes(plan)

    def execute(self, plan, arguments):
        arguments.size = ctypes.sizeof(Arguments)
        self.check(self.library.convoy_plan_execute(plan, ctypes.byref(arguments)))

    def destroy(self, problem, plans=()):
        for plan in plans:
            self.library.convoy_plan_destroy(plan)
        self.library.convoy_problem_destroy(problem)
