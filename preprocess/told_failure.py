"""The one failure that needs no traceback: whoever raises it has said all that there is to say."""

DEBUG = "LEAKLEDGER_DEBUG"
"""The variable of the environment that asks for tracebacks all the same."""
ON_REQUEST = f"{DEBUG}=1 shows its text and where, which may quote records"
"""What is said of an error whose text is not told."""


class ToldFailure(RuntimeError):
    """A failure of what was run, whose text is one line that says all that its user needs."""


def exit_code(error: SystemExit) -> str:
    """The number that something would have ended the process with; "" for what else it gave, which may be any text."""
    return str(error.code) if isinstance(error.code, int) else ""
