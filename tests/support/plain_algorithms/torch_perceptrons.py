"""Perceptrons of torch modules in float64."""

import torch


def torch_module(network, flat):
    linears, norms, modules, parameters = [], [], [], []
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
            case "entity_attention":
                module = Attention(layer)
                parameters += [module.of[name] for name in vars(layer)]
        modules.append(module)
    modules += [Scores(modules[0])] * (network.outputs != network.sizes[-1])
    for module in (*linears, *norms):
        parameters += [module.weight, module.bias]
    return torch.nn.Sequential(*modules), parameters


class Attention(torch.nn.Module):
    """Attention over entities, by torch's own attention."""

    def __init__(self, layer):
        super().__init__()
        self.entities = layer.entities
        self.of = torch.nn.ParameterDict({name: torch.tensor(array) for name, array in vars(layer).items()})

    def forward(self, rows):
        of, width = self.of, self.of["out"].shape[0]
        tokens, absent = [rows[:, None, list(self.entities.own)] @ of["agent"] + of["agent_bias"]], [False]
        start = 0
        for index, block in enumerate(self.entities.blocks):
            weights = of["blocks"][start : start + block.features]
            start += block.features
            for columns in block.columns:
                numbers = rows[:, list(columns)]
                tokens.append((numbers @ weights + of["block_bias"][index])[:, None])
                gone = (numbers == torch.tensor(block.absent)).all(dim=1) if block.absent else False
                absent.append(gone)
        absent = torch.stack([torch.as_tensor(gone).expand(len(rows)) for gone in absent], dim=1)
        tokens = torch.cat(tokens, dim=1).relu()
        normed = torch.nn.functional.layer_norm(tokens, (width,), of["gain"], of["shift"])
        changed, _ = torch.nn.functional.multi_head_attention_forward(
            *[normed.transpose(0, 1)] * 3, width, 2, of["qkv"].T, None, None, None, False, 0.0, of["out"].T,
            of["out_bias"], key_padding_mask=absent,
        )  # fmt: skip
        self.results = tokens + changed.transpose(0, 1)
        tokens = self.results * ~absent[..., None]
        return torch.cat([tokens[:, 0], tokens.sum(dim=1) / (~absent).sum(dim=1, keepdim=True)], dim=1)


class Scores(torch.nn.Module):
    """Scores of the entities that actions name, behind the scores of moves."""

    def __init__(self, attention):
        super().__init__()
        self.attention = [attention]  # not one of its modules

    def forward(self, rows):
        entities, results = self.attention[0].entities, self.attention[0].results
        tokens, width = results[:, -len(entities.named_block.columns) :], results.shape[2]
        scores = torch.einsum("rnw,rw->rn", tokens, rows[:, -width:]) / width**0.5
        return torch.cat([rows[:, : -width - 1], scores + rows[:, -width - 1 : -width]], dim=1)


def expected(network, flat, inputs, grad_output):
    reference, parameters = torch_module(network, flat)
    outputs = reference(torch.tensor(inputs))
    outputs.backward(torch.tensor(grad_output))
    transposed = {id(module.weight) for module in reference if isinstance(module, torch.nn.Linear)}
    gradients = [part.grad.t() if id(part) in transposed else part.grad for part in parameters if part.numel()]
    return outputs.detach().numpy(), torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy()
