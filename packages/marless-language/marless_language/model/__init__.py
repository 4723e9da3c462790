"""Language models in torch: loading, adapting, sampling, pretraining."""
