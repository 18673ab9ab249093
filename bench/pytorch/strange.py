"""What programs do besides: threads, captured graphs, JAX. Each prints a line of JSON and ends; nothing of Convoy is in here.

    strange.py threads|graph|overlap|streams|checkpointing|workers|jax [--contiguous]
    torchrun --nproc-per-node 2 strange.py ranks|sharded
"""
import json
import os
import sys
import threading

sums = {}


def convolve(seed, rounds=20):
    import torch
    numbers = torch.Generator().manual_seed(seed)  # of this thread alone

    def random(*sizes):
        made = torch.randn(*sizes, generator=numbers).to("cuda", torch.bfloat16)
        return made.to(memory_format=torch.channels_last).requires_grad_()

    with torch.cuda.stream(torch.cuda.Stream()):
        total = 0.0
        for round in range(rounds):
            c = 16 * (1 + (seed + round) % 4)
            x, f = random(4, c, 28, 28), random(c, c, 3, 3)
            torch.nn.functional.conv2d(x, f, padding=1).float().square().mean().backward()
            total += float(f.grad.float().abs().sum() + x.grad.float().abs().sum())
    sums[seed] = total


def threads():
    team = [threading.Thread(target=convolve, args=(seed,)) for seed in range(16)]
    for each in team:
        each.start()
    for each in team:
        each.join()
    return {"threads": len(sums), "finite": all(value == value and value < float("inf") for value in sums.values()), "sums": sums}


def graph():
    """A captured training step, replayed: the same result as without."""
    import torch
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(64, 32, 3, padding=1, groups=4))
    model = model.to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    x = torch.randn(8, 32, 56, 56, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).float().square().mean().backward()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    for parameter in model.parameters():
        parameter.grad = None
    with torch.cuda.graph(captured):
        loss = model(x).float().square().mean()
        loss.backward()
    answers = []
    for _ in range(3):
        captured.replay()
        torch.cuda.synchronize()
        answers.append(float(loss))
    plain = float(model(x).float().square().mean())
    return {"replays": answers, "plain": plain, "agree": all(abs(a - plain) <= 1e-2 * abs(plain) for a in answers)}


def overlap():
    """On every GPU depthwise layers, forward and backward, side by side on four streams of one captured graph: as one after another."""
    import torch

    def layers(device):
        torch.manual_seed(2)
        made = [torch.nn.Conv2d(96, 96, 7, padding=3, groups=96) for _ in range(4)]
        return [each.to(device, torch.bfloat16, memory_format=torch.channels_last) for each in made]

    def step(layer, x):
        x.grad = layer.weight.grad = layer.bias.grad = None
        layer(x).float().square().mean().backward()
        return x.grad, layer.weight.grad

    agree = []
    for device in range(torch.cuda.device_count()):
        with torch.cuda.device(device):
            made = layers(device)
            inputs = [torch.randn(16, 96, 56, 56, device=device, dtype=torch.bfloat16).to(memory_format=torch.channels_last).requires_grad_() for _ in made]
            plain = [[grad.clone() for grad in step(layer, x)] for _ in range(2) for layer, x in zip(made, inputs)][-len(made):]
            sides, captured, found = [torch.cuda.Stream() for _ in made], torch.cuda.CUDAGraph(), []
            torch.cuda.synchronize()
            with torch.cuda.graph(captured):
                origin = torch.cuda.current_stream()
                for side, layer, x in zip(sides, made, inputs):
                    side.wait_stream(origin)
                    with torch.cuda.stream(side):
                        found.append(step(layer, x))
                for side in sides:
                    origin.wait_stream(side)
            for _ in range(5):
                for grads in found:
                    for grad in grads:
                        grad.zero_()
                captured.replay()
                torch.cuda.synchronize()
                agree.append(all(torch.allclose(a, b, rtol=1e-2, atol=1e-6) for one, other in zip(found, plain) for a, b in zip(one, other)))
    return {"devices": torch.cuda.device_count(), "agree": agree}


def layers(width=64, groups=64):
    """A few layers with a depthwise one, in bf16 and channels_last."""
    import torch
    torch.manual_seed(3)
    made = torch.nn.Sequential(torch.nn.Conv2d(3, width, 3, padding=1), torch.nn.GELU(), torch.nn.Conv2d(width, width, 7, padding=3, groups=groups),
                               torch.nn.GELU(), torch.nn.Conv2d(width, 32, 3, padding=1))
    return made.to("cuda", torch.bfloat16, memory_format=layout())


def layout():
    """With --contiguous the depthwise convolution is one that PyTorch runs itself."""
    import torch
    return torch.contiguous_format if "--contiguous" in sys.argv else torch.channels_last


def pictures(seed, count=16, size=64):
    import torch
    numbers = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(count, 3, size, size, generator=numbers, device="cuda").to(torch.bfloat16, memory_format=layout())


def close(a, b):
    import torch
    return torch.allclose(a.float(), b.float(), rtol=2e-2, atol=1e-4)


def streams():
    """Tensors of one stream that convolutions of others read, kept by record_stream alone: as one after another. Their memory is wanted again at once."""
    import torch
    model = layers()
    with torch.no_grad():
        wanted = [model(pictures(seed)) for seed in range(12)]
        torch.cuda.synchronize()
        sides, found = [torch.cuda.Stream() for _ in range(3)], []
        for seed in range(12):
            x, side = pictures(seed), sides[seed % len(sides)]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(2_000_000)  # x is given back long before it is read
                found.append(model(x))
            x.record_stream(side)
            del x
        torch.cuda.synchronize()
    return {"agree": [close(a, b) for a, b in zip(found, wanted)]}


def checkpointing():
    """Gradients with activations kept and computed again, of both kinds of checkpoint."""
    import torch
    from torch.utils.checkpoint import checkpoint

    def gradients(call):
        model, x = layers(), pictures(1).requires_grad_()
        call(model, x).float().square().mean().backward()
        return [x.grad, *(parameter.grad for parameter in model.parameters())]

    kept = gradients(lambda model, x: model(x))
    agree = {}
    for reentrant in (False, True):
        again = gradients(lambda model, x: checkpoint(model, x, use_reentrant=reentrant))
        agree["reentrant" if reentrant else "not reentrant"] = all(close(a, b) for a, b in zip(again, kept))
    return {"agree": agree}


class Numbers:
    """A data set whose workers convolve on the processor, and say whether CUDA is initialised in them."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        import torch
        y = torch.nn.functional.conv2d(torch.full((1, 1, 4, 4), float(i)), torch.ones(1, 1, 3, 3))
        devices = [name for name in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{name}").startswith("/dev/nvidia")]
        return y.sum(), torch.cuda.is_initialized(), len(devices)


def workers():
    """DataLoader's workers, started from a process that has not used CUDA yet."""
    import torch
    answers = {}
    for start in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=start)
        rows = list(loader)
        answers[start] = {"sum": sum(float(row[0].sum()) for row in rows), "initialised": any(bool(row[1].any()) for row in rows),
                          "open_devices": sum(int(row[2].sum()) for row in rows)}
    return {**answers, "then": [layers()(pictures(1)).float().sum().item(), torch.cuda.is_initialized()]}


def in_ranks(wrap, steps=5):
    """Steps of training in this rank: the loss of each."""
    import torch
    model = wrap(layers().to(torch.float32, memory_format=torch.contiguous_format))  # FSDP takes no other
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(steps):
        loss = model(pictures(10 * step + int(os.environ["RANK"])).float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def rank(answers):
    """This rank's answers, of a process group over all GPUs: NCCL, where each rank has one."""
    import torch
    import torch.distributed as dist
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local % torch.cuda.device_count())
    dist.init_process_group("nccl" if torch.cuda.device_count() > 1 else "gloo")
    line = json.dumps({"rank": local, "devices": torch.cuda.device_count(), **answers()})
    sys.stdout.write(line + "\n")  # whole, also where output isn't held back: another rank writes, too
    sys.stdout.flush()
    dist.destroy_process_group()


def distributed(model):
    import torch
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])


def ranks():
    rank(lambda: {"losses": in_ranks(distributed)})


def sharded():
    """FSDP beside DDP: what each does is the same arithmetic."""
    def both():
        from torch.distributed.fsdp import fully_shard
        known, found = in_ranks(distributed), in_ranks(fully_shard)
        return {"losses": found, "agree": all(abs(a - b) <= 1e-2 * abs(b) for a, b in zip(found, known))}

    rank(both)


def jax():
    """A dense and a depthwise convolution in bf16 and their gradients: sums, and microseconds a step of each (the median of seven turns)."""
    import statistics
    import time

    import jax
    import jax.numpy as jnp
    answers = {"jax": jax.__version__, "platform": jax.devices()[0].platform}
    for name, groups, taps in (("dense", 1, 3), ("depthwise", 96, 7)):
        numbers = jax.random.split(jax.random.key(1))
        x = jax.random.normal(numbers[0], (64, 56, 56, 96), jnp.bfloat16)
        f = jax.random.normal(numbers[1], (taps, taps, 96 // groups, 96), jnp.bfloat16) / taps

        def loss(x, f, groups=groups):
            y = jax.lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
            return jnp.square(y.astype(jnp.float32)).mean()

        step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
        value, (dx, df) = jax.block_until_ready(step(x, f))
        times = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(20):
                result = step(x, f)
            jax.block_until_ready(result)
            times.append(1e6 * (time.perf_counter() - start) / 20)
        answers[name] = {"loss": float(value), "dx": float(jnp.abs(dx.astype(jnp.float32)).sum()), "df": float(jnp.abs(df.astype(jnp.float32)).sum()),
                         "microseconds": statistics.median(times)}
    return answers


if __name__ == "__main__":
    answer = {each.__name__: each for each in (threads, graph, overlap, streams, checkpointing, workers, ranks, sharded, jax)}[sys.argv[1]]()
    if answer is not None:
        print(json.dumps(answer), flush=True)
