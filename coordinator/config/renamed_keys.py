"""Keys of earlier versions and their new names."""

_ALGORITHM = {
    "adam_epsilon": "adam_eps",
    "ahead": "n_step",
    "batch": "batch_size",
    "chunk": "data_chunk_length",
    "clip": "clip_coef",
    "embed": "mixing_embed_dim",
    "entropy": "ent_coef",
    "huber": "huber_delta",
    "hyper": "hypernet_embed",
    "minibatches": "num_minibatches",
    "norm_cap": "max_grad_norm",
    "replay": "buffer_size",
    "standardise": "standardise_rewards",
    "stretch": "sequence_length",
    "target_every": "target_update_interval",
    "target_rate": "tau",
    "updates": "updates_per_round",
}

RENAMED = {
    **{f"algorithm.{old}": f"algorithm.{new}" for old, new in _ALGORITHM.items()},
    "actors.copies": "actors.num_envs",
    "actors.steps": "actors.rollout_length",
    "placement.carry": "placement.inline_objects",
    "placement.units_per_invocation": "placement.rollouts_per_invocation",
    "scaling.least": "scaling.min_rollouts",
    "scaling.units": "scaling.rollouts",
}
