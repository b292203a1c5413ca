"""`assay completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from assay.cli.verbs import assay
from assay.errors import UsageError


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    r"""Print the completion script of SHELL.

    \b
    bash: assay completion bash > ~/.local/share/bash-completion/completions/assay
    zsh:  assay completion zsh > "${fpath[1]}/_assay"
    fish: assay completion fish > ~/.config/fish/completions/assay.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion for {shell}")
    click.echo(kind(assay, {}, "assay", "_ASSAY_COMPLETE").source())
