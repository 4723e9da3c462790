"""marless completion: prints a script that lets a shell complete commands, options, runs and settings."""

from argparse import ArgumentParser, Namespace

from marless import extras
from marless.output import say_text

EXAMPLES = """examples:
  eval "$(marless completion bash)"    in ~/.bashrc
  eval "$(marless completion zsh)"     in ~/.zshrc, below: autoload -U compinit && compinit"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell that runs the script")


def run(options: Namespace) -> int:
    """Prints the script, which calls the program at every press of the tab key."""
    extras.require("completion", "completion")
    from argcomplete.shell_integration import shellcode

    say_text(shellcode(["marless"], shell=options.shell))
    return 0
