"""Coefficients of a law as posterior draws of a hierarchical model: the slower, fuller `fit`.

The same laws and the same weak priors as in `fit`, and what it approximates is done in full: terms
that multiply, bounds, and the noise are drawn together with the coefficients. Curves borrow more
strength from each other: how large the jitter of links, or the deviations of batches, usually are
is learned from all of them.

- A coefficient u, as the share of the step that its term takes, is τ·z² with z standard normal
  (τ·z if signed): half of the terms take less than half of τ, many next to nothing, as terms do
  that a step does not have. τ is what `fit` expects, or, where several curves have the coefficient,
  half-normal itself around it (A. Gelman, Bayesian Analysis 1(3), 2006).
- An observation is Student-t with ν = 4 around the law, with the scale √((σ·t)² + σ₀²): σ relative,
  one for whole steps and one for each part; σ₀ absolute, a share of the model's median step.
- Draws are by NUTS (M. D. Hoffman and A. Gelman, JMLR 15, 2014) in four chains. Split R̂ compares
  their halves (A. Gelman et al., Bayesian Data Analysis, 3rd ed., section 11.4, 2013): above 1.01
  they have not settled, and go on.

A term can be next to nothing, but never 0: where a step has none of several terms, predictions far
beyond the points lie somewhat above it. The quick fit knows terms of 0.

Needs NumPyro, an extra: `make bayes` installs it.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.fit import DRAWS, Fit
from nodewise.predict.law import Floats, Law, Value
from nodewise.predict.least_squares import TAILED, Priors, Problem
from nodewise.predict.points import Points

CHAINS = 4
_SETTLED = 1.01

_WARM_UP = 500  # steps of a chain that only tune the sampler
_DEPTHS = (6, 10)  # of trees in warm-up and after: at first, long ways are not worth it
_KEPT = 600  # the fewest draws of a chain: R̂ of fewer says little
_MOST = 3000  # where chains that do not settle end, after minutes
_ACCEPTED = 0.9  # short steps, as bounds at 0 bend the posterior
_NOISE_SPREAD = 0.6  # of ln σ around what is expected: as wide as in `fit`
_ABSOLUTE = 0.01  # σ₀ as a share of the model's median step
_SEED = 30917


@dataclass(frozen=True)
class BayesFit(Fit):
    """A fit whose `values` are the means of the posterior and whose `draws` are its samples.

    `r_hat` has shape (coefficients,). `divergences` counts steps at which the sampler lost its way:
    with more than a few, intervals may be too narrow.
    """

    r_hat: Floats
    divergences: int

    @property
    def note(self) -> str:
        """R̂ and the divergences in words; chains have settled at R̂ ≤ 1.01 with no divergence."""
        largest = float(np.max(self.r_hat))
        text = f"R-hat at most {largest:.3f}, divergences: {self.divergences}"
        settled = largest <= _SETTLED and not self.divergences
        return text if settled else f"{text}; the chains have not settled"


def fit(law: Law, points: Points, *, priors: Priors | None = None, draws: int = DRAWS) -> BayesFit:
    """Fit a law to points of any number of models and links; takes a minute or some.

    Args:
        law: the law of all of them.
        points: one or more points, with each line's points on any number of nodes.
        priors: what is known of coefficients beforehand, such as a link's latency.
        draws: how many draws to return, 1 or more. The same points give the same.

    Raises:
        ValueError: there is no point.
        UserError: NumPyro is not installed.
    """
    if not len(points):
        raise ValueError("nothing to fit")
    problem = Problem(law, points, priors or {})
    chains, noise, divergences = _sample(problem, max(_KEPT, -(-draws // CHAINS)))
    samples = chains.reshape(-1, chains.shape[-1])
    chosen = np.linspace(0, len(samples) - 1, draws).round().astype(int)
    return BayesFit(
        law=law,
        coefficients=problem.coefficients,
        values=samples.mean(axis=0),
        draws=samples[chosen],
        noise=float(np.median(noise)),
        sizes=problem.sizes,
        points=points,
        r_hat=_r_hat(chains),
        divergences=divergences,
    )


def _sample(problem: Problem, kept: int) -> tuple[Floats, Floats, int]:
    """Return coefficients, (chains, draws, coefficients), noise of whole steps, and divergences.

    Chains are `kept` draws long, or several times that if they have not settled before.
    """
    jax, numpyro = _extra()
    sampler = numpyro.infer.NUTS(
        _model(problem),
        target_accept_prob=_ACCEPTED,
        dense_mass=True,  # what totals do not tell apart is strongly correlated
        max_tree_depth=_DEPTHS,
        init_strategy=numpyro.infer.init_to_median(num_samples=20),
    )
    mcmc = numpyro.infer.MCMC(
        sampler,
        num_warmup=_WARM_UP,
        num_samples=kept,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    chains, noise, divergences = np.empty((CHAINS, 0, len(problem.coefficients))), [], 0
    with jax.enable_x64(True):  # double precision, as everywhere else
        key = jax.random.key(_SEED)
        while True:
            mcmc.run(key)
            drawn = mcmc.get_samples(group_by_chain=True)["theta"]
            chains = np.concatenate([chains, np.asarray(drawn, dtype=np.float64)], axis=1)
            noise.append(np.asarray(mcmc.get_samples()["noise"], dtype=np.float64)[:, 0])
            divergences += int(np.sum(mcmc.get_extra_fields()["diverging"]))
            if np.max(_r_hat(chains)) <= _SETTLED or chains.shape[1] + kept > _MOST:
                return chains, np.concatenate(noise), divergences
            mcmc.post_warmup_state = mcmc.last_state
            key = mcmc.last_state.rng_key


def _model(problem: Problem) -> Callable[[], None]:
    """Return the probabilistic program of a problem."""
    jax, numpyro = _extra()
    jnp, dist = jax.numpy, numpyro.distributions
    names = np.array([name for name, _ in problem.coefficients])
    labels, steps = problem.points.model, problem.points.step_s
    typical = np.array([np.median(steps[labels == label]) for label in labels])
    absolute = _ABSOLUTE * np.concatenate([typical[mask] for _, mask in problem.observations])

    def shares() -> Value:
        """Return u: the coefficients of one name are drawn together."""
        u = jnp.zeros(len(names))
        for name in dict.fromkeys(names.tolist()):
            (places,) = np.nonzero(names == name)
            signed = problem.parameters[name].signed
            scale = problem.expected_share(name)
            if len(places) > 1:
                scale = numpyro.sample(f"{name} scale", dist.HalfNormal(scale))
            drawn = numpyro.sample(name, dist.Normal(0, 1).expand([len(places)]).to_event(1))
            u = u.at[places].set(scale * (drawn if signed else drawn**2))
        return u

    def model() -> None:
        theta = shares() / problem.sizes
        for i, (mean, spread) in problem.priors.items():
            units = numpyro.sample(f"given {i}", dist.TruncatedNormal(mean / spread, 1, low=0))
            theta = theta.at[i].set(units * spread)
        numpyro.deterministic("theta", theta)
        expected = np.log(problem.expected_noise())
        noise = numpyro.sample("noise", dist.LogNormal(expected, _NOISE_SPREAD).to_event(1))
        floor = numpyro.sample("floor", dist.HalfNormal(1.0)) * absolute
        times = problem.model(theta, jnp)
        scale = jnp.sqrt((noise[problem.kind] * times) ** 2 + floor**2)
        numpyro.sample("seen", dist.StudentT(TAILED, times, scale), obs=problem.observed)

    return model


def _r_hat(chains: Floats) -> Floats:
    """Return split R̂ of draws of shape (chains, draws, coefficients)."""
    _, numpyro = _extra()
    return np.asarray(numpyro.diagnostics.split_gelman_rubin(chains), dtype=np.float64)


def _extra() -> tuple[ModuleType, ModuleType]:
    """Return JAX and NumPyro.

    Raises:
        UserError: they are not installed.
    """
    try:
        jax, numpyro = (importlib.import_module(name) for name in ("jax", "numpyro"))
        for name in ("diagnostics", "distributions", "infer"):
            importlib.import_module(f"numpyro.{name}")
    except ImportError as error:
        raise UserError(
            f"the Bayesian fit needs {error.name}, an extra: make bayes installs it"
        ) from error
    return jax, numpyro
