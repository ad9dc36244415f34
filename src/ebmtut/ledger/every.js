// Search and filters of the table of every number. Without scripts all lines are shown;
// with them the first fifty that match, and a button for the rest.
(() => {
  const box = document.currentScript.previousElementSibling;
  const finder = box.querySelector(".finder");
  const told = box.querySelector("[aria-live]");
  const rows = [...box.querySelector("table.every").tBodies[0].rows];
  const keys = rows.map((row) => row.dataset.k.split("|"));
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const chosen = ["", "", "", "largest"]; // only these are counted in the summary
  const STEP = 15;
  let most = STEP;

  const named = (name, control) => {
    const label = document.createElement("label");
    label.append(name, control);
    finder.append(label);
    return control;
  };
  const search = named("search", document.createElement("input"));
  search.type = "search";
  ["paper", "kind", "verdict", "run"].forEach((name, k) => {
    const select = named(name, document.createElement("select"));
    select.add(new Option("all", ""));
    for (const value of new Set(keys.map((key) => key[k]))) {
      const paper = document.querySelector(`.ledger a[href="#ledger-${value}"]`);
      select.add(new Option(paper?.textContent ?? value, value));
    }
    select.value = chosen[k];
    select.addEventListener("change", () => {
      chosen[k] = select.value;
      most = STEP;
      apply();
    });
  });
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  more.textContent = "show all matching lines";
  box.append(more);

  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, i) => {
      const fits = chosen.every((value, k) => !value || keys[i][k] === value)
        && words.every((word) => texts[i].includes(word));
      row.hidden = !fits || found >= most;
      found += fits;
    });
    told.textContent = `${Math.min(found, most)} of ${found} matching lines are shown, of `
      + `${rows.length} in all.`;
    more.hidden = found <= most;
  }
  search.addEventListener("input", () => {
    most = STEP;
    apply();
  });
  more.addEventListener("click", () => {
    most = Infinity;
    apply();
  });
  apply();
})();
