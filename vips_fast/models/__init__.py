"""The models, each in a folder of its own: estimator, model, and the papers' variants."""
