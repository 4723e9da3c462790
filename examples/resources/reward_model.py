"""`simple_spread` with a reward model as the only pay: the probability that a good team would act so.

The model is the policy of a run that was exported as ONNX, run by ONNX Runtime in the process of the resource.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
from mpe2 import simple_spread_v3
from pettingzoo.utils import BaseParallelWrapper

from marless.functions.encoding import from_json, to_json

MODEL = Path("exports/teacher-onnx")


def score(question: bytes) -> bytes:
    """The log-probabilities of actions, by agent, from ``{agent: [observation, action]}``."""
    acts = from_json(question, dict[str, tuple[list[float], int]])
    return to_json({agent: log_probability(agent, *act) for agent, act in acts.items()})


def log_probability(agent: str, observation: list[float], action: int) -> float:
    (logits,) = network(agent).run(["outputs"], {"observation": np.array([observation], np.float32)})
    (row,) = logits - logits.max()
    return float(row[action] - np.log(np.exp(row).sum()))


@cache
def network(agent: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    file = json.loads((MODEL / "policies.json").read_bytes())["agents"][agent]["file"]
    return onnxruntime.InferenceSession(MODEL / file, options, providers=["CPUExecutionProvider"])


class Scored(BaseParallelWrapper):
    def __init__(self, resources):
        super().__init__(simple_spread_v3.parallel_env())
        self.resources = resources

    def reset(self, seed=None, options=None):
        self.true_return = 0.0
        self.observations, infos = super().reset(seed=seed, options=options)
        return self.observations, infos

    def step(self, actions):
        question = {agent: [self.observations[agent].tolist(), int(action)] for agent, action in actions.items()}
        (answer,) = self.resources.call("teacher", [to_json(question)])
        self.observations, rewards, *rest = super().step(actions)
        self.true_return += sum(rewards.values())
        return self.observations, from_json(answer, dict[str, float]), *rest

    def episode_metrics(self):
        return {"true_return": self.true_return}


def make(resources):
    return Scored(resources)
