"""What a program of programs.py is: step() is one of training, or a forward pass."""
import torch
from torch.nn import functional


class Training:
    """A model, its optimizer and `loss_of(model)`; step() is one of training."""

    def __init__(self, model, loss_of, precision, layout, device):
        self.model = model.to(device)
        if layout is not None:
            self.model = self.model.to(memory_format=layout)
        self.model.train()
        self.loss_of, self.precision, self.device = loss_of, precision, device
        self.optimizer = torch.optim.SGD((p for p in self.model.parameters() if p.requires_grad), lr=1e-3, momentum=0.9)

    def step(self, captured=False):
        self.optimizer.zero_grad(set_to_none=True)
        # Casts that autocast keeps would belong to the captured step.
        with torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16", cache_enabled=not captured):
            loss = self.loss_of(self.model)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Inference:
    """A model in 16 bits and its input; step() is one forward pass."""

    def __init__(self, model, batch, layout, device, type_=torch.bfloat16):
        self.model, self.batch = model.to(device, type_).eval(), batch.to(device, type_)
        if layout is not None:
            self.model, self.batch = self.model.to(memory_format=layout), self.batch.to(memory_format=layout)

    def step(self, captured=False):
        with torch.no_grad():
            return self.model(self.batch).float().mean()


def classification(make, shape, classes, precision, device, layout=None, arguments=()):
    """Training of a torchvision network on random pictures."""
    batch = torch.randn(*shape, device=device)
    if layout is not None:
        batch = batch.to(memory_format=layout)
    labels = torch.randint(classes, (shape[0],), device=device)
    return Training(make(*arguments), lambda model: functional.cross_entropy(model(batch).float(), labels), precision, layout, device)
