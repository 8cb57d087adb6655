"use strict";
(() => {
  const form = document.getElementById("filters");
  const count = document.getElementById("count");
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const words = (text) => text.toLowerCase().replace(/\s+/g, " ");

  // Read once: what each row says, with the study and the table that it stands in.
  const claims = all("#summary tbody tr").map((row) => ({ row, text: words(row.textContent) }));
  const studies = all("section.study").map((section) => ({
    section,
    verdicts: all("ul.verdicts li", section),
    tables: all(".figures", section).map((block) => {
      const context = [section.querySelector("h2"), block.querySelector("h3"), block.querySelector("caption")];
      const before = words(context.map((part) => (part ? part.textContent : "")).join(" "));
      const rows = all("tbody tr", block).map((row) => ({ row, text: `${before} ${words(row.textContent)}` }));
      return { block, rows };
    }),
  }));

  const show = (element, shown) => {
    element.hidden = !shown;
    return shown;
  };
  const number = (shown, total, noun) => `${shown} of ${total} ${noun}`;

  function filter() {
    const wanted = Object.fromEntries(new FormData(form));
    const sought = words(wanted.text).split(" ").filter(Boolean);
    const says = (text) => sought.every((word) => text.includes(word));
    const is = (element, name) => !wanted[name] || element.dataset[name] === wanted[name];
    const here = (element) => is(element, "study") && is(element, "scale");

    let claimsShown = 0;
    const named = new Set();
    for (const { row, text } of claims) {
      const fits = here(row) && is(row, "verdict") && says(text);
      if (show(row, fits)) {
        claimsShown += 1;
        named.add(row.dataset.part);
      }
    }
    let studiesShown = 0;
    let rowsShown = 0;
    for (const { section, verdicts, tables } of studies) {
      const verdictFits = verdicts.filter((item) => show(item, is(item, "verdict"))).length > 0;
      let rowsHere = 0;
      for (const { block, rows } of tables) {
        const chosen = !wanted.objective || block.dataset.objectives.split("|").includes(wanted.objective);
        const fitting = rows.filter(({ row, text }) => show(row, chosen && says(text)));
        show(block, fitting.length > 0);
        rowsHere += fitting.length;
      }
      const rowsFit = rowsHere > 0 || !(wanted.objective || sought.length);
      // A claim that was sought and found brings its study along, even if no row says the word.
      const claimFits = sought.length > 0 && !wanted.objective && named.has(section.id);
      const fits = here(section) && (!wanted.verdict || verdictFits) && (rowsFit || claimFits);
      if (show(section, fits)) {
        studiesShown += 1;
        rowsShown += rowsHere;
      }
    }
    for (const link of all("nav a[data-part]")) {
      show(link, !document.getElementById(link.dataset.part).hidden);
    }
    const rowsTotal = studies.reduce((sum, { tables }) => sum + tables.reduce((n, { rows }) => n + rows.length, 0), 0);
    const summary = [
      number(claimsShown, claims.length, "claims"),
      number(studiesShown, studies.length, "studies"),
      number(rowsShown, rowsTotal, "rows of tables"),
    ].join(", ");
    const nothing = claimsShown + studiesShown === 0;
    count.textContent = nothing ? `Nothing fits all of these filters: ${summary} shown.` : `${summary} shown.`;
  }

  const shownParts = (part) => (part ? [part] : studies.filter(({ section }) => !section.hidden).map(({ section }) => section.id));

  async function copy(actions) {
    const text = shownParts(actions.dataset.part).map((id) => data.markdown[id]).join("\n");
    const status = actions.querySelector("[role=status]");
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = "Copied.";
    } catch {
      // A browser may refuse; then the text is there to be copied by hand.
      let area = actions.querySelector("textarea");
      if (!area) {
        area = document.createElement("textarea");
        area.readOnly = true;
        area.setAttribute("aria-label", "Markdown");
        actions.append(area);
      }
      area.value = text;
      area.focus();
      area.select();
      status.textContent = "The browser does not allow copying; the text is selected below.";
    }
  }

  function save(actions) {
    const ids = shownParts(actions.dataset.part);
    const value = actions.dataset.part ? data.results[ids[0]] : ids.map((id) => data.results[id]);
    const address = URL.createObjectURL(new Blob([`${JSON.stringify(value, null, 2)}\n`], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = `${actions.dataset.part || "studies"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    actions.querySelector("[role=status]").textContent = `Saved as ${link.download}.`;
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  // The fields are empty only after the event.
  form.addEventListener("reset", () => setTimeout(filter));
  for (const actions of all(".actions")) {
    actions.querySelector(".copy").addEventListener("click", () => copy(actions));
    actions.querySelector(".save").addEventListener("click", () => save(actions));
  }
  filter();
})();
