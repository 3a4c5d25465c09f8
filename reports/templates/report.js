// Sorts and filters the findings, and unfolds what a link points at. The page is whole without it.
"use strict";
(() => {
  const list = document.getElementById("finding-list");
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
  if (!list) return;

  const findings = [...list.querySelectorAll(":scope > .finding")];
  const choices = (key) => [...new Set(findings.map((f) => f.dataset[key]))];
  const bar = document.createElement("form");
  bar.className = "tools";
  const status = document.createElement("output");

  const choose = (label, options) => {
    const own = document.createElement("label");
    const select = document.createElement("select");
    for (const [value, words] of options) select.add(new Option(words, value));
    select.addEventListener("change", show);
    own.append(`${label} `, select);
    bar.append(own);
    return select;
  };
  const filter = (label, key) => choose(label, [["", "all"], ...choices(key).map((v) => [v, v])]);
  const filters = { verdict: filter("Verdict", "verdict"), group: filter("About", "group"), setting: filter("Setting", "setting") };
  const orders = {
    worst: () => 0,
    setting: (a, b) => a.dataset.setting - b.dataset.setting,
    advantage: (a, b) => (b.dataset.advantage || -9) - (a.dataset.advantage || -9),
  };
  const order = choose("Sort by", [["worst", "verdict"], ["setting", "setting"], ["advantage", "advantage"]]);
  bar.append(status);
  bar.addEventListener("submit", (event) => event.preventDefault());
  list.before(bar);

  function show() {
    const sorted = [...findings].sort(orders[order.value]); // stable: ties stay in the page's order
    list.append(...sorted);
    let shown = 0;
    for (const f of findings) {
      f.hidden = Object.entries(filters).some(([key, select]) => select.value && select.value !== f.dataset[key]);
      shown += !f.hidden;
    }
    status.textContent = `${shown} of ${findings.length} findings`;
  }
  show();
})();
