// Keys, forms that keep the page when the server is gone, and pages that wait. Pages work without.

const prefix = document.body.dataset.prefix;
const status = document.querySelector("#status");
const SAID = "neardup-said";
const ASK_AGAIN = 5000;

// Shows a sentence above the page; `again` is a form that can be sent once more.
function tell(text, kind, again) {
  status.textContent = text;
  status.className = kind;
  status.hidden = !text;
  if (again) {
    const button = document.createElement("button");
    button.textContent = "Try again";
    button.type = "button";
    button.addEventListener("click", () => send(again.form, again.button));
    status.append(" ", button);
  }
}

const GONE = "The server does not answer. What you typed is kept, and was not stored: start neardup review again, then try again.";

// Sends a form; goes to the next page, or says why not and leaves everything as it is.
async function send(form, button) {
  if (form.dataset.sending) return;
  form.dataset.sending = "yes";
  const fields = new URLSearchParams(new FormData(form));
  if (button && button.name) fields.set(button.name, button.value);
  try {
    // Not form.action: that is its field of this name, if it has one.
    const answer = await fetch(form.getAttribute("action"), {
      method: "POST",
      body: fields,
      headers: { "X-Sent-By": "script" },
      redirect: "error",
    });
    const told = await answer.json();
    if (!answer.ok) {
      tell(told.message, "refused");
      return;
    }
    form.querySelectorAll("[data-draft]").forEach((field) => sessionStorage.removeItem(field.dataset.draft));
    sessionStorage.setItem(SAID, told.said);
    go(told.next);
  } catch {
    tell(GONE, "gone", { form, button });
  } finally {
    delete form.dataset.sending;
  }
}

// Goes to an address, also if only what follows its # differs.
function go(address) {
  const next = new URL(address, location.href);
  const same = next.pathname === location.pathname && next.search === location.search;
  if (same && next.hash) {
    history.replaceState(null, "", next.href);
    location.reload();
  } else {
    location.assign(next.href);
  }
}

document.addEventListener("submit", (event) => {
  if (!("send" in event.target.dataset)) return;
  event.preventDefault();
  send(event.target, event.submitter);
});

// What was typed survives a reload, until it is stored.
for (const field of document.querySelectorAll("[data-draft]")) {
  field.value = sessionStorage.getItem(field.dataset.draft) ?? field.value;
  field.addEventListener("input", () => sessionStorage.setItem(field.dataset.draft, field.value));
}

const said = sessionStorage.getItem(SAID);
if (said) tell(said, "said");
sessionStorage.removeItem(SAID);

// -- keys ------------------------------------------------------------------------------------------

const items = Array.from(document.querySelectorAll("[data-list] > article, [data-list] a.row"));
let current = -1;

function move(step) {
  if (!items.length) return;
  mark(Math.min(Math.max(current + step, 0), items.length - 1));
  items[current].focus();
}

function mark(number) {
  items[current]?.classList.remove("current");
  current = number;
  items[current]?.classList.add("current");
}

items.forEach((item, number) => item.addEventListener("focusin", () => mark(number)));
const wanted = items.findIndex((item) => item.id && `#${item.id}` === location.hash);
if (wanted >= 0) {
  mark(wanted);
  items[wanted].focus();
} else if (items[0]?.tagName === "ARTICLE") {
  mark(0);
}

// The element that a key stands for: in the current article first, then outside of all of them.
function target(key) {
  const selector = `[data-key="${CSS.escape(key)}"]`;
  const inside = items[current]?.querySelector(selector);
  return inside ?? Array.from(document.querySelectorAll(selector)).find((one) => !one.closest("[data-list] > article"));
}

document.addEventListener("keydown", (event) => {
  // A key that is held down must not decide about the pages that follow.
  if (event.ctrlKey || event.metaKey || event.altKey || (event.repeat && !"jk".includes(event.key))) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || document.querySelector("dialog[open]")) return;
  if (event.key === "j" || event.key === "k") {
    move(event.key === "j" ? 1 : -1);
    event.preventDefault();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const found = target(event.key);
  if (!found || found.disabled) return;
  event.preventDefault();
  if (found.matches("input")) found.focus();
  else found.click();
});

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (!opener) return;
  const dialog = document.getElementById(opener.dataset.dialog);
  dialog.showModal();
  dialog.scrollTop = 0; // the button at its end has the focus
});

// -- the server ------------------------------------------------------------------------------------

let gone = false;

async function ask() {
  try {
    const answer = await fetch(`${prefix}/alive`, { cache: "no-store" });
    if (answer.status === 403) {
      tell("You are logged out, or the server was started again: open the address that it has printed.", "gone");
    } else if (gone) {
      tell("The server answers again.", "said");
    }
    gone = false;
    return answer.ok;
  } catch {
    if (!gone) tell(GONE, "gone");
    gone = true;
    return false;
  }
}

if (document.body.dataset.token) setInterval(() => document.hidden || ask(), ASK_AGAIN);
if (document.querySelector("[data-wait]")) {
  setTimeout(async () => (await ask()) && location.reload(), 500);
}
