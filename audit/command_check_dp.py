"""The command that checks a claim of differential privacy against its settings."""

import json
from pathlib import Path

import click

from leakledger.audit.command import reports_problems
from leakledger.audit.terminal import echo


@click.command(name="check-dp")
@click.argument("settings", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option(
    "--format", "form", metavar="NAME", help="Whose settings these are [default: what the file says, or plain]."
)
@click.option("--epsilon", type=float, help="The claim: epsilon over all rounds.")
@click.option("--delta", type=float, help="The claim: delta.")
@click.option("--clip-norm", type=float, help="L2 norm that each vector is clipped to.")
@click.option("--noise", type=float, help="Standard deviation of the noise, in the units of the clip norm.")
@click.option("--noise-multiplier", type=float, help="The same, divided by the clip norm.")
@click.option("--sampling-rate", type=float, help="Chance of one unit to take part in a round.")
@click.option("--batch", type=int, help="Units in a round, with --population in place of --sampling-rate.")
@click.option("--population", type=int, help="Units in all.")
@click.option("--sampling", help="How units are chosen: none, poisson, fixed-size or shuffled.")
@click.option("--rounds", type=int, help="Releases, steps or rounds.")
@click.option("--unit", help="Who is protected: record or client.")
@click.option("--relation", help="What neighbours are: add-remove (a unit more) or replace (a unit with other data).")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Another key of the settings (repeatable)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@reports_problems
def check_dp(
    settings: Path | None, form: str | None, overrides: tuple[str, ...], as_json: bool, **stated: float | str | None
) -> None:
    """Check a claim of differential privacy against its settings.

    SETTINGS is a file (TOML or JSON) with the settings of Flower, Opacus or NVFlare, or plain ones; options are set
    over it. Nothing is run. The answer is the epsilon that the settings have, exactly where a closed form exists, and
    whether the claim holds. It says nothing about whether these settings are what runs.

    Formats: plain, flower-local-dp, flower-central-dp, opacus, nvflare-svt, nvflare-gaussian, nvflare-percentile,
    nvflare-min-max-noise. docs/differential-privacy.md lists their keys and how each is read.

    Exit codes: 0 the claim holds, or there is none; 1 it is refuted, or there is no epsilon at all; 2 bad input; 11
    undecided: the claim lies between what can be proven, or the settings say too little for it to hold.

    \b
    Examples:
      leakledger check-dp --noise-multiplier 1 --rounds 1 --epsilon 4.38 --delta 1e-5
      leakledger check-dp --noise-multiplier 1 --sampling-rate 0.01 --sampling poisson --rounds 1000 --delta 1e-5
      leakledger check-dp --clip-norm 1 --noise 4.845e-5 --unit client --epsilon 10 --delta 1e-5
      leakledger check-dp examples/dp/sensitivity-apart-from-clipping.toml
      leakledger check-dp client.json --format nvflare-svt --set parameters=7033291 --rounds 10 --json
    """
    from leakledger.audit.dp_claims.check import EXIT_CODES, check
    from leakledger.audit.dp_claims.settings_file import assigned, read_settings
    from leakledger.audit.dp_claims.words import in_words

    given = {name: value for name, value in stated.items() if value is not None}
    checked = check(read_settings(settings, {**given, **assigned(overrides)}, form))
    echo(json.dumps(checked.to_plain(), indent=1) if as_json else in_words(checked))
    if code := EXIT_CODES[checked.verdict]:
        raise click.exceptions.Exit(code)
