"""What errors and warnings say, written down while the tests cause them.

``python -m pytest -n 0 --messages=doc/messages.rst`` writes the page of the documentation; a test
sees to it that no message is missing. Messages of export and of tensors are recorded where their
libraries are installed, those of tensors with ``SCIPY_ARRAY_API=1``.
"""

import re
import sys
import textwrap
import warnings
from pathlib import Path

import skcalib
import skcalib._warnings
from skcalib._cli.files import InputError

PACKAGE = Path(skcalib.__file__).parent

# Titles of the page, and the packages and modules whose messages stand there.
SECTIONS = {
    "Logits, labels, weights, classes": [
        "_base",
        "_validation.classes",
        "_validation.indicator",
        "_validation.labels",
        "_validation.logits",
        "_validation.probabilities",
        "_validation.rows",
        "_validation.weights",
        "_engine.inputs",
    ],
    "Parameters and fits of calibrators": [
        "_validation.parameters",
        "_validation.priors",
        "scaling",
        "binning",
        "_linear",
        "_version",
    ],
    "Classifiers and pipelines": ["compose", "_splits", "_subestimator"],
    "Comparing calibrators": ["selection"],
    "Measures": ["metrics"],
    "Pictures": ["display", "report"],
    "Monitoring": ["monitor"],
    "Export": ["export"],
    "Dask collections": ["_engine.dask", "_engine.dask_inputs"],
    "Tensors": ["_engine.array_api"],
    "Data": ["datasets"],
    "Command line": ["_cli"],
}
HEADER = """\
Messages
========

Every error and warning of skcalib says what the condition is, what was got, and what to do. Here
they are as the tests cause them, with the numbers and names of the tests.
"""


class Recorder:
    """Messages by the place in the package that they come from."""

    def __init__(self):
        self.messages = {}

    def record(self, frame, lineno, kind, message):
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents and _section(_name(path)) is not None:
            found = self.messages.setdefault((_name(path), lineno), set())
            message = re.sub(r"\S*/pytest-of-\S*/", "", message)  # folders of this machine
            found.add((kind, " ".join(message.split())))

    def install(self):
        """Listen to warnings, to expected errors, and to those of the command line."""
        self._listen_to_warnings()
        self._listen_to_expected_errors()
        self._listen_to_made(InputError)

    def _listen_to_warnings(self):
        warn = warnings.warn

        def listening(message, category=UserWarning, *args, **kwargs):
            frame = sys._getframe(1)
            if frame.f_code.co_filename == skcalib._warnings.__file__:  # which gives all of them
                frame = frame.f_back
            kind = type(message) if isinstance(message, Warning) else category
            self.record(frame, frame.f_lineno, getattr(kind, "__name__", ""), str(message))
            return warn(message, category, *args, **kwargs)

        warnings.warn = listening

    def _listen_to_expected_errors(self):
        from _pytest.raises import RaisesExc

        leave = RaisesExc.__exit__

        def listening(context, kind, error, traceback):
            while traceback is not None and traceback.tb_next is not None:
                traceback = traceback.tb_next
            if traceback is not None:
                frame, line = traceback.tb_frame, traceback.tb_lineno
                self.record(frame, line, kind.__name__, str(error))
            return leave(context, kind, error, traceback)

        RaisesExc.__exit__ = listening

    def _listen_to_made(self, error):
        make = error.__init__

        def listening(made, *args):
            frame = sys._getframe(1)
            line = frame.f_lineno
            # If it is made of another error of the package, that is the place of what it says.
            traceback = sys.exc_info()[2]
            while traceback is not None:
                if PACKAGE in Path(traceback.tb_frame.f_code.co_filename).parents:
                    frame, line = traceback.tb_frame, traceback.tb_lineno
                traceback = traceback.tb_next
            self.record(frame, line, "exit status 2", str(args[0]))
            make(made, *args)

        error.__init__ = listening

    def page(self):
        """The page, with the shortest message of each place."""
        lines = [HEADER]
        for title in SECTIONS:
            places = sorted(place for place in self.messages if _section(place[0]) == title)
            if not places:
                continue
            lines += [title, "-" * len(title), ""]
            entries = (min(self.messages[place], key=lambda m: (len(m[1]), m)) for place in places)
            for kind, message in dict.fromkeys(entries):
                lines += [f"*{kind}*", "", *_block(message), ""]
        return "\n".join(lines).rstrip() + "\n"


def _name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def _section(module):
    """The title under which messages of a module stand, or None."""
    for title, names in SECTIONS.items():
        if any(f"{module}.".startswith(f"{name}.") for name in names):
            return title
    return None


def _block(message):
    wrapped = textwrap.wrap(message, 90, break_long_words=False, break_on_hyphens=False)
    return [".. code-block:: none", "", *(f"   {line}" for line in wrapped)]


def plain(text):
    """Text without line breaks and runs of spaces."""
    return re.sub(r"\s+", " ", text)
