/* Tables of the class "sortable" are sorted by buttons in their headers. Tables that are wider than
   the page, and have no buttons, can be focused, to be scrolled by keys. */
(() => {
  "use strict";

  const arrows = { ascending: "descending", descending: "ascending" };

  /* What a cell is sorted by: its number, else its text in lower case. */
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim();
    return cell.dataset.value ?? text;
  };

  /* Numbers if all that is not missing is a number, in which case missing ones are NaN. */
  const keys = (rows, column) => {
    const texts = rows.map((row) => key(row, column));
    const missing = (text) => text === "" || text === "nan";
    const given = texts.filter((text) => !missing(text));
    const value = (text) => Number(text.replace("inf", "Infinity"));
    if (given.length > 0 && given.every((text) => !Number.isNaN(value(text)))) {
      return texts.map((text) => (missing(text) ? NaN : value(text)));
    }
    return texts.map((text) => text.toLowerCase());
  };

  /* Negative where a comes first; missing numbers come last in both directions. */
  const compare = (a, b, sign) => {
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    if (a === b) return 0;
    return a < b ? -sign : sign;
  };

  const sort = (table, header) => {
    const direction = arrows[header.getAttribute("aria-sort")] ?? "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const values = keys(rows, header.cellIndex);
    const order = rows.map((_, k) => k).sort((j, k) => compare(values[j], values[k], sign));
    body.append(...order.map((k) => rows[k]));
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
  };

  const makeSortable = (table) => {
    for (const header of table.tHead.rows[0].cells) {
      if (header.textContent.trim() === "") continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, header));
      header.append(button);
    }
  };

  const makeScrollable = (frame) => {
    if (frame.querySelector("button") !== null) return;
    new ResizeObserver(() => {
      if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
      else frame.removeAttribute("tabindex");
    }).observe(frame);
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.sortable").forEach(makeSortable);
    document.querySelectorAll("div.table").forEach(makeScrollable);
  });
})();
