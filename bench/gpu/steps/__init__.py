"""The steps of scripts/gpu-check, in order: units() is a list that doesn't change, run(unit) what is kept of it, summary(rows) what is recorded."""
from steps import beside, checked, choice_cost, commands, depthwise, generations, network_checks, network_interfaces, network_losses, network_models, network_plans, network_precision, networks, pytorch, pytorch_guest, pytorch_hook, pytorch_networks, pytorch_people, pytorch_untried, sm_count, unit_tests

STEPS = {"tests": unit_tests.Tests, "table": beside.Table, "torch": beside.Torch, "depthwise": depthwise.Depthwise,
         "depthwise-small": depthwise.DepthwiseSmall, "depthwise-cold": depthwise.DepthwiseCold, "candidates": checked.Candidates,
         "large-3d": checked.Large3d, "repeatability": checked.Repeatability, "jit-only": beside.JitOnly, "carveout": beside.Carveout,
         "sm-count": sm_count.SmCount, "api-generations": generations.ApiGenerations, "commands": commands.Commands, "choice-cost": choice_cost.ChoiceCost,
         "pytorch-layer": pytorch.Layer, "pytorch-networks": pytorch_networks.Networks, "pytorch-tests": pytorch.TorchTests,
         "pytorch-programs": pytorch.Programs, "python-tests": pytorch.PythonTests, "pytorch-depthwise": pytorch_networks.Depthwise,
         "pytorch-inference": pytorch_networks.Inference, "pytorch-eager": pytorch_networks.Eager, "pytorch-host-time": pytorch.HostTime, "pytorch-first": pytorch_networks.First,
         "pytorch-page": pytorch.Page, "pytorch-people": pytorch_people.People, "pytorch-untried": pytorch_untried.Untried,
         "pytorch-guest": pytorch_guest.Guest, "pytorch-jax": pytorch_guest.Jax, "pytorch-compiled": pytorch_guest.Compiled,
         "pytorch-hook": pytorch_hook.Hook, "pytorch-where": pytorch_hook.Where, "pytorch-replayed": pytorch_hook.Replayed, "pytorch-causal": pytorch_hook.Causal,
         "network-interfaces": network_interfaces.Interfaces, "network-memory": network_interfaces.Memory, "network-compiles": networks.Compiled, "networks": networks.Networks, "networks-autotuned": networks.Autotuned, "networks-volumes": networks.Volumes,
         "network-models": network_models.Models, "network-exports": network_models.Exports, "network-conformance": network_checks.Conformance, "network-random": network_checks.Random, "network-volume": network_checks.Volume,
         "network-losses": network_losses.Losses, "network-plans": network_plans.Plans, "network-precision": network_precision.Precision, "network-sanitized": network_checks.Sanitized, "network-start": network_checks.Start,
         "depthwise-random": unit_tests.DepthwiseRandom, "product-random": unit_tests.ProductRandom, "knobs": checked.Knobs,
         "random": checked.Random}
