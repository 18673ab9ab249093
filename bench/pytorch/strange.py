"""What programs do besides: threads, captured graphs, JAX. Each prints a line of JSON and ends; nothing of Convoy is in here.

    strange.py threads|graph|overlap|jax
    torchrun --nproc-per-node 2 strange.py ranks
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


def ranks():
    import torch
    import torch.distributed as dist
    local = int(os.environ["LOCAL_RANK"])
    device = local % torch.cuda.device_count()
    torch.cuda.set_device(device)
    several = torch.cuda.device_count() > 1
    dist.init_process_group("nccl" if several else "gloo")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(local)
    for _ in range(5):
        loss = model(torch.randn(8, 3, 64, 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(json.dumps({"rank": local, "devices": torch.cuda.device_count(), "loss": float(loss)}), flush=True)
    dist.destroy_process_group()


def jax():
    import jax
    import jax.numpy as jnp
    x, f = jnp.ones((8, 28, 28, 32), jnp.bfloat16), jnp.ones((3, 3, 32, 32), jnp.bfloat16)
    y = jax.jit(lambda x, f: jax.lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))(x, f)
    return {"jax": jax.__version__, "platform": jax.devices()[0].platform, "sum": float(y.astype(jnp.float32).sum())}


if __name__ == "__main__":
    answer = {"threads": threads, "graph": graph, "overlap": overlap, "ranks": ranks, "jax": jax}[sys.argv[1]]()
    if answer is not None:
        print(json.dumps(answer), flush=True)
