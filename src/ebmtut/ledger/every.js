// Sorting by the heads of the table of every verdict, and its filters.
(() => {
  const box = document.currentScript.previousElementSibling;
  const table = box.querySelector("table.every");
  const body = table.tBodies[0];
  const text = (row, column) => row.cells[column].textContent.trim();
  const number = (cell) => parseFloat(cell.replace(/^(paper|at least|at most) /, ""));

  table.querySelectorAll("thead th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const order = (a, b) => {
        const [x, y] = [text(a, column), text(b, column)];
        const [p, q] = [number(x), number(y)];
        const both = !isNaN(p) && !isNaN(q);
        return sign * (both ? p - q : x.localeCompare(y));
      };
      body.append(...[...body.rows].sort(order));
    });
  });

  const chosen = {};
  const apply = () => {
    for (const row of body.rows)
      row.hidden = Object.entries(chosen).some(
        ([column, value]) => value && text(row, column) !== value);
  };
  for (const [column, name] of [[0, "paper"], [6, "verdict"]]) {
    const label = document.createElement("label");
    const select = document.createElement("select");
    const values = new Set([...body.rows].map((row) => text(row, column)));
    select.add(new Option("all", ""));
    for (const value of [...values].sort()) select.add(new Option(value, value));
    select.addEventListener("change", () => {
      chosen[column] = select.value;
      apply();
    });
    label.append(name + " ", select);
    box.querySelector(".finder").append(label);
  }
})();
