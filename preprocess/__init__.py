"""What the parties of a federation do: data, protocols, training, and the ledger of everything they tell each other."""
