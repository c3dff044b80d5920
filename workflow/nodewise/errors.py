"""The one exception that means: the user can mend this."""


class UserError(Exception):
    """A mistake that the user can mend; its text is one line: what, where, what is allowed.

    The command line prints it without a traceback and exits with code 2.
    """
