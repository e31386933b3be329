"""``tallyguard keys``: the secrets of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli import shared as cli

keys = cli.command_group("keys", "The secret keys of a deployment.")


@keys.command()
def create(
    file: Annotated[Path, typer.Argument(help="The key's file, which must not exist.")],
) -> None:
    """Make a new noise key, in a file that only you may read.

    Counts that are published a second time, in another folder, need a key of their own: with the first one
    the run is refused. For real counts that is a second look at them, which no ledger adds to the first.

    \b
    Examples:
      tallyguard keys create again.key
      TALLYGUARD_NOISE_KEY=again.key tallyguard run --config tallyguard.toml --input day.jsonl --output again
    """
    from models.keys import NoiseKey

    NoiseKey.create(file)
    cli.say(f"{file} has a new noise key. Keep a copy in a safe place.")


@keys.command()
def advance(
    output: Annotated[
        Path | None, typer.Option(help="Output folder of a stopped run; none on Kafka.")
    ] = None,
    config: cli.ConfigOption = None,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Replace the noise key by that of the next epoch, for good.

    Whoever steals the key later can compute no count of earlier steps. Nothing that was released changes;
    coming steps are drawn with the new key. Erase copies of the old one yourself.

    With --output, for `tallyguard run`: stop the run, advance, start it again as before. Refused while a step
    may be published that the folder does not record: then start the run once more first.

    On Kafka, without --output: stop the release worker with SIGTERM, advance the key in its file, bring the
    file to where the worker reads it (a secret of the cluster), and start it once with --accept-changes.
    After a kill start it once more with the old key first, until it says that it continues.

    \b
    Examples:
      tallyguard keys advance --output out --config tallyguard.toml
      TALLYGUARD_NOISE_KEY=noise.key tallyguard keys advance
    """
    from stream_app.setup.run_folder.key_record import advance_noise_key
    from stream_app.setup.run_folder.record import Author
    from stream_app.setup.run_folder.run_settings import settings_of_run

    settings = cli.settings_of(config)
    if output is not None:
        settings = settings_of_run(output, settings)
    done = advance_noise_key(settings, output, Author.given(by, reason))
    said = f"{done.file} has the key of epoch {done.epoch}"
    sentences = (
        (f"{said}.", "Start the release worker with it, once with --accept-changes.")
        if done.first_step is None
        else (f"{said}, for steps from {done.first_step} on.",)
    )
    document = {"file": str(done.file), "epoch": done.epoch, "first_step": done.first_step}
    cli.tell(json, document, *sentences)
