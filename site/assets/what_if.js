/* The calculator of the page "Your case": begins with a fitted curve, keeps what is typed in the
 * address, and says where it leaves what was measured.
 */
"use strict";
(() => {
  const { alone, step } = window.nodewiseLaws;
  const MOST = 64; // nodes of the chart and of the search for the best
  const ROWS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
  const ALIKE = 1 + 1e-9; // what differs by less differs by rounding
  const NEAR = 1.05;
  const box = document.getElementById("calculator");
  const form = box.querySelector("form");
  const EFFICIENT = form.dataset.efficient; // such as "80 %"
  const ENDS = [0.05, 0.95]; // of a 90 % interval
  const presets = JSON.parse(document.getElementById("nw-presets").textContent);
  const MADE_UP = {
    curve: "",
    title: "made-up values",
    law: "ring",
    settings: {},
    values: {
      compute_fixed_s: 0.005,
      compute_per_example_s: 2e-4,
      latency_s: 2e-4,
      seconds_per_byte: 8e-8,
    },
    payload: 5e6,
    batches: [],
    nodes: [],
  };
  const SETTINGS = {
    period: 10,
    density: 0.03,
    servers: 1,
    micro_batches: 4,
    full_duplex: true,
    per_machine: 1,
  };
  // the fields that hold coefficients, and what is typed there as a coefficient
  const COEFFICIENTS = {
    compute_fixed_s: ["fixed_ms", (ms) => ms / 1e3],
    compute_per_example_s: ["example_us", (us) => us / 1e6],
    latency_s: ["latency_ms", (ms) => ms / 1e3],
    seconds_per_byte: ["rate_mbit", (rate) => 8e-6 / rate],
    jitter_s: ["jitter_ms", (ms) => ms / 1e3],
    jitter_share: ["jitter_percent", (percent) => percent / 100],
  };
  const all = presets.length ? presets : [MADE_UP];
  const field = (name) => form.elements.namedItem(name);
  const typed = (name) => Number(field(name).value);
  const short = (value) => (value === undefined ? "" : String(Number(value.toPrecision(4))));

  /** What a preset puts into the form: the name of a field -> its value. */
  function values(preset, batch) {
    const p = preset.values;
    const own = { ...SETTINGS, ...preset.settings };
    return {
      law: preset.law,
      period: short(own.period),
      density: short(own.density),
      servers: short(own.servers),
      micro_batches: short(own.micro_batches),
      activation_kb: own.activation_bytes === undefined ? "" : short(own.activation_bytes / 1e3),
      payload_mb: short(preset.payload / 1e6),
      fixed_ms: short(p.compute_fixed_s * 1e3),
      example_us: short(p.compute_per_example_s * 1e6),
      speed: "1",
      link: "",
      rate_mbit: short(8e-6 / Math.max(p.seconds_per_byte ?? 0, 1e-12)),
      latency_ms: short((p.latency_s ?? 0) * 1e3),
      jitter_ms: short((p.jitter_s ?? 0) * 1e3),
      jitter_percent: short((p.jitter_share ?? 0) * 100),
      batch: String(batch ?? 64),
      nodes: String(preset.nodes.at(-1) ?? 4),
      fixed: "batch",
      examples: "60000",
      goal: "fastest",
      price: "1",
    };
  }

  const preset = () => all[field("preset").selectedIndex] ?? all[0];

  /** What the form begins with: the preset at the middle one of its batches. */
  function start() {
    const { batches } = preset();
    return values(preset(), batches[Math.floor(batches.length / 2)]);
  }

  /** The fields whose values differ from those of the fit. */
  function moved() {
    const own = start();
    return [...form.querySelectorAll("input:enabled")]
      .filter(({ name }) => !["batch", "nodes", "examples", "price"].includes(name))
      .filter(({ name, value }) => Number(value) !== Number(own[name]));
  }

  /** Return a function that keeps what `of` returned. */
  function kept(of) {
    const known = new Map();
    return (key) => known.get(key) ?? known.set(key, of(key)).get(key);
  }

  /** Equally likely coefficients of the preset; none of made-up values. */
  function drawn() {
    const draws = Object.entries(preset().draws ?? {});
    const value = ({ unit, counts }, i) => unit * counts[i];
    const each = (i) => Object.fromEntries(draws.map(([name, one]) => [name, value(one, i)]));
    return (draws[0]?.[1].counts ?? []).map((_, i) => each(i));
  }

  /** Return coefficients with what was typed in the fields that changed, and with the speed of devices. */
  function entered(values, changed) {
    const own = { ...values };
    for (const [coefficient, [name, read]] of Object.entries(COEFFICIENTS)) {
      if (changed.has(name)) {
        own[coefficient] = read(typed(name));
      }
    }
    own.compute_fixed_s /= typed("speed");
    own.compute_per_example_s /= typed("speed");
    return own;
  }

  /** What is known of the structure; what the form does not show is that of the preset. */
  const settings = () => ({
    ...SETTINGS,
    ...preset().settings,
    period: typed("period"),
    density: typed("density"),
    servers: typed("servers"),
    micro_batches: typed("micro_batches"),
    activation_bytes: typed("activation_kb") * 1e3,
  });

  /** The form as arguments of the formula, with the fit's coefficients and with each of the draws.
   *
   * Where the reader's own computing was typed, all of that is exact.
   */
  function asked() {
    const changed = new Set(moved().map(({ name }) => name));
    const computing = changed.has("fixed_ms") || changed.has("example_us");
    const enter = (coefficients) => {
      const { compute_fixed_s, compute_per_example_s } = computing ? preset().values : coefficients;
      return entered({ ...coefficients, compute_fixed_s, compute_per_example_s }, changed);
    };
    const question = {
      computing,
      law: field("law").value,
      fitted: enter(preset().values),
      draws: drawn().map(enter),
      told: new Set([...ROWS, typed("nodes")]), // nodes with intervals
      batch: typed("batch"),
      nodes: typed("nodes"),
      payload: typed("payload_mb") * 1e6,
      settings: settings(),
    };
    const perExample = (n, b) => question.draws.map((one) => parts(question, one, n, b).step / b);
    return { ...question, perExample: kept((n) => perExample(n, batchOn(question, n))) };
  }

  /** Return the parts of a step of n nodes with b examples each, and the step, in seconds. */
  const parts = ({ law, payload, settings }, values, n, b) =>
    step(law, values, n, b, payload, settings);

  const batchOn = ({ batch, nodes }, n) =>
    field("fixed").value === "global" ? (batch * nodes) / n : batch;

  /** Return what n nodes do: b of each, the parts of a step, examples a second, the intervals. */
  function at(question, n) {
    const b = batchOn(question, n);
    const told = parts(question, question.fitted, n, b);
    const known = question.told.has(n) ? intervals(question, n, told.step) : {};
    return { n, b, ...told, rate: (n * b) / told.step, ...known };
  }

  /** Return the ends of 90 % intervals by the draws: `spread` of times, as shares of what the step
   * of n nodes takes, `seconds`, and `share` of their efficiency. */
  function intervals(question, n, seconds) {
    const here = question.perExample(n);
    const one = question.perExample(1);
    const efficiencies = n > 1 ? here.map((time, i) => one[i] / time) : [];
    return {
      spread: ends(here)?.map((end) => (end * batchOn(question, n)) / seconds),
      share: ends(efficiencies.filter((share) => share > 0)), // 0 or none: one node takes no time
    };
  }

  /** The ends between which 90 % of equally likely values are; of none there are none. */
  function ends(values) {
    const sorted = [...values].sort((one, other) => one - other);
    const quantile = (share) => {
      const place = share * (sorted.length - 1);
      const below = sorted[Math.floor(place)];
      return below + (place % 1) * (sorted[Math.ceil(place)] - below);
    };
    return sorted.length ? ENDS.map(quantile) : undefined;
  }

  /** As many nodes as are looked at; where the global batch stays, each has an example at least. */
  function most({ batch, nodes }) {
    const wanted = Math.max(MOST, nodes);
    const fed = Math.max(nodes, Math.floor(batch * nodes));
    return field("fixed").value === "global" ? Math.min(wanted, fed) : wanted;
  }

  function outlook(question) {
    const one = at(question, 1);
    const told = (n) => {
      const point = at(question, n);
      const speedup = point.rate / one.rate;
      const epoch = typed("examples") / point.rate;
      const price = (n * epoch * typed("price")) / 3600;
      return { ...point, speedup, efficiency: speedup / n, epoch, price };
    };
    return Array.from({ length: most(question) }, (_, i) => told(i + 1));
  }

  function duration(seconds) {
    const units = [["µs", 1e6, 1e-3], ["ms", 1e3, 1], ["s", 1, 600], ["min", 1 / 60, 36e3]];
    const [unit, factor] = units.find(([, , below]) => seconds < below) ?? ["h", 1 / 3600];
    return `${number(seconds * factor)} ${unit}`;
  }

  const { format: number } = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  /** Say an interval of a value, whose ends are so many times that. */
  const range = (ends, value, write) => `${write(ends[0] * value)} to ${write(ends[1] * value)}`;
  const within = (ends, ...of) => (ends ? ` (${range(ends, ...of)})` : "");

  const counted = (nodes) => `${nodes} ${nodes === 1 ? "node" : "nodes"}`;

  /** What the best number of nodes is, in sentences, by what is looked for. */
  const BEST = {
    fastest(points) {
      const best = points.reduce((a, b) => (b.rate > ALIKE * a.rate ? b : a));
      const enough = points.find(({ rate }) => NEAR * rate >= best.rate);
      const grows = points.every(({ rate }, i) => !i || rate > ALIKE * points[i - 1].rate);
      const lines = [
        grows && points.length > 1
          ? `There is no best number of nodes up to ${points.length}: each further one helps.`
          : `Fastest on ${counted(best.n)}, ${number(best.speedup)} times as fast as one node` +
            `${best.n > 1 && best.n === points.length ? "; more were not compared" : ""}.`,
      ];
      if (enough.n < best.n) {
        const last = grows ? "the last" : "that";
        lines.push(`From ${counted(enough.n)} on it is within 5 % of ${last}.`);
      }
      return lines;
    },
    cheapest(points) {
      const best = points.reduce((a, b) => (ALIKE * b.price < a.price ? b : a));
      const costs = `an epoch costs ${number(best.price)} and takes ${duration(best.epoch)}`;
      return [`Cheapest on ${counted(best.n)}: ${costs}.`];
    },
    efficient(points) {
      const best = points.findLast(({ efficiency }) => efficiency * ALIKE >= parseFloat(EFFICIENT) / 100);
      const all = best.n === points.length ? "; more were not compared" : "";
      return [`Up to ${counted(best.n)} have an efficiency of at least ${EFFICIENT}${all}.`];
    },
  };

  function sentence(question, points) {
    const here = points[question.nodes - 1];
    const pays = points.find(({ n, speedup }) => n > 1 && speedup > ALIKE);
    const share = (...parts) =>
      percent(parts.reduce((sum, part) => sum + here[part], 0) / here.step);
    const { compute, input, wait, communicate, spread } = here;
    const atOnce = compute + input + wait + communicate > 1.001 * here.step;
    const lines = [
      ...BEST[field("goal").value](points),
      pays
        ? `At least ${pays.n} nodes are needed to be faster than one node of the same strategy.`
        : `Up to ${counted(points.length)}, none are faster than one node of the same strategy.`,
      `A step on ${counted(here.n)} takes ${duration(here.step)}` +
        `${within(spread, here.step, duration)}: ` +
        `${share("compute", "input")} computing, ${share("wait")} waiting, ` +
        `${share("communicate")} communicating${atOnce ? ", partly at the same time" : ""}.`,
      `That is ${number(here.rate)} examples a second, ${number(here.speedup)} times the rate of one node, ` +
        `an efficiency of ${percent(here.efficiency)}${within(here.share, 1, percent)}.`,
      `An epoch takes ${duration(here.epoch)}${within(spread, here.epoch, duration)} ` +
        `and costs ${number(here.price)}${within(spread, here.price, number)}.`,
      spread
        ? "In parentheses: 90 % intervals of the fit, which say how well its points tell the " +
          `coefficients, as long as the formula holds.${exact(question)}`
        : "No interval is known for this case.",
    ];
    if (question.law in alone) {
      lines.push(
        `“One node” is here the same strategy on one node, ${alone[question.law]}. ` +
          "That is not plain training in one process.",
      );
    }
    return lines.map((line) => element("p", { textContent: line }));
  }

  const titleOf = (control) => control.labels[0].firstChild.textContent.trim();

  /** Say what intervals take as known. */
  function exact({ computing }) {
    const titles = moved().map(titleOf).join("; ");
    const rest = computing ? ", with all of computing" : "";
    return titles && ` What you changed counts as exact${rest}: ${titles}.`;
  }

  /** Say where the question leaves what was measured. */
  function warning(question) {
    const { batches, nodes, law, title } = preset();
    if (!presets.length) {
      return "Nothing was fitted: all values are made up.";
    }
    const said = [];
    const outside = (value, range) => range.length && (value < range[0] || value > range.at(-1));
    if (outside(question.nodes, nodes)) {
      said.push(`nodes were measured from ${nodes[0]} to ${nodes.at(-1)}`);
    }
    if (outside(question.batch, batches)) {
      said.push(`batches were measured from ${batches[0]} to ${batches.at(-1)}`);
    }
    if (question.law !== law) {
      said.push("this formula is not the one that was fitted");
    }
    if (moved().length) {
      said.push(`changed: ${moved().map(titleOf).join("; ")}`);
    }
    return said.length ? `Outside of what was measured (${title}): ${said.join("; ")}.` : "";
  }

  /** Return whole numbers for an axis from 1 to `last`: one, and multiples of a power of two. */
  function counts(last) {
    const apart = 2 ** Math.max(0, Math.round(Math.log2(last / 4)));
    const multiples = Array.from({ length: Math.floor(last / apart) }, (_, i) => (i + 1) * apart);
    return [...new Set([1, ...multiples])];
  }

  /** Return round numbers for an axis from 0 to `top`: three to six of them. */
  function roundTo(top) {
    const power = 10 ** Math.floor(Math.log10(top / 5));
    const apart = power * [1, 2, 5, 10].find((step) => step * power >= top / 5);
    return Array.from({ length: Math.floor(top / apart + 1e-9) + 1 }, (_, i) => i * apart);
  }

  /** Draw the speed-up and its intervals over the nodes, as wide as there is room; thin: at no cost. */
  function chart(points, nodes, room) {
    const [width, height, left, bottom] = [Math.max(260, Math.min(560, room)), 240, 46, 34];
    const known = points.filter(({ share }) => share);
    const [lows, highs] = [0, 1].map((end) => known.map(({ n, share }) => [n, n * share[end]]));
    const most = Math.max(...points.map(({ speedup }) => speedup), 1.2);
    const top = Math.max(most, Math.min(1.5 * most, highs.at(-1)?.[1] ?? 0)); // wide ones are cut
    const x = (n) => left + ((n - 1) / Math.max(1, points.length - 1)) * (width - left - 12);
    const share = (s) => Math.min(Math.max(0, s / top), 1);
    const y = (s) => height - bottom - share(s) * (height - bottom - 14);
    const place = ([n, s]) => `${x(n).toFixed(1)},${y(s).toFixed(1)}`;
    const line = points.map(({ n, speedup }) => place([n, speedup]));
    const around = [[1, 1], ...highs, ...lows.reverse()].map(place).join(" ");
    const band = known.length ? `<polygon class="band" points="${around}"/>` : "";
    const ticks = roundTo(top).map(
      (value) =>
        `<line class="grid" x1="${left}" x2="${width - 12}" y1="${y(value)}" y2="${y(value)}"/>
<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${number(value)}</text>`,
    );
    const marks = counts(points.length).map(
      (n) => `<text x="${x(n)}" y="${height - 16}" text-anchor="middle">${n}</text>`,
    );
    const here = points[nodes - 1];
    const ends = Math.min(top, points.length);
    return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Speed-up against one node of the same strategy, by nodes">
${ticks.join("")}${marks.join("")}
<text x="${width / 2}" y="${height - 2}" text-anchor="middle">Nodes</text>
<text x="${left}" y="10">Speed-up against one node of the same strategy</text>
<line class="ideal" x1="${x(1)}" y1="${y(1)}" x2="${x(ends)}" y2="${y(ends)}"/>
${band}<polyline class="line" points="${line.join(" ")}"/>
<circle class="here" cx="${x(nodes)}" cy="${y(here.speedup)}" r="5"/></svg>`;
  }

  function row(point, chosen) {
    const { n, b, compute, wait, input, communicate, rate, speedup, efficiency } = point;
    const { epoch, price, spread, share } = point;
    const told = (ends, value, write) => [
      write(value),
      ...(ends
        ? [element("span", { className: "nw-range", textContent: range(ends, value, write) })]
        : []),
    ];
    const cells = [
      ...[n, b].map((count) => [number(count)]),
      told(spread, point.step, duration),
      ...[compute + input, wait, communicate].map((part) => [duration(part)]),
      ...[rate, speedup].map((value) => [number(value)]),
      [percent(efficiency), ...told(share, 1, percent).slice(1)],
      told(spread, epoch, duration),
      told(spread, price, number),
    ];
    const made = element("tr", {}, ...cells.map((content) => element("td", {}, ...content)));
    [...made.children].forEach((cell) => cell.classList.add("nw-right"));
    made.classList.toggle("nw-chosen", n === chosen);
    return made;
  }

  /** Say which value is missing or not allowed; return whether one is. */
  function complain() {
    const bad = form.querySelector("input:invalid");
    const said = bad ? `${titleOf(bad)}: ${bad.validationMessage}` : "";
    box.querySelector(".nw-what-if__warning").textContent = said;
    box.classList.toggle("nw-what-if--old", Boolean(bad)); // the answer is one of before
    return Boolean(bad);
  }

  let shown = null;

  function show() {
    for (const label of form.querySelectorAll("[data-of]")) {
      label.hidden = !label.dataset.of.split(" ").includes(field("law").value);
      label.querySelector("input").disabled = label.hidden; // or it could stop the others
    }
    if (complain()) {
      return;
    }
    const question = asked();
    const points = outlook(question);
    if (!points.every(({ step }) => step > 0)) {
      box.querySelector(".nw-what-if__warning").textContent =
        "A step takes no time: give it something to compute.";
      box.classList.add("nw-what-if--old");
      return;
    }
    shown = [points, question.nodes];
    box.querySelector(".nw-what-if__warning").textContent = warning(question);
    box.querySelector(".nw-what-if__answer").replaceChildren(...sentence(question, points));
    showChart();
    const told = points.filter(({ n }) => question.told.has(n));
    const rows = told.map((one) => row(one, question.nodes));
    box.querySelector("tbody").replaceChildren(...rows);
  }

  function showChart() {
    const drawing = box.querySelector(".nw-what-if__chart");
    if (shown) {
      drawing.innerHTML = chart(...shown, drawing.clientWidth);
    }
  }

  /** Fill the form with the preset, and with what is `chosen` as far as it can be. */
  function begin(chosen = {}) {
    const own = start();
    for (const [name, value] of Object.entries(own)) {
      field(name).value = chosen[name] ?? value;
      if (field(name).value === "") {
        field(name).value = value; // what was chosen is no option, or no number
      }
    }
    show();
  }

  /** Keep in the address what differs from the preset. */
  function keep() {
    const state = new URLSearchParams();
    if (field("preset").selectedIndex > 0) {
      state.set("preset", preset().curve);
    }
    for (const [name, value] of Object.entries(start())) {
      if (field(name).value !== value) {
        state.set(name, field(name).value);
      }
    }
    const query = state.toString();
    const address = `${location.pathname}${query ? `?${query}` : ""}${location.hash}`;
    history.replaceState(null, "", address);
  }

  /** A chosen link has a rate and a latency; what is typed there is another link. */
  function follow(name) {
    if (name === "link" && field("link").value) {
      [field("rate_mbit").value, field("latency_ms").value] = field("link").value.split(" ");
    } else if (["rate_mbit", "latency_ms"].includes(name)) {
      field("link").value = "";
    }
  }

  for (const { title } of all) {
    field("preset").add(new Option(title));
  }
  form.addEventListener("input", (event) => {
    if (event.target.name === "preset") {
      begin();
    } else {
      follow(event.target.name);
      show();
    }
    keep();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    begin();
    keep();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const state = Object.fromEntries(new URLSearchParams(location.search));
  const place = all.findIndex(({ curve }) => curve === (state.preset ?? all[0].curve));
  field("preset").selectedIndex = Math.max(0, place);
  box.hidden = false;
  begin(place < 0 ? {} : state); // values that differ from a curve mean nothing without it
  addEventListener("resize", showChart);
})();
