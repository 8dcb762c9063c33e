"use strict";
// What the scripts of Great Expectations' pages do: fold and unfold, change tabs, hide what succeeded, filter lists.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-toggle]");
  const target = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
  if (!target) return;
  event.preventDefault();
  if (link.dataset.toggle === "collapse") {
    link.setAttribute("aria-expanded", target.classList.toggle("show"));
  } else if (link.dataset.toggle === "tab") {
    for (const other of link.closest("[role=tablist]").querySelectorAll("a[data-toggle=tab]")) {
      other.classList.toggle("active", other === link);
      other.setAttribute("aria-selected", other === link);
    }
    for (const pane of target.parentElement.children) {
      pane.classList.toggle("active", pane === target);
      pane.classList.toggle("show", pane === target);
    }
  }
});

function hideSucceeded(choice) {
  for (const label of choice.closest("[data-toggle=buttons]").querySelectorAll("label")) {
    label.classList.toggle("active", label.contains(choice));
  }
  const succeeded = [
    ...document.querySelectorAll(".hide-succeeded-validation-target"),
    ...[...document.querySelectorAll(".hide-succeeded-validation-target-child")].map((one) => one.parentElement),
  ];
  const sections = [...document.querySelectorAll(".hide-succeeded-validations-column-section-target-child")];
  for (const section of sections.map((one) => one.parentElement.parentElement)) {
    succeeded.push(section, ...document.querySelectorAll(`a[href="#${CSS.escape(section.id)}"]`));
  }
  for (const one of succeeded) one.hidden = choice.id === "option2";
}

function filterList(field) {
  const wanted = field.value.trim().toLowerCase();
  for (const row of field.nextElementSibling.tBodies[0].rows) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}

const CHOICE = "[data-toggle=buttons] input[type=radio]";
document.addEventListener("change", (event) => event.target.matches(CHOICE) && hideSucceeded(event.target));
document.addEventListener("input", (event) => event.target.matches(".dc-filter") && filterList(event.target));
// A browser that goes back fills in what was chosen and typed before.
window.addEventListener("pageshow", () => {
  document.querySelectorAll(`${CHOICE}:checked`).forEach(hideSucceeded);
  document.querySelectorAll(".dc-filter").forEach(filterList);
});
