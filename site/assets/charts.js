/* Draws the charts of a page, those on the screen first. The specification of each is a script of its
 * own: a page that is opened from a folder can load nothing else. Vega is large: it is loaded when a
 * reader begins to use the page.
 *
 * The static picture stays until its chart is drawn, and for readers without scripts. A switch
 * between light and dark draws the charts again.
 */
"use strict";
(() => {
  const SIGNS = ["pointermove", "pointerdown", "touchstart", "wheel", "scroll", "keydown"];
  const ROOT = new URL("..", document.currentScript.src);
  const NARROW = 520;
  const LETTER = 7.2; // pixels of a letter; this and the next one are as in drawing.py
  const GAP = 12;
  const NOTHING = ["", "null", null]; // as Vega writes missing names and numbers
  const dark = () => document.body.dataset.mdColorScheme === "slate";

  /** Break a line of text into lines that fit `width` pixels at about `size` pixels a letter. */
  function wrap(text, width, size) {
    const lines = [];
    for (const word of text.split(" ")) {
      const last = lines.length - 1;
      if (last >= 0 && (lines[last].length + word.length + 1) * size <= width) {
        lines[last] += ` ${word}`;
      } else {
        lines.push(word);
      }
    }
    return lines;
  }

  /** Return the specification as this page shows it: themed, and as wide as there is. */
  function shown(specification, width) {
    const spec = structuredClone(specification);
    const { panels, letters, left, least } = spec.usermeta;
    const { layer } = spec.spec ?? spec;
    for (const { mark } of layer) {
      if (["point", "bar"].includes(mark.type)) {
        mark.cursor = { expr: "datum.page ? 'pointer' : null" };
      }
    }
    spec.description = `${spec.title.text}. Its numbers are below.`;
    spec.config = structuredClone(window.nodewiseThemes[dark() ? "dark" : "light"]);
    const fitting = Math.floor((width - left) / (LETTER * letters + 40));
    spec.config.legend.columns = Math.max(1, fitting);
    spec.title.text = wrap(spec.title.text, width, 9.6);
    spec.title.subtitle = wrap(spec.title.subtitle, width, LETTER);
    if (panels) {
      spec.columns = Math.min(spec.columns, Math.max(1, Math.floor((width - left) / least)));
      spec.spec.width = Math.floor((width - left) / spec.columns) - GAP;
    } else if (width < NARROW && layer.every(({ encoding }) => encoding.y?.type !== "nominal")) {
      spec.height *= 0.75;
    }
    const room = panels ? spec.spec.width : width - left;
    for (const { encoding } of layer) {
      if (encoding.x?.title) {
        encoding.x.title = wrap(encoding.x.title, room, LETTER);
      }
    }
    return spec;
  }

  /** Run the script at an address. */
  function run(address) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${script.src} cannot be loaded`));
      document.head.append(script);
    });
  }

  let vega = null;

  /** Load Vega and the settings of both themes, once. */
  function loadVega() {
    const names = ["themes.js", "vega.js"];
    return (vega ??= Promise.all(names.map((name) => run(new URL(`charts/${name}`, ROOT)))));
  }

  /** Return what pointing at a mark tells: no row without a value, and where a click leads. */
  function told(values, escape) {
    const { Cell: cell, ...rows } = values;
    const filled = Object.entries(rows).filter(([, value]) => !NOTHING.includes(value));
    const cells = (row) =>
      `<td class="key">${escape(row[0])}</td><td class="value">${escape(row[1])}</td>`;
    const table = filled.map((row) => `<tr>${cells(row)}</tr>`).join("");
    const how = matchMedia("(hover: none)").matches ? "Tap again" : "Click";
    return `<table><tbody>${table}</tbody></table>${cell ? `<p>${how} to open its page</p>` : ""}`;
  }

  let touched = null;

  /** Go from a point or a bar to the page of its curve; of two touches the first one only tells. */
  function follow(event, item) {
    if (!item?.datum?.page || !["symbol", "rect"].includes(item.mark.marktype)) {
      return;
    }
    if (event.pointerType === "touch" && touched !== item) {
      touched = item;
      return;
    }
    const address = new URL(item.datum.page, ROOT);
    if (event.ctrlKey || event.metaKey) {
      window.open(address);
    } else {
      location.assign(address);
    }
  }

  async function draw(figure) {
    const target = figure.querySelector(".nw-live");
    try {
      await loadVega();
      if (!figure.specification) {
        await run(figure.dataset.script);
        figure.specification = window.nodewiseCharts[figure.dataset.name];
      }
      figure.drawn?.finalize();
      target.hidden = false;
      const spec = shown(figure.specification, target.clientWidth);
      figure.drawn = await vegaEmbed(target, spec, {
        renderer: "svg",
        actions: false,
        tooltip: {
          formatTooltip: told,
          theme: dark() ? "dark" : "light",
          offsetX: 16,
          offsetY: 16,
        },
      });
      figure.drawn.view.addEventListener("click", follow);
      figure.classList.add("nw-figure--live");
      figure.dataset.theme = dark() ? "dark" : "light";
      performance.mark("nodewise:chart", { detail: figure.dataset.name });
    } catch (error) {
      figure.classList.remove("nw-figure--live"); // the static picture is there
      target.hidden = true;
      console.error(error);
    }
    if (!waiting.has(figure)) {
      figure.removeAttribute("aria-busy");
    }
  }

  const figures = [...document.querySelectorAll(".nw-figure")];
  const waiting = new Set();
  let drawing = false;

  /** Return the waiting figure that is nearest to the screen; hidden and folded ones go on waiting. */
  function nearest() {
    const away = ({ top, bottom }) => Math.max(top - innerHeight, -bottom, 0);
    const shown = [...waiting].filter((figure) => figure.checkVisibility());
    const places = shown.map((figure) => [away(figure.getBoundingClientRect()), figure]);
    return places.sort(([one], [other]) => one - other)[0]?.[1];
  }

  async function drawAll() {
    SIGNS.forEach((sign) => removeEventListener(sign, drawAll));
    for (const figure of figures) {
      waiting.add(figure);
      figure.setAttribute("aria-busy", "true");
    }
    await drawWaiting();
  }

  /** Draw the figures that wait and are on the page, nearest first. */
  async function drawWaiting() {
    if (drawing) {
      return;
    }
    drawing = true;
    await new Promise(requestAnimationFrame); // the page is where its address leads
    for (let figure = nearest(); figure; figure = nearest()) {
      waiting.delete(figure);
      await draw(figure);
      await new Promise((go) => setTimeout(go)); // what the reader does comes first
    }
    drawing = false;
  }
  SIGNS.forEach((sign) => addEventListener(sign, drawAll, { passive: true }));
  document.addEventListener("toggle", () => waiting.size && drawWaiting(), true); // unfolded
  let width = innerWidth;
  let settled = null;
  addEventListener("resize", () => {
    clearTimeout(settled);
    settled = setTimeout(() => {
      if (innerWidth !== width && vega) {
        width = innerWidth; // titles are broken for it; of heights alone nothing depends
        drawAll();
      }
    }, 200);
  });
  new MutationObserver(() => vega && drawAll()).observe(document.body, {
    attributeFilter: ["data-md-color-scheme"],
  });
})();
