"""Perceptrons of torch modules in float64."""

import torch


def torch_module(network, flat):
    """The same network of torch modules, float64, and their parameters in the order of the flat vector."""
    linears, norms, modules = [], [], []
    for layer in network.layers(flat):
        match layer.kind:
            case "linear":
                module = torch.nn.Linear(*layer.weight.shape, dtype=torch.float64)
                module.weight.data, module.bias.data = torch.tensor(layer.weight.T.copy()), torch.tensor(layer.bias)
                linears.append(module)
            case "layer_norm":
                module = torch.nn.LayerNorm(len(layer.gain), dtype=torch.float64)
                module.weight.data, module.bias.data = torch.tensor(layer.gain), torch.tensor(layer.shift)
                norms.append(module)
            case "tanh":
                module = torch.nn.Tanh()
            case "relu":
                module = torch.nn.ReLU()
        modules.append(module)
    return torch.nn.Sequential(*modules), [*linears, *norms]


def expected(network, flat, inputs, grad_output):
    """Outputs and flat gradient."""
    reference, modules = torch_module(network, flat)
    outputs = reference(torch.tensor(inputs))
    outputs.backward(torch.tensor(grad_output))
    gradient = [part for one in modules for part in (one.weight.grad.t().reshape(-1), one.bias.grad)]
    return outputs.detach().numpy(), torch.cat(gradient).numpy()
