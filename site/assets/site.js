"use strict";
/* The theme puts the button that copies an example into a landmark without a name: many on a page. */
addEventListener("load", () => {
  document.querySelectorAll(".md-code__nav").forEach((bar) => bar.setAttribute("role", "presentation"));
});

/* Filters a list, such as that of cells; what is chosen stands in the address, so that it can be shared. */
for (const form of document.querySelectorAll(".nw-filter")) {
  const rows = [...document.querySelectorAll("[data-cell], .nw-every tbody tr")];
  const count = form.querySelector("output");
  const wanted = new URLSearchParams(location.search);
  const names = [...document.querySelectorAll("[data-cell] .nw-name")];
  const titles = new Map(names.map((name) => [name.value, name.textContent]));

  for (const select of form.querySelectorAll("select")) {
    const values = [...new Set(rows.map((row) => row.dataset[select.name]))];
    values.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    select.append(...values.map((value) => new Option(titles.get(value) ?? value, value)));
    select.value = values.includes(wanted.get(select.name)) ? wanted.get(select.name) : "";
  }
  form.elements.text.value = wanted.get("text") ?? "";

  const filter = () => {
    const chosen = [...new FormData(form)].filter(([, value]) => value !== "");
    const fits = (row, name, value) =>
      name === "text"
        ? row.textContent.toLowerCase().includes(value.toLowerCase())
        : row.dataset[name] === value;
    for (const row of rows) {
      row.hidden = !chosen.every(([name, value]) => fits(row, name, value));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    count.value = `${shown} of ${rows.length} ${count.dataset.of}`;
    const query = new URLSearchParams(chosen).toString();
    history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter();
}
