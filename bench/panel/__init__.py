"""The panel: corpora and tables on which each mechanism and default is judged beside rivals of a few lines."""
