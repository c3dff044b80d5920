"""Amdahl's law."""

from nodewise.predict.law import LAWS, Law, Parameter, n, positive

p, q = positive("p"), positive("q")


@LAWS.register
class Amdahl(Law):
    """t = p + q·n: p is the parallel part of one node's step, q the serial part.

    For a job of fixed size this is T(n)/T(1) = f + (1 − f)/n, with the serial share f = q/(p + q).
    The law cannot describe nodes that make a job longer.
    """

    name = "amdahl"
    title = "Amdahl"
    source = (
        "G. M. Amdahl, Validity of the single processor approach to achieving large scale "
        "computing capabilities, AFIPS Spring Joint Computer Conference, 1967"
    )
    parameters = (
        Parameter("p", "parallel_s", "s", "model", "of one node's step, what further nodes share"),
        Parameter("q", "serial_s", "s", "model", "of one node's step, what stays serial"),
    )
    step = p + q * n
