"""Networks: an ONNX model, prepared for the sizes of its inputs and run."""
from __future__ import annotations

import collections
import concurrent.futures
import ctypes
import dataclasses
import html
import os
import threading
from ctypes import byref, c_int64, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy

from convoy import _arrays, _c, _options
from convoy._arrays import sizes
from convoy._errors import InvalidArgument, WrongType
from convoy._network_plan import NetworkPlan
from convoy._options import Database, Engines, Rules
from convoy._progress import Progress, Told
from convoy._session import Session, Step, as_pointers, as_shapes

Shapes = Union[Mapping[str, Sequence[int]], Sequence[Sequence[int]], None]


@dataclasses.dataclass(frozen=True)
class Value:
    """An input or output as the model declares it."""

    name: str
    type: str  # "f32"
    dims: Optional[Tuple[int, ...]]  # -1: free; None: the model does not say how many there are
    dim_names: Tuple[str, ...]  # a free size's name, "batch", or ""
    proposed_dims: Optional[Tuple[int, ...]]  # dims, with sizes for the free ones where the model proposes some


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """What the model's file says of itself, as ONNX's ModelProto has it; "" and 0 where it says nothing."""

    producer_name: str
    producer_version: str
    domain: str
    description: str
    graph_name: str
    graph_description: str
    version: int
    metadata: Dict[str, str]


class _Preparing(concurrent.futures.Future):  # type: ignore[type-arg]
    """A session, once it is prepared. In a forked process nobody prepares what its parent had begun."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()
        self.session: Optional[Session] = None  # once it is there; asking a future takes longer

    def lost(self) -> bool:
        return not self.done() and self._process != os.getpid()


def _declared(value: Value) -> str:
    """1x3xHxW, "?" for a size without a name."""
    if value.dims is None:
        return "of any rank"
    return "x".join(str(size) if size >= 0 else name or "?" for size, name in zip(value.dims, value.dim_names)) or "scalar"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"


class _Model:
    """What a network's sessions read of it. They don't keep the network itself, which keeps them: what nobody uses any more lets its
    memory go at once."""

    def __init__(self, model: Union[str, bytes, "os.PathLike[str]"], external_data: Optional[str], device: object) -> None:
        library = _c.library
        if isinstance(model, (bytes, bytearray, memoryview)):
            data = bytes(model)
            create: Tuple[Any, ...] = (library.convoy_network_parse, data, len(data), _c.encoded(external_data, "external_data"))
        elif isinstance(model, (str, os.PathLike)):
            if external_data is not None:
                raise InvalidArgument("external_data is given, and model is a path: its data is looked for beside it")
            create = (library.convoy_network_load, os.fsencode(model))
        else:
            raise WrongType(f"model is of type {type(model).__name__}, neither a path nor bytes")
        self.handle = _c.handle(self, library.convoy_network_destroy, *create)
        self.name = f"of {len(data)} bytes" if isinstance(model, (bytes, bytearray, memoryview)) else repr(os.fspath(model))
        name = _options.device_text(device)
        self.device = "cuda:0" if name == "cuda" else name
        self.inputs = self._values(library.convoy_network_inputs, library.convoy_network_input)
        self.outputs = self._values(library.convoy_network_outputs, library.convoy_network_output)

    def _values(self, count: Any, describe: Any) -> Tuple[Value, ...]:
        found = []
        for index in range(count(self.handle)):
            v = _c.sized(_c.Value)
            _c.call(describe, self.handle, index, byref(v))
            known = v.rank >= 0
            rank = max(v.rank, 0)
            found.append(Value(v.name.decode(), v.type.decode(), tuple(v.dims[:rank]) if known else None,
                               tuple(name.decode() for name in v.dim_names[:rank]),
                               tuple(v.proposed_dims[:rank]) if known else None))
        return tuple(found)

    def stream(self, inputs: Mapping[str, Any], stream: Any) -> Optional[int]:
        """Where a run on inputs that lie on the GPU is enqueued."""
        if stream is not None:
            if self.device == "cpu":
                raise InvalidArgument("stream is given, and the network runs on cpu")
            return _arrays.stream_address(stream)
        if self.device == "cpu" or not isinstance(inputs, Mapping):
            return None
        there = {name: value for name, value in inputs.items()
                 if not isinstance(value, numpy.ndarray) and not (_arrays.is_torch(value) and value.device.type == "cpu")}
        return _arrays.current_stream(there, int(self.device.rpartition(":")[2]))

    def checked(self, inputs: Mapping[str, Any], stream: Optional[int] = None) -> List[_arrays.Array]:
        """The inputs' memory, in the model's order; all of it on one device."""
        if not isinstance(inputs, Mapping):
            raise WrongType(f"inputs is of type {type(inputs).__name__}, not a mapping from names to arrays")
        names = [value.name for value in self.inputs]
        for name in inputs:
            if name not in names:
                raise InvalidArgument(f"input {name!r} is given, the model's are {', '.join(map(repr, names))}")
        arrays: List[_arrays.Array] = []
        for value in self.inputs:
            argument = f"input {value.name!r}"
            if value.name not in inputs:
                raise InvalidArgument(f"{argument} is missing")
            found = _arrays.array(argument, inputs[value.name], stream)
            if found.type != value.type:
                raise WrongType(f"{argument} has elements of type {found.type}, the model takes {value.type}")
            if found.device != "cpu" and not _arrays.is_on(found.device, self.device):
                raise InvalidArgument(f"{argument} is on {found.device}, the network runs on {self.device}")
            if arrays and (arrays[0].device == "cpu") != (found.device == "cpu"):
                raise InvalidArgument(f"{argument} is on {found.device}, input {self.inputs[0].name!r} on {arrays[0].device}: "
                                      "inputs are all on the processor or all on the GPU")
            _arrays.check_row_major(argument, found)
            if value.dims is not None:
                free = all(want in (-1, have) for want, have in zip(value.dims, found.dims))
                if len(found.dims) != len(value.dims) or not free:
                    wanted = "x".join("?" if size < 0 else str(size) for size in value.dims)
                    raise InvalidArgument(f"{argument} has the sizes {sizes(found.dims)}, the model takes {wanted}")
            arrays.append(found)
        return arrays


class Network:
    """An ONNX model: a path, "zoo:NAME", or its bytes. `run` prepares it for the sizes that it gets, once for each.

    rules, engines, deterministic, workspace_limit, fallback, threads
                as for Problem.select
    math        precision that convolutions may give up: "strict" (none), "tf32", "reduced"
    budget      seconds to measure in, each time it is prepared; 0: nothing is measured
    database    of what was measured; True: the command's, False: none, or a file
    how         how nodes get their layouts: "tuned", by the plan that `convoy tune MODEL` kept beside the database, else
                "greedy"; "global", "local" or one layout, "uniform:nhwc". None: "tuned", but "greedy" with a budget or
                with what restricts engines
    plan        text of a plan file (`plan()` makes one), obeyed in place of choosing; with lenient_plan what does not fit
                is chosen again, and the session's warnings say so, else it is an error that names the line
    precision   what nodes of f32 run in instead, wherever an engine can: "bf16", "f16", or "tf32", as math="tf32"; None: f32
    activation_limit, weight_limit, objective
                with how="global": bytes that activations may take at once; bytes of weights, packed for their engines, and
                other constants; "memory": as few bytes of activations as possible, and then the least time, "energy", or
                weights, "time=1,memory=0.5". Session.memory says what they take
    batch_parts how a batch is run: "whole"; "4": in parts of four images, one after another; "1/thread": side by side, each
                on one thread. None: as the plan that is obeyed says, else what is predicted to take least.
                Session.batch_parts says which
    device      "cpu", or the GPU that it runs on: "cuda", "cuda:1" (docs/gpu-networks.md)
    graphs, synchronous
                on a GPU: steps in a row are captured as CUDA graphs; each step is waited for, so that an error names it
    device_memory_limit
                on a GPU: bytes there that a session may take, of all its runs at once
    sessions    for how many combinations of sizes it stays prepared

    Any number of threads may use it at once.
    """

    def __init__(self, model: Union[str, bytes, "os.PathLike[str]"], *, external_data: Optional[str] = None,
                 rules: Rules = None, engines: Engines = None, deterministic: bool = False,
                 workspace_limit: Optional[int] = None, fallback: bool = False, threads: int = 0, math: Optional[str] = None,
                 budget: float = 0.0, database: Database = True, how: Optional[str] = None, plan: Optional[str] = None,
                 lenient_plan: bool = False, precision: Optional[str] = None, activation_limit: Optional[int] = None,
                 weight_limit: Optional[int] = None, objective: Optional[str] = None, batch_parts: Optional[str] = None,
                 device: object = "cpu", graphs: bool = True, synchronous: bool = False,
                 device_memory_limit: Optional[int] = None, sessions: int = 4) -> None:
        self._model = _Model(model, external_data, device)
        if sessions < 1:
            raise InvalidArgument(f"sessions={sessions} is not positive")
        self._options = _options.make(rules=rules, engines=engines, deterministic=deterministic,
                                      workspace_limit=workspace_limit, fallback=fallback, threads=threads, budget=budget,
                                      database=database, math=math, how=how, plan=plan, lenient_plan=lenient_plan,
                                      precision=precision, activation_limit=activation_limit, weight_limit=weight_limit,
                                      objective=objective, batch_parts=batch_parts, device=device, graphs=graphs,
                                      synchronous=synchronous, device_memory_limit=device_memory_limit)
        self.device, self.inputs, self.outputs = self._model.device, self._model.inputs, self._model.outputs
        # Of each input: its name, and NumPy's dtype where it has one that is used as it is.
        self._plain = [(value.name, None if value.type in ("s4", "s2") else _arrays.OWN_TYPES.get(value.type))
                       for value in self.inputs]
        self._most = sessions
        self._sessions: "collections.OrderedDict[Any, _Preparing]" = collections.OrderedDict()
        self._lock = threading.Lock()

    @property
    def info(self) -> ModelInfo:
        """What the model's file says of itself."""
        told = _c.sized(_c.ModelInfo)
        _c.call(_c.library.convoy_network_info, self._model.handle, byref(told))
        keys, values = (texts[: told.metadata] for texts in (told.metadata_keys, told.metadata_values))
        metadata = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in zip(keys, values)}
        producer, producer_version, domain, description, graph, graph_description = (
            text.decode(errors="replace") for text in (told.producer_name, told.producer_version, told.domain, told.description,
                                                       told.graph_name, told.graph_description))
        return ModelInfo(producer, producer_version, domain, description, graph, graph_description, told.version, metadata)

    def __repr__(self) -> str:
        given = ", ".join(f"{value.name}: {value.type} {_declared(value)}" for value in self.inputs)
        found = ", ".join(f"{value.name}: {value.type} {_declared(value)}" for value in self.outputs)
        return f"<convoy.Network {self._model.name}: {given} -> {found}>"

    def _repr_html_(self) -> str:
        """In a notebook: inputs and outputs, and the steps of the session that was used last."""
        rows = [(kind, value.name, value.type, _declared(value)) for kind, values in
                (("input", self.inputs), ("output", self.outputs)) for value in values]
        parts = [_table(("", "name", "type", "sizes"), rows)]
        if self._sessions:
            parts.append(_table(("step", "nodes", "engine", "output", "us"),
                                [(step.kind, step.nodes, step.engine, step.output_shape, f"{step.seconds * 1e6:.1f}")
                                 for step in self.steps()]))
        return f"<b>convoy.Network {html.escape(self._model.name)}</b>" + "".join(parts)

    def prepare(self, shapes: Shapes = None) -> Session:
        """Ready for sizes of the inputs, by name or in their order; None: what the model proposes."""
        return self._session(self._sizes(shapes))

    def plan(self, shapes: Shapes = None, *, inputs: Optional[Mapping[str, Any]] = None, max_error: Optional[float] = None) -> NetworkPlan:
        """What preparing it for these sizes decides, as a plan file's text (docs/plans.md), whose `steps` are its lines as values.

        With `max_error`, of a network with precision="bf16", "f16" or "tf32": as much of it in that type as leaves its outputs on `inputs`
        within that share of those in f32 (docs/plans.md, narrower types). The sizes are those of `inputs`.
        """
        found: List[str] = []

        def keep(_user: Any, text: Any, size: int) -> None:
            found.append(ctypes.string_at(text, size).decode())

        if (inputs is None) != (max_error is None):
            raise TypeError("plan() takes inputs and max_error together")
        if inputs is not None:
            arrays = self._model.checked(inputs)
            given, count = as_shapes([each.dims for each in arrays])
            _c.call(_c.library.convoy_network_plan_within, self._model.handle, given, count, as_pointers([each.pointer for each in arrays]),
                    len(arrays), max_error, byref(self._options), _c.TextCallback(keep), None)
            return NetworkPlan(found[0])
        dims = self._sizes(shapes)
        given, count = as_shapes(None if dims is None else list(dims))
        _c.call(_c.library.convoy_network_plan, self._model.handle, given, count, byref(self._options), _c.TextCallback(keep), None)
        return NetworkPlan(found[0])

    def tune(self, inputs: Mapping[str, Any], *, budget: float = 60.0, again: bool = False,
             progress: Progress = None) -> None:
        """Measures for `budget` seconds (0: no limit) what makes it fast for inputs of these sizes, run on these, and keeps it.

        Times go to the database, the fastest plan beside it: this network, others of the same model and `convoy run` obey
        it from then on. What is known is not measured again, but for `again`. `progress` gets the fraction of the time and
        what is being done; it, or Ctrl-C, ends it by an exception, and what was measured until then is kept.
        """
        arrays = self._model.checked(inputs)
        shapes, count = as_shapes([found.dims for found in arrays])
        options = _c.Options.from_buffer_copy(self._options)
        options.budget_seconds = _options.seconds("budget", budget)
        try:
            with Told(progress) as told:
                _c.call(_c.library.convoy_network_tune, self._model.handle, shapes, count,
                        as_pointers([found.pointer for found in arrays]), len(arrays), byref(options), bool(again),
                        told.callback, None)
        finally:
            with self._lock:
                self._sessions.clear()

    def _sizes(self, shapes: Shapes) -> Optional[Tuple[Tuple[int, ...], ...]]:
        """Of the inputs, in their order."""
        if shapes is None:
            return None
        if isinstance(shapes, Mapping):
            names = [value.name for value in self.inputs]
            for name in shapes:
                if name not in names:
                    raise InvalidArgument(f"shapes: {name!r} is no input, the model's are {', '.join(map(repr, names))}")
            missing = [name for name in names if name not in shapes]
            if missing:
                raise InvalidArgument(f"shapes: {missing[0]!r} is missing")
            shapes = [shapes[name] for name in names]
        return tuple(tuple(int(size) for size in dims) for dims in shapes)

    def _session(self, shapes: Optional[Tuple[Tuple[int, ...], ...]]) -> Session:
        """Prepared once, whoever asks for it; meanwhile others find theirs."""
        while True:
            with self._lock:
                found = self._sessions.get(shapes)
                if found is None or found.lost():
                    made = found = self._sessions[shapes] = _Preparing()
                else:
                    made = None
                self._sessions.move_to_end(shapes)
            if made is not None:
                self._prepare(shapes, made)
            try:
                return found.result()  # type: ignore[no-any-return]
            except concurrent.futures.CancelledError:
                continue  # who prepared it was interrupted

    def _prepare(self, shapes: Optional[Tuple[Tuple[int, ...], ...]], made: _Preparing) -> None:
        try:
            made.session = Session(self._model, None if shapes is None else list(shapes), self._options)
            made.set_result(made.session)
        except BaseException as error:
            with self._lock:
                if self._sessions.get(shapes) is made:
                    del self._sessions[shapes]
            if not isinstance(error, Exception):
                made.cancel()
                raise
            made.set_exception(error)
            return
        with self._lock:
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)

    def run(self, inputs: Mapping[str, Any], *, out: Optional[Mapping[str, Any]] = None, stream: Any = None) -> Dict[str, Any]:
        """The outputs, by name, for inputs by name: NumPy's, for inputs on the processor.

        With device="cuda" the inputs may lie on that GPU, all of them: PyTorch's tensors, or arrays with DLPack or CUDA's
        array interface, aligned to 256 bytes. The run is then enqueued on `stream` (an address, or a stream of PyTorch or
        CuPy; None: the current one of the inputs' library) and not waited for. Its outputs lie there, too: in `out`, an array
        for each name, or new ones where the first input is PyTorch's or CuPy's. While the stream is captured
        (torch.cuda.graph), the run goes into that graph.
        """
        if out is None and stream is None:
            found = self._run_ready(inputs)
            if found is not None:
                return found
        address = self._model.stream(inputs, stream)
        arrays = self._model.checked(inputs, address)
        session = self._session(tuple(found.dims for found in arrays))
        return session._run_on(inputs, arrays, out, address)

    def _run_ready(self, inputs: Mapping[str, Any]) -> Optional[Dict[str, numpy.ndarray]]:
        """The outputs, where a session is there for the inputs and nothing can be wrong with them: NumPy's row-major arrays of its
        sizes and types. To look at all that could be wrong takes longer than some networks."""
        if type(inputs) is not dict or len(inputs) != len(self._plain):
            return None
        given = []
        for name, dtype in self._plain:
            value = inputs.get(name)
            if dtype is None or type(value) is not numpy.ndarray or value.dtype != dtype or not value.flags.c_contiguous:
                return None
            given.append(value)
        shapes = tuple([value.shape for value in given])
        with self._lock:
            found = self._sessions.get(shapes)
            if found is None or found.session is None:
                return None
            self._sessions.move_to_end(shapes)
        return found.session._run([_arrays.address(value) for value in given])

    def steps(self, shapes: Shapes = None) -> List[Step]:
        """Of the session that was used last; of `shapes` where they are given."""
        with self._lock:
            last = next(reversed(self._sessions.values()), None) if shapes is None else None
        if last is not None and not last.lost():
            return last.result().steps()  # type: ignore[no-any-return]
        return self.prepare(shapes).steps()
