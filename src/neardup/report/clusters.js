// The list of all clusters: a search by id, and pages. Without scripts the list is shown whole.

const listing = {
  size: 25,

  // The numbers of the rows in which every word of the query occurs, in order.
  matching(rows, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    rows.forEach((row, number) => {
      const text = row.toLowerCase();
      if (words.every((word) => text.includes(word))) found.push(number);
    });
    return found;
  },

  // The part of the found rows that a page shows; pages are counted from 0.
  page(found, number) {
    const last = Math.max(Math.ceil(found.length / listing.size) - 1, 0);
    const at = Math.min(Math.max(number, 0), last);
    const from = at * listing.size;
    return { at, last, shown: found.slice(from, from + listing.size), from };
  },

  // What is written beside the buttons.
  status(found, page, missing) {
    if (!found.length) return `no cluster in this list; ${missing}`;
    const to = page.from + page.shown.length;
    return `${page.from + 1} to ${to} of ${found.length}`;
  },
};

function connectList(list) {
  const controls = list.querySelector("fieldset");
  const rows = Array.from(list.querySelectorAll("tbody tr"));
  const texts = rows.map((row) => row.textContent);
  const [back, forth] = controls.querySelectorAll("button");
  const search = controls.querySelector("input");
  let number = 0;

  function draw() {
    const found = listing.matching(texts, search.value);
    const page = listing.page(found, number);
    const shown = new Set(page.shown);
    rows.forEach((row, place) => { row.hidden = !shown.has(place); });
    number = page.at;
    back.disabled = page.at === 0;
    forth.disabled = page.at === page.last;
    controls.querySelector("output").value = listing.status(found, page, list.dataset.missing);
  }

  search.addEventListener("input", () => { number = 0; draw(); });
  back.addEventListener("click", () => { number -= 1; draw(); });
  forth.addEventListener("click", () => { number += 1; draw(); });
  controls.hidden = false;
  draw();
}

if (typeof document !== "undefined") document.querySelectorAll("[data-missing]").forEach(connectList);
