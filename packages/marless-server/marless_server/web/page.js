"use strict";
// Parts of the page with the attribute data-live follow the server while its page has the attribute data-follow.
const LEAST_MS = 2000, MOST_MS = 60000;
// A request to an address with a password is an error, and the page's own address may have one.
const address = location.origin + location.pathname + location.search;

async function load() {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`it answers ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

function replaceParts(page) {
  const link = document.activeElement?.getAttribute("href");
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    const hasFocus = part.contains(document.activeElement);
    part.replaceChildren(...next.childNodes);
    if (hasFocus && link) part.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({preventScroll: true});
  }
}

async function follow() {
  let goesOn = document.querySelector("main[data-follow]"), wait = LEAST_MS;
  while (goesOn) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (document.hidden) continue;
    const begin = performance.now();
    try {
      const page = await load();
      goesOn = page.querySelector("main[data-follow]");
      replaceParts(page);
      // A busy server is asked less often.
      wait = Math.min(MOST_MS, Math.max(LEAST_MS, 10 * (performance.now() - begin)));
    } catch (error) {
      wait = Math.min(MOST_MS, 2 * wait);
      document.getElementById("note").textContent = `No news from the server: ${error.message}. This page asks again.`;
    }
  }
}

follow();
