/* The formulas of workflow/nodewise/overhead/{formulas,servers}.py, for the page "What if?". A test asks
 * both for the same steps; change them together. Seconds, bytes, examples.
 */
"use strict";
(() => {
  const TINY = 1e-30;

  /** The standard normal distribution function; error below 1e-12. */
  function phi(x) {
    const z = Math.abs(x) / Math.SQRT2;
    const half = 0.5 * erfc(z);
    return x > 0 ? 1 - half : half;
  }

  /** erfc by its continued fraction far out, by its series near 0. */
  function erfc(z) {
    if (z < 2.5) {
      let term = z;
      let sum = z;
      for (let k = 1; k < 80; k += 1) {
        term *= (-z * z) / k;
        sum += term / (2 * k + 1);
      }
      return 1 - (2 / Math.sqrt(Math.PI)) * sum;
    }
    let tail = 0;
    for (let k = 60; k > 0; k -= 1) {
      tail = k / 2 / (z + tail);
    }
    return Math.exp(-z * z) / (Math.sqrt(Math.PI) * (z + tail));
  }

  const HALF_LINE = Array.from({ length: 361 }, (_, i) => i / 40);
  const ABOVE = HALF_LINE.map(phi);
  const known = new Map();

  /** The mean of the largest of n standard normal values. */
  function expectedMaximum(n) {
    if (!known.has(n)) {
      const values = ABOVE.map((p) => 1 - p ** n - (1 - p) ** n);
      const inner = values.slice(1, -1).reduce((sum, value) => sum + value, 0);
      known.set(n, (inner + (values[0] + values.at(-1)) / 2) / 40);
    }
    return known.get(n);
  }

  const compute = (p, b) =>
    p.compute_fixed_s + p.compute_per_example_s * b + (p.compute_deviation_s ?? 0);
  const spread = (p, b) => (p.jitter_s ?? 0) + (p.jitter_share ?? 0) * compute(p, b);
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  function ring(p, n, S) {
    return 2 * (n - 1) * p.latency_s + ((2 * (n - 1)) / n) * S * p.seconds_per_byte;
  }

  /** The queues of workers at servers: the busy time of each, and what workers do between. */
  function queues(p, S, settings, parts) {
    const servers = settings.servers;
    const oneWay = S * p.seconds_per_byte;
    const link = settings.full_duplex ? [oneWay, oneWay] : [2 * oneWay];
    const demands = [...link, p.service_s ?? 0];
    const think = parts.compute + parts.input + 2 * p.latency_s;
    return { servers, demands, think };
  }

  /** How long `n` workers are served that queue, by mean-value analysis; linear between whole n. */
  function queued({ servers, demands, think }, n) {
    let waiting = demands.map(() => 0);
    let served = 0;
    for (let workers = 1; workers <= Math.ceil(n); workers += 1) {
      const times = demands.map((demand, i) => demand * (1 + waiting[i] / servers));
      const total = sum(times);
      waiting = times.map((time) => (workers / (think + total + TINY)) * time);
      served += Math.max(0, 1 - Math.abs(n - workers)) * total;
    }
    return served;
  }

  const COMMUNICATE = {
    none: () => 0,
    ring: (p, n, b, S) => ring(p, n, S),
    halving_doubling: (p, n, b, S) =>
      2 * Math.log2(n) * p.latency_s + ((2 * (n - 1)) / n) * S * p.seconds_per_byte,
    tree: (p, n, b, S) => 2 * Math.log2(n) * (p.latency_s + S * p.seconds_per_byte),
    star: (p, n, b, S) => 2 * (n - 1) * (p.latency_s + S * p.seconds_per_byte),
    averaging: (p, n, b, S, settings) => ring(p, n, S) / settings.period,
    compressed(p, n, b, S, settings) {
      const coded = settings.density * S;
      const codec = (p.codec_seconds_per_byte ?? 0) * (S + n * coded);
      return codec + (n - 1) * (p.latency_s + coded * p.seconds_per_byte);
    },
    server(p, n, b, S, settings, parts) {
      return 2 * p.latency_s + queued(queues(p, S, settings, parts), n);
    },
    server_bound(p, n, b, S, settings, parts) {
      const { servers, demands, think } = queues(p, S, settings, parts);
      const busy = (n * Math.max(demands[0], demands.at(-1))) / servers;
      return 2 * p.latency_s + Math.max(sum(demands), busy - think);
    },
    gpipe(p, n, b, S, settings) {
      const messages = n > 1 ? 2 * (settings.micro_batches + n - 2) : 0;
      const sent = (settings.activation_bytes * n * b) / settings.micro_batches;
      return messages * (p.latency_s + sent * p.seconds_per_byte);
    },
  };

  const ALL_REDUCE = ["ring", "halving_doubling", "tree", "star"]; // computing may go on meanwhile

  const WAIT = {
    averaging: (p, n, b, settings) =>
      (spread(p, b) * expectedMaximum(n)) / Math.sqrt(settings.period),
    server: () => 0,
    server_bound: () => 0,
    gpipe: (p, n, b, settings, computing) => ((n - 1) / settings.micro_batches) * computing,
  };

  /** Return the parts of a step and the step itself, in seconds, by a formula with its `settings`. */
  function step(law, p, n, b, S, settings = {}) {
    let computing = compute(p, b);
    if (law === "gpipe") {
      computing += (settings.micro_batches - 1) * p.compute_fixed_s;
    }
    const parts = { compute: computing, input: (p.input_per_example_s ?? 0) * b * (n - 1) };
    const wait = WAIT[law] ?? (() => spread(p, b) * expectedMaximum(n));
    parts.wait = wait(p, n, b, settings, computing);
    parts.communicate = COMMUNICATE[law](p, n, b, S, settings, parts);
    const gamma = (ALL_REDUCE.includes(law) && settings.overlap) || 1;
    const both = parts.compute + parts.communicate + TINY;
    const together =
      both *
      ((parts.compute / both) ** gamma + (parts.communicate / both) ** gamma) ** (1 / gamma);
    return { ...parts, step: together + parts.wait + parts.input };
  }

  window.nodewiseLaws = { step };
})();
