"use strict";
// Only what no server can do: Airflow's own theme, and copying.

function airflowTheme() {
  try {
    const outer = window.parent.document.documentElement;
    if (window.parent === window) return null;
    return outer.classList.contains("dark") ? "dark" : "light";
  } catch {
    return null; // another origin: the system's own theme stays
  }
}

function follow() {
  const theme = airflowTheme();
  if (theme) document.documentElement.className = theme;
}

follow();
if (airflowTheme()) {
  new MutationObserver(follow).observe(window.parent.document.documentElement, { attributeFilter: ["class"] });
}

async function copy(button) {
  const source = button.parentElement.querySelector(".source");
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "copied";
  } catch {
    window.getSelection().selectAllChildren(source); // no clipboard without https: select it for the keyboard
    button.textContent = "press Ctrl+C";
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
});
