"use strict";
(() => {
  const text = (value, dollars) => {
    const size = Math.abs(value);
    if (dollars) return "$" + (size >= 1 ? value.toFixed(2) : Number(value.toPrecision(2)).toString());
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return size >= 10 ? value.toFixed(1) : Number(value.toPrecision(3)).toString();
  };

  // Values under the pointer, read back from the drawn points.
  const hint = document.createElement("div");
  hint.id = "hint";
  hint.hidden = true;
  document.body.append(hint);
  // Any path of a chart, so that the new one is of SVG.
  const cross = document.querySelector("svg path")?.cloneNode();
  cross?.setAttribute("class", "cross");

  const nearest = (line, at) => {
    let best = null;
    for (const { x, y } of line.points) {
      if (best === null || Math.abs(x - at) <= Math.abs(best.x - at)) best = { x, y };
    }
    return best;
  };

  const show = (chart, event) => {
    const [left, top, right, bottom] = chart.dataset.box.split(" ").map(Number);
    const [x0, x1, y0, y1] = chart.dataset.range.split(" ").map(Number);
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
    if (at < left || at > right) return hide();
    // Lines that end elsewhere have no value here.
    const here = ({ points }) => points[0].x <= at + 3 && points[points.length - 1].x >= at - 3;
    const lines = [...chart.querySelectorAll("polyline")].filter(here).map((line) => [line, nearest(line, at)]);
    if (!lines.length) return hide();
    const place = lines.map(([, point]) => point.x).reduce((a, b) => (Math.abs(a - at) < Math.abs(b - at) ? a : b));
    const axis = chart.dataset.axis;
    const where = x0 + ((place - left) / (right - left)) * (x1 - x0);
    const head = document.createElement("b");
    const unit = { steps: " steps", seconds: " s" }[axis] || "";
    head.textContent = (axis === "round" ? "round " : "") + text(where, axis === "dollars") + unit;
    hint.replaceChildren(head);
    for (const [line, point] of lines) {
      const row = document.createElement("div");
      const key = document.createElement("i");
      key.className = "key " + line.getAttribute("class");
      row.append(key, `${line.dataset.name}: ${text(y0 + ((bottom - point.y) / (bottom - top)) * (y1 - y0))}`);
      hint.append(row);
    }
    cross.setAttribute("d", `M${place} ${top}V${bottom}`);
    chart.append(cross);
    hint.hidden = false;
    const wide = document.documentElement.clientWidth;
    hint.style.left = Math.max(4, Math.min(event.pageX + 14, wide - hint.offsetWidth - 8)) + "px";
    hint.style.top = event.pageY + 16 + "px";
  };
  const hide = () => {
    hint.hidden = true;
    cross?.remove();
  };
  for (const chart of document.querySelectorAll("svg[data-box]")) {
    chart.addEventListener("pointermove", (event) => show(chart, event));
    chart.addEventListener("pointerleave", hide);
    // The hint takes the place of the titles, which screen readers still get.
    chart.setAttribute("aria-label", chart.querySelector("title").textContent);
    for (const title of chart.querySelectorAll("title")) title.remove();
  }

  // One choice of the axis for all charts.
  for (const input of document.querySelectorAll(".switch > input")) {
    input.addEventListener("change", () => {
      for (const other of document.querySelectorAll(`.switch > input.${input.className}`)) other.checked = true;
    });
  }

  // Tables are sorted by a click on a column's head: by the number or the time that a cell begins with, or by its text.
  const value = (row, column) => {
    const written = row.cells[column].textContent.trim();
    if (/^\d+(:\d\d)+$/.test(written)) return written.split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
    const number = /^[+-]?\$?[\d,]*\.?\d+(?=$|[ %])/.exec(written);
    return number ? Number(number[0].replace(/[$,]/g, "")) : written;
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  for (const table of document.querySelectorAll("table")) {
    const head = table.tHead && table.tHead.rows[0];
    if (!head || table.tBodies[0].rows.length < 2) continue;
    [...head.cells].forEach((cell, column) => {
      cell.classList.add("sorts");
      cell.tabIndex = 0;
      const sort = () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        for (const other of head.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (down ? -1 : 1) * compare(value(a, column), value(b, column)));
        table.tBodies[0].append(...rows);
      };
      cell.addEventListener("click", sort);
      cell.addEventListener("keydown", (event) => event.key === "Enter" && sort());
    });
  }

  const opened = new Map();
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details:not(.run)")) {
      opened.set(each, each.open);
      each.open = true;
    }
  });
  addEventListener("afterprint", () => opened.forEach((open, each) => (each.open = open)));
})();
