"""What a view contains, read once for every attack: updates, row spaces, secure sums, rings, own rows, candidates."""
