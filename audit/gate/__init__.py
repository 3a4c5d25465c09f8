"""The gate: may this change go through? Policy, baseline and waivers in, one verdict with an exit code out.

`decide` is the main path. `snapshot` takes from a record what is compared, `baseline` keeps it in a file, `leakage`,
`utility` and `findings` make the checks, `differences` has their statistics; ceilings are `audit.verdicts`'.
"""
