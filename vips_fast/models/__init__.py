"""The models, each in its own folder. A folder has the estimator, the model, and the papers' variants."""
