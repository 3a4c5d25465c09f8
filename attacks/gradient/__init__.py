"""Attacks on what clients send in training, one file or folder per technique; they share `exact`, `all_layers`
and `matching`.

From a view to a claim, in this order, and no file twice:

1. `portfolio/portfolio.py`, from `run` downwards, or for a single technique `inversion.py`: the whole way in few lines.
2. `observed/updates.py`, then `observed/gradients.py` or `observed/trainings.py`: messages are read, and each becomes
   an `ObservedUpdate` (`observed/update.py`). Labels, precision, noise and network are all in it; the view is not
   needed any more but for public facts about candidates.
3. `candidates/restated.py`: the update in the columns and codes that candidates leave open.
4. `portfolio/exact.py`: rows that explain the update, by `linear_layer.py`, `span/span.py`, `atoms/atoms.py` and
   `spear/spear.py`. Each has `invert(update, knowledge)`, which names its steps in order; what they share is in
   `exact` and `all_layers`, and ends in the `certificate.py` of either and in `exact/claim.py`.
5. `portfolio/remainder.py`: the update without the proven rows.
6. `tableak/tableak.py` for what is left of a gradient, `tableak_fedavg/tableak_fedavg.py` for local training, and
   `posterior/posterior.py` from where these end; under a defense whose likelihood is known, `posterior` in their place.
   Where there is none, a whole batch is held against all layers (`all_layers/whole.py`), and its rows lead `atoms` on.
7. `portfolio/claims.py`: which rows are certain and what solves a batch; proven and guessed rows in one claim.
"""
