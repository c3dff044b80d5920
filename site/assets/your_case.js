/* The page "Your case": answers what the form says, and keeps it in the address. */
"use strict";
(() => {
  const { stepSeconds } = window.nodewiseForecast;
  const data = JSON.parse(document.getElementById("nw-case-data").textContent);
  const box = document.getElementById("case");
  const form = box.querySelector("form");
  const HALF = 0.5; // of a device: what a further one must add to pay, as in predict/answers.py
  const THROUGHPUT =
    "This counts examples: a larger global batch may need more of them (“Converges like”).";
  const HEIGHT = 300; // pixels of the chart
  const JOB = ["most", "examples", "price"]; // fields that do not change a step
  const control = (name) => form.elements.namedItem(name);
  const value = (name) => control(name).value;
  const number = (name) => Number.parseFloat(value(name));
  const currency = () => value("price").trim().split(/ +/)[1];
  const controls = [...form.elements].filter(({ name }) => name && name !== "preset");
  const preset = () => data.presets[value("preset")];

  const digits = (most) => new Intl.NumberFormat("en", { maximumSignificantDigits: most }).format;
  const [two, three, exact] = [digits(2), digits(3), digits(15)];
  const plain = (number) => exact(number).replaceAll(",", "");
  const percent = (share) => `${two(100 * share)} %`;

  function duration(seconds) {
    const units = [["µs", 1e-6, 1e-3], ["ms", 1e-3, 1], ["s", 1, 120], ["min", 60, 7200]];
    const last = seconds < 48 * 3600 ? ["h", 3600] : ["days", 86400];
    const [unit, size] = units.find(([, , below]) => seconds < below) ?? last;
    return `${three(seconds / size)} ${unit}`;
  }

  /** Say what is wrong with a number; empty if nothing is. */
  function problem({ value: typed, dataset: { least, most, whole, word } }) {
    const text = typed.trim().replace(word ? / +[\p{L}\p{Sc}]{1,20}$/u : "", "");
    if (!/^-?\d*\.?\d+(e[+-]?\d+)?$/i.test(text)) {
      const hint = text.includes(",") ? "; write a point for decimals, and no comma" : "";
      return text ? `“${text}” is not a number${hint}.` : "A number is needed here.";
    }
    if (whole && !Number.isInteger(Number(text))) {
      return "Must be a whole number.";
    }
    const inside = Number(text) >= Number(least) && Number(text) <= Number(most);
    return inside ? "" : `Must be from ${exact(least)} to ${exact(most)}.`;
  }

  /** Show the fields that apply, and what is wrong with them; return whether all are right. */
  function check() {
    for (const part of form.querySelectorAll("[data-when]")) {
      const [name, ...values] = part.dataset.when.split(" ");
      part.hidden = !values.some((one) =>
        one.startsWith("!") ? value(name) !== one.slice(1) : value(name) === one,
      );
    }
    const problems = [...form.querySelectorAll("input")].map((input) => {
      const said = input.closest("[hidden]") ? "" : problem(input);
      document.getElementById(`${input.id}-error`).textContent = said;
      input.setAttribute("aria-invalid", String(Boolean(said)));
      return said;
    });
    return problems.every((said) => !said);
  }

  /** Fill the form with the chosen preset and what an address says; return what the preset says. */
  function begin(state = new URLSearchParams()) {
    const chosen = value("preset");
    form.reset();
    control("preset").value = chosen;
    for (const { name } of controls) {
      control(name).value = preset()[name] ?? value(name);
    }
    const started = Object.fromEntries(controls.map(({ name }) => [name, value(name)]));
    for (const { name } of controls.filter((one) => state.has(one.name))) {
      control(name).value = state.get(name);
      if (!value(name)) {
        control(name).value = started[name]; // no such option
      }
    }
    return started;
  }

  const changed = () => Object.keys(start).filter((name) => value(name) !== start[name]);

  function keep() {
    const state = new URLSearchParams(changed().map((name) => [name, value(name)]));
    if (value("preset") !== FIRST) {
      state.set("preset", value("preset"));
    }
    const query = state.size ? `?${state}` : "";
    history.replaceState(null, "", location.pathname + query + location.hash);
  }

  /** Return the rates of a link by family, with what was typed. */
  function link(level) {
    const { link: rates } = data[level][value(level)];
    const typed = 1.25e8 * number(`${level}_gbit`);
    const of = (family) => (family === "rdma" && typed > data.card ? "rails" : family);
    const all = Object.entries(rates);
    return Object.fromEntries(all.map(([name, rate]) => (rate ? [name, rate] : [of(name), typed])));
  }

  /** Return powers of two within a machine, doublings of whole machines, and the most devices. */
  function counts(inside, most) {
    const all = [];
    for (let n = 1; n < most; n = n < inside ? Math.min(2 * n, inside) : 2 * n) {
      all.push(n);
    }
    return most > inside && most % inside ? all : [...all, most]; // machines are whole
  }

  /** Return what each number of devices does. */
  function answers() {
    const [inside, batch, speed] = ["inside", "batch", "speed"].map(number);
    const first = value("unit") === "ms" ? speed / 1e3 : batch / speed; // seconds of a step
    const fixed = value("scaling") === "global" && number("global");
    const law = data.laws[value("like")];
    const cluster = { inside, within: link("within"), between: link("between") };
    const training = {
      parameters: 1e6 * number("parameters"),
      bytes: value("gradients").split(" ").map(Number),
      traffic: number("traffic"),
      hidden: value("overlap") === "none" ? 0 : undefined,
    };
    const rows = counts(inside, Math.min(number("most"), fixed || Infinity)).map((n) => {
      const each = fixed ? fixed / n : batch;
      const code = n > 1 ? number("codec") / 1e3 : 0;
      const step = stepSeconds(data, cluster, training, first, n, each / batch) + code;
      const examples = law ? law.steps * n * each + law.examples : number("examples");
      const time = (examples / (n * each)) * step;
      const level = n > inside ? "between" : "within";
      const judged = n > 1 ? data[level][value(level)] : { off: 0 };
      const off = Math.exp(Math.hypot(Math.log1p(judged.off), law ? Math.log1p(data.law_off) : 0));
      const cost = (n * time * number("price")) / 3600;
      return { n, each, step, rate: (n * each) / step, examples, time, cost, judged, off };
    });
    for (const row of rows) {
      row.speedup = rows[0].time / row.time;
      row.efficiency = row.speedup / row.n;
      row.low = row.speedup / row.off;
      row.high = Math.max(row.speedup, Math.min(row.n, row.speedup * row.off));
    }
    return { rows, law, fixed };
  }

  const range = ({ n, low, high }) => `${two(low)} to ${high === n ? exact(n) : two(high)}`;

  /** Return the largest number of devices that pays: each that it adds brings half of one. */
  function knee(rows) {
    const added = (one, row) => (row.speedup - one.speedup) / (row.n - one.n);
    return rows.findLast((row, i) => i === 0 || added(rows[i - 1], row) >= HALF);
  }

  /** Return the answer in sentences; the first one says how many devices. */
  function sentences({ rows, law, fixed }) {
    const [one, best] = [rows[0], knee(rows)];
    const next = rows[rows.indexOf(best) + 1];
    const fastest = rows.reduce((a, b) => (b.time < a.time ? b : a));
    const does = law ? "reach the target" : "train";
    const faster = (row) =>
      `${exact(row.n)} devices ${does} ${two(row.speedup)} times as fast as one (${range(row)})`;
    const what = law
      ? `Training to the target of ${law.title}`
      : `Training on ${exact(number("examples"))} examples`;
    const dear = one.cost ? ` and costs ${three(best.cost / one.cost)} times as much` : "";
    const alone = next ? "One device is the best value." : "This is one device alone.";
    const less = "Each further device adds less than half the speed of one.";
    const rest = next ? "No other number that was compared is faster." : "More were not compared.";
    const lines = [best.n > 1 ? `${faster(best)}.` : alone];
    const instead = best.n > 1 ? ` instead of ${duration(one.time)}${dear}` : "";
    lines.push(`${what} takes ${duration(best.time)}${instead}.`);
    lines.push(...(fastest === best ? [rest] : [less, `Fastest of these: ${faster(fastest)}.`]));
    if (law && !fixed) {
      const batch = best.n * best.each;
      const more = (2 * law.steps * batch + law.examples) / best.examples - 1;
      lines.push(`Twice the batch of ${exact(batch)} needs ${percent(more)} more examples.`);
    }
    return lines;
  }

  /** Say where the ranges come from, and what is not known. */
  function basis({ rows, law }, measured) {
    const kinds = [...new Set(rows.slice(1).map(({ judged }) => judged))];
    const of = (count, noun) => `${exact(count)} ${noun}${count === 1 ? "" : "s"}`;
    const each = kinds.map(
      ({ judged, off, points, publishers }) =>
        `${three(1 + off)} over ${judged} (${of(points, "test")} by ${of(publishers, "publisher")})`,
    );
    const lines = [];
    if (each.length) {
      const off = [...each, ...(law ? [`${three(1 + data.law_off)} in examples`] : [])].join(", ");
      lines.push(`Ranges: nine in ten forecasts tested on such links, or the most similar ones, were off by at most a factor of ${off}.`);
    }
    if (rows.at(-1).n > data.checked) {
      lines.push(`Beyond ${data.checked} devices few were tested.`);
    }
    if (1e6 * number("parameters") > data.largest) {
      lines.push(`No tested model had more than ${three(data.largest / 1e6)} million parameters.`);
    }
    const href = preset().source;
    const rings = href ? element("a", { href, textContent: "published measurements" }) : "our measurements";
    const text = [...lines, law ? "" : THROUGHPUT].join(" ");
    return measured ? [text, " Rings: ", rings, "."] : [text];
  }

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  const badge = (kind) =>
    element("span", { className: `nw-kind nw-kind--${kind}`, textContent: kind });

  /** Fill the table: title of a column, what it says of a row, and what stands below. */
  function fill(table, { rows, law, fixed }, measured) {
    const seen = ({ n }) => (measured[n] ? `${two(measured[n] / measured[1])}×` : "–");
    const origin = badge(preset().source ? "published" : "emulated");
    const columns = [
      ["Devices", ({ n }) => exact(n)],
      fixed && ["Batch of each", ({ each }) => (Number.isInteger(each) ? exact : three)(each)],
      ["Step", ({ step }) => duration(step), undefined, "nw-detail"],
      ["Examples/s", ({ rate }) => three(rate), undefined, "nw-detail"],
      ["Speed-up", ({ speedup }) => `${two(speedup)}×`, (row) => (row.n > 1 ? range(row) : "")],
      measured && ["Measured", seen],
      ["Efficiency", ({ efficiency }) => percent(efficiency), undefined, "nw-detail"],
      law && ["Examples", ({ examples }) => three(examples)],
      [law ? "Time to target" : "Time", ({ time }) => duration(time)],
      number("price") > 0 && [currency() ? `Cost (${currency()})` : "Cost", ({ cost }) => three(cost)],
    ].filter(Boolean);
    const head = ([title, , , className = ""]) =>
      element("th", { scope: "col", className }, title, ...(title === "Measured" ? [" ", origin] : []));
    const cell = (row, [, write, below = () => "", className = ""]) => {
      const ends = element("span", { className: "nw-range", textContent: below(row) });
      const told = element("data", { value: write(row), textContent: write(row) });
      return element("td", { className }, told, ...(below(row) ? [ends] : []));
    };
    const lines = rows.map((row) => {
      const made = element("tr", {}, ...columns.map((column) => cell(row, column)));
      made.classList.toggle("nw-chosen", row === knee(rows));
      return made;
    });
    table.className = "nw-table";
    table.caption.replaceChildren(badge("predicted"), measured ? " unless a column says otherwise" : "");
    table.setAttribute("style", columns.map((_, i) => `--a${i + 1}: right`).join("; "));
    table.tHead.replaceChildren(element("tr", {}, ...columns.map(head)));
    table.tBodies[0].replaceChildren(...lines);
  }

  /** Draw speed-ups with their ranges, what was measured, and the ideal; both axes double. */
  function chart(rows, measured, width) {
    const [left, right, top, bottom] = [40, 16, 24, 40]; // margins
    const last = rows.at(-1).n;
    const most = Math.max(1, Math.log2(last));
    const least = Math.min(0, ...rows.map(({ low }) => Math.floor(Math.log2(low))));
    const x = (n) => left + (Math.log2(n) / most) * (width - left - right);
    const up = (HEIGHT - top - bottom) / (most - least); // pixels of a doubling
    const y = (s) => HEIGHT - bottom - (Math.log2(s) - least) * up;
    const doublings = Math.floor(most) - least;
    const heights = Array.from({ length: doublings + 1 }, (_, i) => 2 ** (least + i));
    const text = (at, high, said, anchor) =>
      `<text x="${at}" y="${high}" text-anchor="${anchor}">${said}</text>`;
    const line = (name, from, to) =>
      `<line class="${name}" x1="${from[0]}" y1="${from[1]}" x2="${to[0]}" y2="${to[1]}"/>`;
    const dot = (name, n, s, size) =>
      `<circle class="${name}" cx="${x(n)}" cy="${y(s)}" r="${size}"/>`;
    const points = rows.map(({ n, speedup }) => `${x(n)},${y(speedup)}`);
    const seen = Object.entries(measured).filter(([n]) => n <= last);
    return [
      ...heights.map((s) => line("grid", [left, y(s)], [width - right, y(s)])),
      ...heights.map((s) => text(left - 8, y(s) + 4, three(s), "end")),
      ...rows.map(({ n }) => text(x(n), HEIGHT - 20, exact(n), "middle")),
      text(left, 12, "Times as fast as one device (dashed: ideal)", "start"),
      text((left + width) / 2, HEIGHT - 3, "Devices", "middle"),
      line("ideal", [x(1), y(1)], [x(last), y(last)]),
      ...rows.map(({ n, low, high }) => line("range", [x(n), y(low)], [x(n), y(high)])),
      `<polyline class="line" points="${points.join(" ")}"/>`,
      ...rows.map(({ n, speedup }) => dot("point", n, speedup, 4)),
      ...seen.map(([n, rate]) => dot("measured", n, rate / measured[1], 6)),
    ].join("");
  }

  /** Return the command that answers the same, as far as it has options for it. */
  function command({ rows, law, fixed }) {
    const [inside, speed] = [number("inside"), number("speed")];
    const sent = Math.max(1, Math.round(1e6 * number("parameters") * number("traffic")));
    const precision = { 4: "fp32", 2: "fp16", "2 4": "amp" }[value("gradients")];
    const rate = (level) => `${plain(number(`${level}_gbit`))}gbit${value(level).slice(4)}`;
    const named = (level) => (value(level).startsWith("rate") ? rate(level) : value(level));
    const machines = rows.filter(({ n }) => n >= inside).map(({ n }) => n / inside);
    return [
      "nodewise forecast",
      value("unit") === "ms" ? `--step-time ${plain(speed / 1e3)}` : `--throughput ${plain(speed)}`,
      `--batch ${plain(number("batch"))}`,
      `--parameters ${plain(sent)} --precision ${precision}`,
      `--devices-per-node ${inside}`,
      inside > 1 ? `--within ${named("within")}` : "",
      `--between ${named("between")} --nodes ${machines.join(",") || 1}`,
      fixed ? `--global-batch ${plain(fixed)}` : "",
      law ? `--converges-like ${value("like")}` : `--examples ${plain(number("examples"))}`,
      number("price") > 0 ? `--price '${value("price").trim()}'` : "",
    ]
      .filter(Boolean)
      .join(" ");
  }

  function show() {
    const right = check();
    box.classList.toggle("nw-case--old", !right);
    if (!right) {
      return;
    }
    const told = answers();
    const same = changed().every((name) => JOB.includes(name));
    const measured = same ? preset().measured : {};
    const [first, ...rest] = sentences(told);
    const answer = [element("strong", {}, first), " ", badge("predicted"), ` ${rest.join(" ")}`];
    box.querySelector(".nw-case__answer").replaceChildren(...answer);
    box.querySelector(".nw-case__basis").replaceChildren(...basis(told, same));
    fill(box.querySelector("table"), told, same && measured);
    const drawing = box.querySelector(".nw-case__chart");
    const width = Math.min(Math.max(drawing.parentElement.clientWidth, 260), 640);
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    drawing.innerHTML = chart(told.rows, measured, width);
    drawing.setAttribute("aria-label", `Speed-up by number of devices. ${first}`);
    box.querySelector("code").textContent = command(told);
  }

  const state = new URLSearchParams(location.search);
  const FIRST = value("preset");
  if (Object.hasOwn(data.presets, state.get("preset"))) {
    control("preset").value = state.get("preset");
  }
  let start = begin(state);
  form.addEventListener("input", ({ target }) => {
    if (target.name === "preset") {
      start = begin();
    }
    show();
    keep();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("resize", show);
  form.hidden = false;
  show();
})();
