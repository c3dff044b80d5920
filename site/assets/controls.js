/* The controls of a page's charts: filters by what was measured, and switches of how values are
 * drawn. They act on all charts of the page and on the tables below them. What is chosen stands in
 * the address, so that it survives a reload and can be shared.
 *
 * Every card tells in its data attributes what it can be filtered by and how it can be looked at.
 * Only what makes a difference on this page is offered.
 */
"use strict";
(() => {
  // a filter: its title, and the columns of charts and tables that it is about
  const FILTERS = {
    model: ["Model", ["model"]],
    strategy: ["Strategy", ["strategy", "line"]],
    batch: ["Batch per worker", ["batch_per_worker"]],
    nodes: ["Nodes", ["nodes"]],
  };
  const OWN = ["", "as each chart does"];
  const SWITCHES = {
    views: ["Values", [OWN, ["absolute", "absolute"], ["speedup", "speed-up"]]],
    scale: ["Axis of values", [OWN, ["log", "logarithmic"], ["linear", "linear"]]],
  };
  const COMPARED = "published"; // stands where a strategy would: what is compared with stays

  const cards = [...document.querySelectorAll(".nw-figure")].map((one) => one.closest(".nw-card"));
  const told = (card, name) => card.dataset[name]?.split("|") ?? [];
  // names of models and strategies -> what readers are told for them
  const titles = new Map(
    cards.flatMap((card) =>
      Object.keys(FILTERS).flatMap((name) => {
        const known = told(card, `${name}Titles`);
        return told(card, name).map((value, index) => [value, known[index] ?? value]);
      }),
    ),
  );
  const offered = (name) =>
    [...new Set(cards.flatMap((card) => told(card, name)))].sort((a, b) =>
      a.localeCompare(b, "en", { numeric: true }),
    );

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function filter(name, [title], values) {
    const boxes = values.map((value) =>
      element("label", {}, element("input", { type: "checkbox", name, value }), titles.get(value)),
    );
    return element("fieldset", {}, element("legend", {}, title), ...boxes);
  }

  function choice(name, [title, options]) {
    const made = options.map(([value, text]) => new Option(text, value));
    return element("label", {}, title, element("select", { name }, ...made));
  }

  const groups = [
    ...Object.entries(FILTERS)
      .map(([name, about]) => [name, about, offered(name)])
      .filter(([, , values]) => values.length > 1)
      .map(([name, about, values]) => filter(name, about, values)),
    ...(offered("views").length > 1 ? [choice("views", SWITCHES.views)] : []),
    ...(offered("views").length > 0 ? [choice("scale", SWITCHES.scale)] : []),
  ];
  const count = element("output", {});
  const form = element(
    "form",
    {},
    ...groups,
    element("button", { type: "reset" }, "Show everything"),
  );

  /** What is chosen: the name of a control -> the set of its values; nothing if it is all. */
  let chosen = new Map();

  function read() {
    chosen = new Map();
    for (const [name, value] of new FormData(form)) {
      if (value !== "") {
        chosen.set(name, (chosen.get(name) ?? new Set()).add(value));
      }
    }
  }

  /** Return whether a row, column -> value, is among what is chosen. */
  function keeps(row) {
    return Object.entries(FILTERS).every(([name, [, columns]]) => {
      const column = columns.find((one) => one in row);
      const value = String(row[column]);
      return !chosen.has(name) || !column || value === COMPARED || chosen.get(name).has(value);
    });
  }

  /** Hide the rows that are not chosen; return whether any is left. */
  function filterTable(table) {
    const names = [...table.tHead.rows[0].cells].map((head) => head.dataset.name);
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      const values = names.map((name, index) => {
        const cell = row.cells[index];
        return [name, cell.querySelector(".nw-name")?.value ?? cell.textContent];
      });
      row.hidden = !keeps(Object.fromEntries(values));
    }
    return rows.some((row) => !row.hidden);
  }

  function filterCard(card) {
    const shares = Object.keys(FILTERS).every((name) => {
      const values = told(card, name);
      return !chosen.has(name) || !values.length || values.some((one) => chosen.get(name).has(one));
    });
    const left = filterTable(card.querySelector("table")); // whether or not the card is shown
    card.hidden = !(shares && left);
  }

  /** Hide groups of cards without any left, and the heading right above them. */
  function hideEmpty(group) {
    group.hidden = [...group.children].every((card) => card.hidden);
    const fold = group.closest(".nw-more");
    if (fold) {
      fold.hidden = group.hidden;
      return; // it stands below the cards of its heading
    }
    let after = group.nextElementSibling;
    if (after?.matches(".nw-more")) {
      const folded = [...after.querySelectorAll(".nw-card")];
      after = folded.every((card) => card.hidden) ? after.nextElementSibling : after;
    }
    const alone = !after || after.matches("h2");
    const heads = alone ? "h2, h3, h4, h5, .nw-sub" : "h3, h4, h5, .nw-sub";
    let above = group.previousElementSibling;
    while (above?.matches(heads)) {
      above.hidden = group.hidden;
      above = above.previousElementSibling;
    }
  }

  function apply() {
    read();
    cards.forEach(filterCard);
    document.querySelectorAll(".nw-figures").forEach(hideEmpty);
    const shown = cards.filter((card) => !card.hidden).length;
    count.value = chosen.size ? `${shown} of ${cards.length} charts` : "";
    document.dispatchEvent(new Event("nodewise:chosen"));
  }

  function remember() {
    const query = new URLSearchParams(
      [...chosen].flatMap(([name, values]) => [...values].map((value) => [name, value])),
    );
    const address = chosen.size ? `?${query}` : location.pathname;
    history.replaceState(null, "", address + location.hash);
  }

  function restore() {
    const wanted = new URLSearchParams(location.search);
    for (const control of form.elements) {
      const values = wanted.getAll(control.name);
      if (control.type === "checkbox") {
        control.checked = values.includes(control.value);
      } else if ([...(control.options ?? [])].some((option) => option.value === values[0])) {
        control.value = values[0];
      }
    }
  }

  window.nodewiseControls = {
    keeps,
    /** The view and the scale that are chosen, "" for each chart's own. */
    look: () => ["views", "scale"].map((name) => [...(chosen.get(name) ?? [""])][0]),
    /** Whether only some of the values of `name` are chosen. */
    filters: (name) => chosen.has(name),
  };
  if (!groups.length) {
    return;
  }
  const panel = element(
    "details",
    { className: "nw-controls" },
    element("summary", {}, "Filter the charts ", count),
    form,
  );
  const head = document.querySelector("article h1");
  (head.closest(".nw-hero") ?? head).after(panel);
  form.addEventListener("input", () => {
    apply();
    remember();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () =>
    setTimeout(() => {
      apply();
      remember();
    }),
  );
  restore();
  apply();
  panel.open = chosen.size > 0; // a shared address shows what it chose
})();
