"""What a person reads or looks at: tables, topics, yardsticks and pictures."""

from .images import dictionary_grid, image_grid, reconstruction_grid, save_png, square_shape
from .text import (
    match_topics,
    paragraph,
    predictive_perplexity,
    split_words,
    table,
    top_words,
    topics_table,
    unigram_perplexity,
)

__all__ = [
    "dictionary_grid", "image_grid", "match_topics", "paragraph", "predictive_perplexity", "reconstruction_grid",
    "save_png", "split_words", "square_shape", "table", "top_words", "topics_table", "unigram_perplexity",
]  # fmt: skip
