"""The page of messages in the documentation is complete."""

import ast
from pathlib import Path

import messages

PAGE = Path(__file__).parents[1] / "doc" / "messages.rst"
# They end the process, or go to scikit-learn, before a user could read them.
NOT_SHOWN = {"StopIteration", "SystemExit"}


def spoken(call):
    """The longest piece of a message that is the same for all numbers and names in it."""
    pieces = [
        node.value
        for argument in call.args[:1]
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return max(pieces, key=len, default="")


def sites():
    for path in sorted(messages.PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func)
            said = isinstance(node, ast.Raise) or name == "warn"
            text = spoken(call)
            if said and name not in NOT_SHOWN and len(text) > 12:
                yield f"{path.stem}, line {node.lineno}", text


def test_messages_are_in_the_documentation():
    """Else: python -m pytest --messages=doc/messages.rst."""
    page = messages.plain(PAGE.read_text())
    missing = {site: text for site, text in sites() if messages.plain(text).strip() not in page}
    assert missing == {}
