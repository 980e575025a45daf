"""`completion`: the script that completes a program, for those who have no file of it."""

from typing import Annotated, Any, Literal, get_args

import typer

from goqueue.console import terminal

Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = get_args(Shell)


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]
) -> None:
    """Write what completes this program in a shell.

    \b
      PROGRAM completion bash \\
        > ~/.local/share/bash-completion/completions/PROGRAM
      PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
      PROGRAM completion fish \\
        > ~/.config/fish/completions/PROGRAM.fish

    A new shell then completes commands, flags and values, and the names of topics, groups and contexts. To try it
    in this one: `source <(PROGRAM completion bash)`, or `PROGRAM completion fish | source`.
    """
    root: Any = context.find_root().command
    terminal.write(script(root.program, shell))


def script(program: Any, shell: Shell) -> str:
    """The script of a program for a shell."""
    from goqueue.console.completion import bash, fish, tree, zsh  # noqa: PLC0415 - each is asked for once in a lifetime

    write = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}[shell]
    return write(program.name, tree.nodes(program))
