"""Word vectors from character n-grams, as fastText has them: hashing, a seeded model, and a reader of model files."""
