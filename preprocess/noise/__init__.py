"""Statistics with noise: what a party adds to counts, sums, extremes and tables before they leave.

Read bottom-up: `integers` (unbiased whole numbers from a party's key stream), `discrete` (exact samples of discrete
Laplace and Gaussian noise), `calibration` (how much noise a budget takes), `ranks` (extremes and quantiles by the
exponential mechanism), `columns` and `categories` (what protocols release, and what everyone knows about it).

The unit is a record: neighbours differ by one row of one party that is there or not. Ranges and lists of values are
declared, never taken from rows; a number beyond its range is moved to the end of it. All noise is added to whole
numbers of steps, so that no last bit of a float tells what was under it (Mironov 2012), and sums are exact, so that
sensitivities are what they are said to be (Casacuberta et al. 2022).
"""
