"""The reference of the command line, from the commands themselves: what their `--help` says."""

from __future__ import annotations

import re

from tollbox.cli.app import COMMANDS, command_line


def text() -> str:
    """Every command, with its arguments and options, as Markdown."""
    return "\n\n".join(_command(name) for name in COMMANDS)


def _command(name: str) -> str:
    told = command_line(name)[name].generate_docs(output_format="markdown", heading_level=2)
    told = told.replace(f"## {name}\n\n```console\n", f"## tollbox {name}\n\n```text\ntollbox ", 1)
    told = told.replace(" *[default: False]*", "")  # a flag is off unless it is given
    told = told.replace("**[required]**", "*[required]*")
    told = re.sub(r"\n {8}", " ", told)  # the help of an option is one line
    return re.sub(r"\*\*(Parameters|Arguments|Options)\*\*:\n", "", told).strip()
