"""Completion of the command line for shells, written from the commands' own options.

Nothing is run while a line is completed: the script has all commands, options and fixed values.
"""

from __future__ import annotations

from importlib import import_module

from blaswheel._cli import COMMANDS
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterator, Sequence

SHELLS = ("bash", "fish", "zsh")
#: What is written where a name of these is wanted: a file is offered, a folder, or nothing.
_FOLDERS = ("DIR", "PREFIX")
_FILES = ("FILE", "WHEEL", "LIBRARY", "PYTHON", "TARGET", "WHEEL|DIR", "DIST", "OTHER")


class Option(Record):
    """An option of a command.

    Attributes
    ----------
    names : tuple of str
        As it is written: ``-o``, ``--dir``.
    value : str
        What its value is called; empty if it takes none.
    choices : tuple of str
        All values that it may have.
    help : str
        What it does, in a line.
    """

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str


def options(command: str) -> tuple[Option, ...]:
    """Return the options of a command, in the order of its help."""
    found = []
    for action in _actions(command):
        if action.option_strings:
            takes = action.nargs != 0
            value = action.metavar or action.dest.upper()
            found.append(
                Option(
                    names=tuple(action.option_strings),
                    value=str(value) if takes else "",
                    choices=tuple(map(str, action.choices or ())),
                    help=" ".join(str(action.help or "").replace("%%", "%").split()),
                )
            )
    return tuple(found)


def values(command: str) -> tuple[str, ...]:
    """Return all that may stand behind a command, where that is not the name of a file."""
    return tuple(
        str(choice)
        for action in _actions(command)
        if not action.option_strings
        for choice in action.choices or ()
    )


def _actions(command: str) -> list[Action]:
    from blaswheel._commands._parser import Parser

    module = import_module(f"blaswheel._commands._{command}")
    parser = Parser(f"blaswheel {command}", "", "")
    module.configure(parser)
    return parser._actions


def script(shell: str) -> str:
    """Return the completion script for a shell.

    Parameters
    ----------
    shell : {'bash', 'fish', 'zsh'}
    """
    write = {"bash": _bash, "fish": _fish, "zsh": _zsh}[shell]
    return "\n".join(write()) + "\n"


def _words(values: Sequence[str]) -> str:
    return " ".join(values)


def _bash() -> Iterator[str]:
    yield "# Completion of blaswheel for bash: source it."
    yield "_blaswheel() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"
    yield "    local command=${COMP_WORDS[1]} options= values="
    yield "    COMPREPLY=()"
    yield "    if ((COMP_CWORD == 1)); then"
    yield f'        COMPREPLY=($(compgen -W "{_words(tuple(COMMANDS))}" -- "$current"))'
    yield "        return"
    yield "    fi"
    yield '    case "$command $before" in'
    for command in COMMANDS:
        for option in options(command):
            if not option.value:
                continue
            patterns = "|".join(f'"{command} {name}"' for name in option.names)
            if option.choices:
                offer = f'compgen -W "{_words(option.choices)}"'
            elif option.value in _FOLDERS:
                offer = "compgen -d"
            elif option.value in _FILES:
                offer = "compgen -f"
            else:
                yield f"        {patterns}) return ;;"
                continue
            yield f'        {patterns}) COMPREPLY=($({offer} -- "$current")); return ;;'
    yield "    esac"
    yield '    case "$command" in'
    for command in COMMANDS:
        names = [name for option in options(command) for name in option.names]
        yield f'        {command}) options="{_words(names)}" values="{_words(values(command))}" ;;'
    yield "    esac"
    yield "    if [[ $current == -* ]]; then"
    yield '        COMPREPLY=($(compgen -W "$options" -- "$current"))'
    yield "    elif [[ $values ]]; then"
    yield '        COMPREPLY=($(compgen -W "$values" -- "$current"))'
    yield "    else"
    yield '        COMPREPLY=($(compgen -f -- "$current"))'
    yield "    fi"
    yield "}"
    yield "complete -o filenames -F _blaswheel blaswheel"


def _quoted(text: str) -> str:
    """Quote a text for fish and zsh, which differ on what a backslash does between the quotes."""
    return "'" + text.replace("\\", "/").replace("'", "\N{RIGHT SINGLE QUOTATION MARK}") + "'"


def _fish() -> Iterator[str]:
    yield "# Completion of blaswheel for fish: ~/.config/fish/completions/blaswheel.fish"
    for command, what in COMMANDS.items():
        yield f"complete -c blaswheel -f -n __fish_use_subcommand -a {command} -d {_quoted(what)}"
    for command in COMMANDS:
        if values(command):
            yield (
                f"complete -c blaswheel -n '__fish_seen_subcommand_from {command}' -f "
                f"-a {_quoted(_words(values(command)))}"
            )
        for option in options(command):
            words = [f"complete -c blaswheel -n '__fish_seen_subcommand_from {command}'"]
            for name in option.names:
                words.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
            if option.choices:
                words.append(f"-x -a {_quoted(_words(option.choices))}")
            elif option.value in _FOLDERS:
                words.append("-x -a '(__fish_complete_directories)'")
            elif option.value:
                words.append("-r" if option.value in _FILES else "-x")
            words.append(f"-d {_quoted(option.help)}")
            yield " ".join(words)


def _zsh() -> Iterator[str]:
    yield "#compdef blaswheel"
    yield "# Completion of blaswheel for zsh: _blaswheel in a folder of fpath."
    yield "_blaswheel() {"
    yield "    local -a commands"
    yield "    commands=("
    for command, what in COMMANDS.items():
        yield f"        {_quoted(f'{command}:{what}')}"
    yield "    )"
    yield "    if ((CURRENT == 2)); then"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words"
    yield "    ((CURRENT--))"
    yield "    case $command in"
    for command in COMMANDS:
        yield f"        {command})"
        yield "            _arguments \\"
        for option in options(command):
            for name in option.names:
                yield f"                {_quoted(_zsh_option(name, option))} \\"
        what = f"value:({_words(values(command))})" if values(command) else "file:_files"
        yield f"                '*:{what}'"
        yield "            ;;"
    yield "    esac"
    yield "}"
    yield '_blaswheel "$@"'


def _zsh_option(name: str, option: Option) -> str:
    about = "".join(char for char in option.help if char not in "[]:")
    # An option that may be repeated is offered again.
    text = f"*{name}[{about}]"
    if not option.value:
        return text
    value = option.value.replace(":", "")
    if option.choices:
        return f"{text}:{value}:({_words(option.choices)})"
    if option.value in _FOLDERS:
        return f"{text}:{value}:_files -/"
    return f"{text}:{value}:{'_files' if option.value in _FILES else ''}"
