/* Draws the charts of a page: each specification stands inline in its figure.
 *
 * The static picture stays until its chart is drawn, and for readers without scripts. A switch
 * between light and dark draws the charts again in the other theme.
 */
"use strict";
(() => {
  const NARROW = 520;
  const AXIS = 64; // pixels left of the plot, where titles do not reach
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

  /** Return the specification as this page shows it: themed, its title wrapped if it is narrow. */
  function shown(specification, width) {
    const spec = structuredClone(specification);
    spec.config = window.nodewiseThemes[dark() ? "dark" : "light"];
    if (width < NARROW) {
      spec.title.text = wrap(spec.title.text, width - AXIS, 9.6);
      spec.title.subtitle = wrap(spec.title.subtitle, width - AXIS, 7.2);
    }
    return spec;
  }

  async function draw(figure) {
    const source = figure.querySelector('script[type="application/json"]');
    figure.specification ??= JSON.parse(source.textContent);
    figure.drawing = (figure.drawing ?? Promise.resolve()).then(async () => {
      figure.drawn?.finalize();
      const target = figure.querySelector(".nw-live");
      target.hidden = false;
      const spec = shown(figure.specification, target.clientWidth);
      figure.drawn = await vegaEmbed(target, spec, { renderer: "svg", actions: false });
      figure.classList.add("nw-figure--live");
      figure.dataset.theme = dark() ? "dark" : "light";
    });
    return figure.drawing.catch((error) => {
      figure.classList.remove("nw-figure--live"); // the static picture is there
      figure.querySelector(".nw-live").hidden = true;
      console.error(error);
    });
  }

  const figures = [...document.querySelectorAll(".nw-figure")];
  const drawAll = () => figures.forEach(draw);
  drawAll();
  new MutationObserver(drawAll).observe(document.body, {
    attributeFilter: ["data-md-color-scheme"],
  });
})();
